"""A scripted stand-in for the endpoint of a language model, on loopback.

It speaks what the SDKs speak (OpenAI chat completions and responses, Anthropic messages; streaming or not), so an
agent of any framework is tested as it is: `mesh_model.agent("a").script(call("claim_task"), text("done"))`. It is on
`http.server`, a thread a request. Fake endpoints that exist were looked at first: mockllm, fakellm and ai-mock bring
FastAPI into an environment where the user's framework has its own, aimock needs Node, llm-mock and openai-responses
patch one HTTP library in this process. None of them lets a reply use the result of the tool before it, holds arguments
against the schema that was offered, fails a test over what was left unsaid, or knows a board's clock and ledger; what
they would have saved us is the three forms of the answer, which the SDKs themselves hold us to (`tests/plugin`).
"""

from pytest_agentmesh.endpoint.endpoint import Endpoint
from pytest_agentmesh.endpoint.model import AgentModel

__all__ = ["AgentModel", "Endpoint"]
