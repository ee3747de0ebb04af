"""The `sitecustomize` of an environment in which examples are tested: none of its processes speaks to the outside.

What was tried nevertheless is refused, and written down beside this file.
"""

import ipaddress
import sys
from pathlib import Path

TRIED = Path(__file__).with_name("tried.txt")


def is_near(host):
    """Whether it is this machine: an address of loopback, its name, or nothing to connect to."""
    try:
        return host in (None, "", b"", "localhost") or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def watch(event, arguments):
    """Refuse names to look up and addresses to connect to that are elsewhere."""
    if event in ("socket.getaddrinfo", "socket.gethostbyname"):
        host = arguments[0]
    elif event in ("socket.connect", "socket.sendto") and isinstance(arguments[1], tuple):
        host = arguments[1][0]
    else:
        return
    if not is_near(host):
        with TRIED.open("a") as file:
            file.write(f"{event} {host} by {' '.join(sys.orig_argv)}\n")
        raise PermissionError(f"An example wants to reach {host}.")


sys.addaudithook(watch)
