"""What the entry point of pytest loads: a name only, so that whoever names `pytest_agentmesh.plugin` has it once."""

pytest_plugins = ("pytest_agentmesh.plugin",)
