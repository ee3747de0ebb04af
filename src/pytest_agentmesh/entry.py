"""What pytest's entry point loads: only a name, so that whoever names `pytest_agentmesh.plugin` himself has it once."""

pytest_plugins = ("pytest_agentmesh.plugin",)
