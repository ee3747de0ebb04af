"""`python -m agentmesh.cli`, for places where the console script is not on the path."""

from agentmesh.cli.main import main

main()
