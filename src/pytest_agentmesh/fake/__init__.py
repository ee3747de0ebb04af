"""Made-up work for tests: `MeshFake`, the Faker provider beneath it, shapes of graphs, and the words of the trade."""

from pytest_agentmesh.fake.mesh_fake import MeshFake

__all__ = ["MeshFake"]
