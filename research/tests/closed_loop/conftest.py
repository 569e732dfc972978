"""Runs of the scripted agent, as for the tests of the demo."""

from tests.scripted.conftest import own_places

__all__ = ["own_places"]
