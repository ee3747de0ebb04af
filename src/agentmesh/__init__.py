"""AgentMesh: the task board that a swarm of LLM agents shares.

To pytest it is part of a plugin, and would be named in a warning if a project imports it first: PYTEST_DONT_REWRITE.
"""

from agentmesh.board.claim import Claim
from agentmesh.board.facade import Board
from agentmesh.errors import AgentMeshError
from agentmesh.model import Attempt, Dependency, Entry, Event, Lease, NoClaim, Task

__all__ = [
    "AgentMeshError",
    "Attempt",
    "Board",
    "Claim",
    "Dependency",
    "Entry",
    "Event",
    "Lease",
    "NoClaim",
    "Task",
]
