"""Sessions of the user's own agents at the test's board, over MCP, and the server for their frameworks."""

from pytest_agentmesh.sessions.mesh_session import Sessions
from pytest_agentmesh.sessions.scopes import WrongTask
from pytest_agentmesh.sessions.sdk import MissingSdk
from pytest_agentmesh.sessions.server import Server
from pytest_agentmesh.sessions.strikes import FaultNeverStruck

__all__ = ["FaultNeverStruck", "MissingSdk", "Server", "Sessions", "WrongTask"]
