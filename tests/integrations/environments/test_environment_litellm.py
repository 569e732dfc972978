"""mini-swe-agent and LiteLLM, in an environment of their own."""

from __future__ import annotations

from tests.integrations.environments.environment import EnvironmentTests


class TestLiteLLM(EnvironmentTests):
    extra = "dev-litellm"
