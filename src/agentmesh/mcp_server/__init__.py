"""The MCP server: a board's verbs as tools for agents."""

from agentmesh.mcp_server.stdio import serve_stdio

__all__ = ["serve_stdio"]
