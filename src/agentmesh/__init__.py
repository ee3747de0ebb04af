"""AgentMesh: the task board that a swarm of LLM agents shares."""

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
