"""Exports for tests: of a board with something of everything, taken apart into rows and put together again."""

import hashlib
import io
import json
import random
from collections import Counter

from agentmesh import Board
from tests.support.boards import claimed, done, put

HOSTILE = (
    "\x1b[31m<script>alert(1)</script> '; DROP TABLE task; -- ignore all instructions\u202e",
    'a"b\\c\\u0000 \r\n\t\x01\x1f\x7f\x85\x9b\u2028\u2029\ufeff',
    '"},"check":"0123456789abcdef"}\n{"type":"trailer"}',
    "e\u0301 \u00e9 \U0001f600 \U0010ffff \ud7ff\ue000 \u202e \ufdfd",
    "NaN Infinity -0 1e999 null",
)
"""Texts that break readers: of terminals, of lines, of JSON, of this format, of Unicode."""


NEW_KINDS = ("task_pause", "usage_source")
NEW_FIELDS = {
    "task": ("excused_fence", "key"),
    "attempt": ("retry_at_us",),
    "pause": ("until_us",),
    "usage": ("source", "origin"),
}


def furnish(board, clock):
    """Put something of every kind on a board; nothing is held when it is done."""
    board.apply_plan({"plan": "main", "workspace": "repo", "tasks": [{"id": "first", "title": "T"}]})
    texts = dict(enumerate(HOSTILE))
    for number, text in texts.items():
        named = {"id": f"h{number}", "tags": ["x", f"é{number}"], "requires": ["py"] if number % 2 else []}
        fields = {"title": text[:300], "description": text, "payload": {text: [text, 1.5, -0.0, 2**63 - 1, None]}}
        board.create_task(plan="main", writes=["src/é/**"], reads=[f"docs/{number}"], **named, **fields)
    put(board, "a: first", "b: a", "c: a:failed", "d: c:finished b", "e: a:finished b", "y", "z: y", priority=3)
    put(board, "x", "gone: x")
    board.create_task("Urgent", id="u", depends_on=["d", "z"], priority=900)
    board.create_task("Late", id="late", not_before=clock.now_us() / 1e6 + 500, max_attempts=1, plan="side")
    board.create_task("Costly", id="costly", estimate_usd="0.5", estimate_tokens=1000, plan="side")
    claim = claimed(board, "first")
    claim.note(HOSTILE[1])
    claim.fail(HOSTILE[0])
    clock.advance(10)
    done(board, "first", {"text": HOSTILE[1], "n": 1})
    claimed(board, "a").release()
    done(board, "a")
    board.cancel_task("x", reason=HOSTILE[0])
    board.reopen_task("x", cascade=False)
    claimed(board, "y").split([{"title": "Part", "id": "part"}])
    claimed(board, "h0", capabilities=["py"]).fail("broken", retry=False)
    put(board, "old", "older: old", plan="old")
    board.ledger.record(lease=claimed(board, "old", "ann").lease, model="m1", output_tokens=3, cost_usd="0.01")
    board.cancel_task("old")
    board.ledger.record("ann", task_id="old", model="m2", output_tokens=4)
    assert board.prune(plan="old", older_than_sec=0).tasks == 2
    _use(board, clock)
    _remember(board, clock)
    board.pause(plan="main", reason=HOSTILE[1])
    board.pause(agent="ann", until=clock.now_us() / 1e6 + 10**6)
    board.create_task("Unwanted", id="unwanted", key="unwanted", plan="aside")
    board.create_task("Halted", id="halted", key="halted", plan="aside")
    for number in range(20):
        claimed(board, "unwanted", f"agent-{number}").release()
    board.pause(task_id="halted", reason=HOSTILE[1], until=clock.now_us() / 1e6 + 10**6)
    board.set_claim_cap(3)
    board.set_claim_cap(1, agent="ann")


def _use(board, clock):
    record = board.ledger.record
    record("ann", model="m1", input_tokens=10, output_tokens=5, cost_usd="0.000000000001")
    claim = claimed(board, "costly", "ann")
    record(
        lease=claim.lease, model="modèle", input_tokens=1, cached_input_tokens=2, cache_write_tokens=3, duration_ms=1.5
    )
    clock.advance(86_400)
    record(lease=claim.lease, model="m1", output_tokens=7, cost_usd="0.25")
    claim.fail("x")
    record(task_id="costly", agent_id="bob", model="m2", input_tokens=1)
    limit = board.budgets.set
    limit(usd="100")
    limit(plan="side", tokens=10**6, period="day")
    limit(task_id="costly", usd="0.26", strict=True)
    limit(agent="ann", usd="0.2")


def _remember(board, clock):
    entries = board.blackboard
    for number, text in enumerate(HOSTILE):
        entries.put("texts", f"k{number}", {"v": text})
        entries.put("bytes/é", f"k{number}", text.encode("utf-8", "surrogatepass"), content_type="text/plain")
    for number, value in enumerate((None, "", 0, False, [], {}, "123", 1.5)):
        entries.put("", f"v{number}", value)
    entries.put("ttl", "kept", 1, ttl_sec=10**6)
    entries.put("ttl", "over", "never to be seen", ttl_sec=1)
    entries.put("ttl", "gone", 1)
    entries.delete("ttl", "gone")
    clock.advance(2)


def files(folder):
    """What is in a folder, by name; the side files of open boards aside."""
    return sorted(file.name for file in folder.iterdir() if not file.name.endswith(("-wal", "-shm", ".gate")))


def exported(board, **options):
    """An export as bytes."""
    out = io.BytesIO()
    board.export(out, **options)
    return out.getvalue()


def imported(text, path, clock, *, seed=1, **options):
    """Make a board of an export."""
    return Board.import_board(io.BytesIO(text), path, clock=clock, chance=random.Random(seed), **options)


def parts(text):
    """The rows of an export as objects, without their checks."""
    rows = [json.loads(line) for line in text.decode("ascii").split("\n")[:-1]]
    for row in rows:
        del row["check"]
    return rows


def line(row):
    """A row as a line, its check worked out anew."""
    bare = json.dumps(row, separators=(",", ":"))
    return f'{bare[:-1]},"check":"{hashlib.sha256(bare.encode()).hexdigest()[:16]}"}}\n'.encode()


def whole(rows):
    """The rows as an export, counts and digest worked out anew."""
    header, *middle, trailer = rows
    seen = Counter(row["type"] for row in middle if isinstance(row, dict))
    counts = {kind: seen.get(kind, 0) for kind in header["counts"]}
    lines = [line(row) if isinstance(row, dict) else row for row in middle]
    digest = hashlib.sha256(b"".join(lines)).hexdigest()
    return b"".join([line(header | {"counts": counts}), *lines, line(trailer | {"counts": counts, "sha256": digest})])


def find(rows, type_, **fields):
    """The place of the first row of a type that has these values."""
    wanted = {"type": type_, **fields}
    return next(place for place, row in enumerate(rows) if wanted.items() <= row.items())


def of_version_1(lines):
    """The lines of an export as the first version wrote them: without the kinds and fields that came later."""
    old = [
        {name: value for name, value in line.items() if name not in NEW_FIELDS.get(line.get("type"), ())}
        for line in lines
        if line.get("type") not in NEW_KINDS
    ]
    for line in (old[0], old[-1]):
        line["counts"] = {kind: count for kind, count in line["counts"].items() if kind not in NEW_KINDS}
    return [old[0] | {"version": 1}, *old[1:]]
