"""What the entry point of pytest loads: only a name, so that whoever names `pytest_agentmesh.plugin` too has it once."""

pytest_plugins = ("pytest_agentmesh.plugin",)
