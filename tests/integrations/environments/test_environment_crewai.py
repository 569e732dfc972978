"""CrewAI, in an environment of its own."""

from __future__ import annotations

from tests.integrations.environments.environment import EnvironmentTests


class TestCrewAI(EnvironmentTests):
    extra = "dev-crewai"
