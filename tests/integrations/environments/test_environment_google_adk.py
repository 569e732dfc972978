"""Google ADK and Inspect AI, in an environment of their own."""

from __future__ import annotations

from tests.integrations.environments.environment import EnvironmentTests


class TestGoogleADK(EnvironmentTests):
    extra = "dev-google-adk"
