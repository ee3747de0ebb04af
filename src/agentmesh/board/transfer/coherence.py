"""What the values of one row must be together, each of them being right by itself."""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode

from agentmesh import limits
from agentmesh.board.transfer.batch import Values
from agentmesh.errors import InvalidArgument
from agentmesh.model import FINAL

TOKENS = ("input_tokens", "cached_input_tokens", "cache_write_tokens", "output_tokens")


def one_task(row: Values) -> None:
    """A task: how it stands, and what that asks for.

    Raises:
        InvalidArgument: its values do not fit together.
    """
    state = row["state"]
    if (row["ended_us"] is not None) != (state in FINAL):
        raise InvalidArgument("ended_us", "is there if, and only if, the state is final")
    if state == "failed" and row["reason"] is None:
        raise InvalidArgument("reason", "is missing: a failed task says why")
    if state == "scheduled" and row["not_before_us"] is None:
        raise InvalidArgument("not_before_us", "is missing: a scheduled task waits for a time")
    if row["max_hold_us"] < row["lease_timeout_us"]:
        raise InvalidArgument("max_hold_us", "must not be shorter than lease_timeout_us")
    if row["reads"] and set(row["reads"]) & set(row["writes"]):
        raise InvalidArgument("reads", "must not repeat what is written")
    if row["root"] is not None and state != "cancelled":
        raise InvalidArgument("root", "is there, and the task is not cancelled")


def one_attempt(row: Values) -> None:
    """An attempt: open or ended.

    Raises:
        InvalidArgument: its values do not fit together.
    """
    if (row["ended_us"] is None) != (row["outcome"] is None):
        raise InvalidArgument("ended_us", "is there if, and only if, there is an outcome")
    for field in ("heartbeat_us", "lease_expires_us"):
        if row[field] < row["started_us"]:
            raise InvalidArgument(field, "comes before started_us")
    if row["kind"] is not None and row["outcome"] != "failed":
        raise InvalidArgument("kind", "is there, and the attempt has not failed")
    if row["retry_at_us"] is not None and row["kind"] not in ("infra", "quota"):
        raise InvalidArgument("retry_at_us", "is there, and the attempt has not failed for want of infra or quota")


def one_sum(row: Values) -> None:
    """Sums of usage: a part is not more than the whole.

    Raises:
        InvalidArgument: it is.
    """
    tokens = sum(row[field] for field in TOKENS)
    for part, whole in (
        ("wasted_tokens", tokens),
        ("wasted_us", row["duration_us"]),
        ("wasted_pusd", row["cost_pusd"]),
        ("unpriced", row["entries"]),
    ):
        if row[part] > whole:
            raise InvalidArgument(part, "is more than the whole")


def from_base64(value: object) -> bytes:
    """The bytes that a text in base64 stands for.

    Raises:
        InvalidArgument: it is none, or not the one way to write them, or they are too many.
    """
    if not isinstance(value, str):
        raise InvalidArgument("value", "must be text in base64: the entry has a content type")
    try:
        data = b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        data = b""
    if b64encode(data).decode("ascii") != value:
        raise InvalidArgument("value", "must be text in base64: the entry has a content type")
    return limits.artifact("value", data)
