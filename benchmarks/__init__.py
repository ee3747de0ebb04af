"""What AgentMesh costs, each figure as a ratio between two sides measured in the same run; see docs/benchmarks.md."""
