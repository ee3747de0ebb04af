"""The MCP server on HTTP: the SDK under uvicorn, for many clients at once. Needs the extra `http`."""
