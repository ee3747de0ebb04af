"""Swarms of scripted agents: what an agent does, who steps next, and a world that checks every promise as they go."""

from pytest_agentmesh.swarm.agents import Agent, Me, agent
from pytest_agentmesh.swarm.steps import (
    Lost,
    claim,
    complete,
    do,
    fail,
    get,
    heartbeat,
    note,
    put,
    release,
    spend,
    split,
    work,
)
from pytest_agentmesh.swarm.world import AgentOutcome, NotQuiet, Run, World

__all__ = [
    "Agent",
    "AgentOutcome",
    "Lost",
    "Me",
    "NotQuiet",
    "Run",
    "World",
    "agent",
    "claim",
    "complete",
    "do",
    "fail",
    "get",
    "heartbeat",
    "note",
    "put",
    "release",
    "spend",
    "split",
    "work",
]
