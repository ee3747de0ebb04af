"""The test bench of AgentMesh: it proves that a swarm of agents behaves."""
