"""Boards as an earlier AgentMesh left them, and the backups that their upgrades leave."""

import apsw
import pytest

from agentmesh.store import migrate
from tests.support.boards import damage, open_board

VERSIONS = [number for number, _ in migrate.migrations("sqlite")]
*_, BEFORE, NEWEST = VERSIONS

FIRST_ROWS = (
    "INSERT INTO plan (pk, name, workspace, created_us) VALUES (1, 'default', '', 0)",
    "INSERT INTO tally (plan_pk, in_progress) VALUES (1, 1)",
    """INSERT INTO task (pk, id, plan_pk, title, state, priority, urgency, requires_pk, parents, unmet, fence,
                         opened_fence, charged, max_attempts, lease_timeout_us, max_hold_us, created_us, has_body)
       VALUES (1, 'old', 1, 'Old', 'in_progress', 0, 0, 0, 0, 0, 1, 0, 1, 3, 60000000, 600000000, 0, 0)""",
    """INSERT INTO attempt (task_pk, fence, agent_id, secret, charged, holds, started_us, heartbeat_us,
                            lease_expires_us)
       VALUES (1, 1, 'ann', 'token', 1, 0, 0, 0, 60000000)""",
)
"""A held task as the first release wrote it."""


def backups(board_path):
    """The backups that upgrades have left beside a board, by name."""
    return sorted(board_path.parent.glob(f"{board_path.name}.schema-*.backup"))


def make_old(board_path, clock, version=BEFORE):
    """Make a board as the AgentMesh of that schema left it, with a held task."""
    known_then = tuple(one for one in migrate.migrations("sqlite") if one[0] <= version)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(migrate, "migrations", lambda _engine: known_then)
        with open_board(board_path, clock) as board:
            for sql in FIRST_ROWS:
                damage(board, sql)
            assert board.store._writer.pragma("user_version") == version


def schema(path):
    """The schema of a file that nothing has open, and whether its task is there."""
    with apsw.Connection(f"file:{path}?immutable=1", apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI) as file:
        found = file.pragma("user_version"), file.execute("SELECT id FROM task").get
    file.close()
    return found
