"""The environment in which the usual SDKs and frameworks find this endpoint, and nothing else."""

from __future__ import annotations

from typing import Final

LOOPBACK: Final = "127.0.0.1,localhost,::1"
PROXIES: Final = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")
ELSEWHERE: Final = (
    "ANTHROPIC_AUTH_TOKEN",  # beside a key, old SDKs send both, new ones warn
    "ANTHROPIC_BEDROCK_BASE_URL",
    "ANTHROPIC_CUSTOM_HEADERS",
    "ANTHROPIC_PROFILE",
    "ANTHROPIC_VERTEX_BASE_URL",
    "AWS_BEARER_TOKEN_BEDROCK",
    "AZURE_OPENAI_API_KEY",
    "AZURE_OPENAI_ENDPOINT",
    "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_VERTEX",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "GROQ_API_KEY",
    "LANGFUSE_SECRET_KEY",
    "LANGSMITH_API_KEY",
    "MISTRAL_API_KEY",
    "OPENAI_ADMIN_KEY",
    "OPENAI_API_TYPE",
    "OPENAI_CUSTOM_HEADERS",
    "OPENAI_ORG_ID",
    "OPENAI_PROJECT_ID",
    "OPENAI_WEBSOCKET_BASE_URL",
    "OPENROUTER_API_KEY",
)
"""What would lead an SDK to another place, or let a framework fall back on another vendor."""
QUIET: Final = {
    "ANONYMIZED_TELEMETRY": "False",  # Chroma, which CrewAI's memory is on, and browser-use
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "CREWAI_DISABLE_TELEMETRY": "true",
    "CREWAI_DISABLE_TRACKING": "true",
    "CREWAI_TRACING_ENABLED": "false",
    "DISABLE_TELEMETRY": "1",  # Claude Code
    "DO_NOT_TRACK": "1",
    "LANGCHAIN_TRACING_V2": "false",
    "LANGFUSE_TRACING_ENABLED": "false",
    "LANGSMITH_TRACING": "false",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # it fetches a list of prices when it is imported
    "OPENAI_AGENTS_DISABLE_TRACING": "1",
    "OTEL_SDK_DISABLED": "true",
}
"""What keeps frameworks from telling others of what they do."""


class Address:
    """Where a model is: what its clients need to be told."""

    @property
    def url(self) -> str:
        """The root, as Anthropic's SDK wants it."""
        raise NotImplementedError

    @property
    def key(self) -> str:
        """The API key."""
        raise NotImplementedError

    @property
    def anthropic_url(self) -> str:
        """The `base_url` for Anthropic's SDK."""
        return self.url

    @property
    def openai_url(self) -> str:
        """The `base_url` for OpenAI's SDK."""
        return f"{self.url}/v1"

    def env(self) -> dict[str, str | None]:
        """The environment in which SDKs and frameworks find it and nothing else; None removes a variable."""
        return _environment(self.openai_url, self.anthropic_url, self.key)


def _environment(openai_url: str, anthropic_url: str, key: str) -> dict[str, str | None]:
    return {
        "OPENAI_BASE_URL": openai_url,
        "OPENAI_API_BASE": openai_url,  # LiteLLM and older SDKs
        "OPENAI_API_KEY": key,
        "ANTHROPIC_BASE_URL": anthropic_url,
        "ANTHROPIC_API_BASE": anthropic_url,  # LiteLLM
        "ANTHROPIC_API_URL": anthropic_url,  # LangChain
        "ANTHROPIC_API_KEY": key,
        "NO_PROXY": LOOPBACK,
        "no_proxy": LOOPBACK,
        **QUIET,
        **dict.fromkeys((*PROXIES, *ELSEWHERE)),
    }
