"""Which file systems can hold a board: WAL needs memory that all openers share, so one host and a local disk.

On the refused ones SQLite's locks or its shared memory do not work between openers; what is seen there ranges from
clean errors to a damaged file within a minute. The table follows SQLite's own description of WAL's limits and public
reports on shared folders of virtual machines and containers.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple

from agentmesh.errors import UnsupportedFileSystem

UNSUPPORTED = {
    "nfs": "a network file system",
    "nfs4": "a network file system",
    "cifs": "a network share",
    "smb3": "a network share",
    "smbfs": "a network share",
    "afs": "a network file system",
    "ceph": "a cluster file system",
    "glusterfs": "a cluster file system",
    "lustre": "a cluster file system",
    "9p": "a host folder mounted into a virtual machine or container",
    "virtiofs": "a host folder mounted into a virtual machine or container",
    "drvfs": "a Windows drive seen from WSL",
    "vboxsf": "a shared folder of a virtual machine",
    "vmhgfs": "a shared folder of a virtual machine",
    "prl_fs": "a shared folder of a virtual machine",
    "osxfs": "a host folder mounted into a container",
    "grpcfuse": "a host folder mounted into a container",
    "sshfs": "a remote folder",
    "rclone": "a remote folder",
    "s3fs": "an object store",
    "gcsfuse": "an object store",
    "davfs": "a network share",
}

OCTAL = re.compile(rb"\\([0-3][0-7]{2})")


class Mount(NamedTuple):
    """A line of the mount table: where the file system is mounted, and its type."""

    point: str
    kind: str


NO_MOUNT = Mount("", "")
"""The system has no mount table."""


def refuse_unsupported(path: Path, mount: Mount, *, hint: str | None = None) -> None:
    """Refuse a path whose mount cannot carry WAL, with another `hint` than the usual one if there is a better.

    Raises:
        UnsupportedFileSystem: the mount's type is in the table.
    """
    if why := why_unsupported(mount.kind):
        message = f"{path} is on {mount.kind}, {why}: several processes cannot share a board there."
        raise UnsupportedFileSystem(message, hint=hint)


def why_unsupported(kind: str) -> str | None:
    """What a file system of this type is, if it cannot carry WAL."""
    bare = "vmhgfs" if kind == "fuse.vmhgfs-fuse" else kind.removeprefix("fuse.")
    return UNSUPPORTED.get(bare)


def mount_of(path: Path, mounts: Path) -> Mount:
    """The deepest mount at or above `path`; `NO_MOUNT` where the system has no mount table."""
    try:
        table = mounts.read_bytes()  # as bytes: only a blank, a tab, a line feed and a backslash are escaped in a name
    except OSError:
        return NO_MOUNT
    best = NO_MOUNT
    below = f"{path}/"
    for line in table.split(b"\n"):
        _device, escaped, kind, *_ = *line.split(b" ", 3), b"", b""
        point = os.fsdecode(OCTAL.sub(lambda match: bytes([int(match[1], 8)]), escaped))
        if point and len(point) >= len(best.point) and below.startswith(point.rstrip("/") + "/"):
            best = Mount(point, os.fsdecode(kind))
    return best
