"""The plans that agents keep by tools of their own."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from wane.tools.plans import AgentPlan

LISTS = {"TodoWrite": ("todos", "content"), "write_todos": ("todos", "description"), "update_plan": ("plan", "step")}


def plan_arguments(tool: str, statuses: Mapping[str, str]) -> str:
    key, text = LISTS[tool]
    return json.dumps({key: [{text: entry, "status": status} for entry, status in statuses.items()]})


@pytest.mark.parametrize("tool", LISTS)
def test_a_list_replaces_the_plan(tool: str) -> None:
    plan = AgentPlan()
    assert plan.read(tool, plan_arguments(tool, {"look": "in_progress", "fix": "pending"}))
    assert plan.current == "look"
    assert plan.read(tool, plan_arguments(tool, {"look": "completed", "fix": "in_progress"}))
    assert plan.current == "fix"
    assert plan.read(tool, plan_arguments(tool, {"ship": "pending"}))
    assert plan.current == ""
    assert list(plan.entries) == ["ship"]


def test_tasks_are_created_and_updated_by_number() -> None:
    plan = AgentPlan()
    for subject in ("look", "fix"):
        plan.read("TaskCreate", json.dumps({"subject": subject, "description": "at length", "activeForm": "…ing"}))
    assert plan.current == ""
    plan.read("TaskUpdate", json.dumps({"taskId": "2", "status": "in_progress"}))
    assert plan.current == "fix"
    plan.read("TaskUpdate", json.dumps({"taskId": "2", "subject": "repair"}))
    assert plan.current == "repair"
    plan.read("TaskUpdate", json.dumps({"taskId": "2", "status": "completed"}))
    assert [entry.status for entry in plan.entries.values()] == ["pending", "completed"]
    assert plan.current == ""


def test_of_several_entries_in_progress_the_latest_is_current() -> None:
    plan = AgentPlan()
    plan.read("TodoWrite", plan_arguments("TodoWrite", {"a": "pending", "b": "in_progress"}))
    plan.read("TodoWrite", plan_arguments("TodoWrite", {"a": "in_progress", "b": "in_progress"}))
    assert plan.current == "a"
    plan.read("TodoWrite", plan_arguments("TodoWrite", {"a": "completed", "b": "in_progress"}))
    assert plan.current == "b"


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("read", '{"todos": [{"content": "x", "status": "in_progress"}]}'),
        ("TodoWrite", plan_arguments("TodoWrite", {"a": "in_progress"})),
        ("TaskUpdate", '{"taskId": "7", "status": "completed"}'),
        ("TaskUpdate", '{"taskId": ["a"], "status": 5}'),
    ],
)
def test_other_calls_and_calls_that_say_nothing_new_change_nothing(tool: str, arguments: str) -> None:
    plan = AgentPlan()
    plan.read("TodoWrite", plan_arguments("TodoWrite", {"a": "in_progress"}))
    assert not plan.read(tool, arguments)
    assert plan.current == "a"


@pytest.mark.parametrize("arguments", [None, "", "[", "[]", "5", '{"todos": 5}', '{"todos": [5, {}, {"content": 5}]}'])
def test_arguments_that_hold_no_list_leave_an_empty_plan(arguments: str | None) -> None:
    plan = AgentPlan()
    plan.read("TodoWrite", arguments)
    assert not plan.entries
    assert plan.current == ""
