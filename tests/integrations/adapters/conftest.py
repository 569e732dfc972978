"""Which tests of the adapters run before each change; the others are for `make test-all`."""

from __future__ import annotations

import os

import pytest

# These frameworks report each run to their makers.
os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"
os.environ["AGNO_TELEMETRY"] = "false"

SHARED_RUN = {
    "test_requests_stay_within_the_budget",
    "test_the_history_stays_whole_and_unchanged",
    "test_each_request_is_a_part_of_the_history",
    "test_refused_calls_are_results",
    "test_a_new_process_goes_on_with_the_same_view",
}
OTHERS = {
    "test_streamed_is_the_same_as_not_streamed",
    "test_what_was_evicted_can_be_recalled",
    "test_a_history_that_grows_is_not_taken_for_another",
    "test_two_conversations_have_a_window_each",
    "test_a_sub_agent_has_a_window_of_its_own",
}
"""The tests of the contract: those that share a conversation, and those that take most of the time."""
ELSEWHERE = ("test_google_adk.py", "test_inspect_ai.py", "test_openhands.py", "test_mini_swe_agent.py")
"""Files of frameworks that run in an environment of their own."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark them; all tests of Pydantic AI run, as the agent stands on it."""
    for item in items:
        if "adapters" not in item.path.parts or item.path.name == "test_pydantic_ai.py":
            continue
        if item.name in OTHERS or (item.path.name in ELSEWHERE and item.name not in SHARED_RUN):
            item.add_marker(pytest.mark.wide)
