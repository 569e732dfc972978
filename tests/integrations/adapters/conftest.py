"""Which tests of the adapters run before each change."""

from __future__ import annotations

import pytest

OWN_RUN = {
    "test_streamed_is_the_same_as_not_streamed",
    "test_what_was_evicted_can_be_recalled",
    "test_a_history_that_grows_is_not_taken_for_another",
    "test_two_conversations_have_a_window_each",
    "test_a_sub_agent_has_a_window_of_its_own",
}
"""Tests of the contract that share no conversation with the others, and take most of its time."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave these to `make test-all`, but for Pydantic AI, on which the agent stands."""
    for item in items:
        if item.name in OWN_RUN and "adapters" in item.path.parts and item.path.name != "test_pydantic_ai.py":
            item.add_marker(pytest.mark.wide)
