"""`Board`: the verbs of AgentMesh, one method each, one transaction each."""

from __future__ import annotations

from agentmesh.board.verbs.accounting import Accounting
from agentmesh.board.verbs.awaiting import Awaiting
from agentmesh.board.verbs.maintaining import Maintaining
from agentmesh.board.verbs.operating import Operating
from agentmesh.board.verbs.planning import Planning
from agentmesh.board.verbs.remembering import Remembering


class Board(Planning, Awaiting, Operating, Remembering, Accounting, Maintaining):
    """A task board that many processes share. Thread-safe; not to be used after a fork.

    Arguments are checked before the transaction; the work inside is a closure that may run again, should an engine want
    to retry it; waiters are poked after the commit.
    """
