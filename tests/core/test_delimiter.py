"""The protocol (R3): what is accepted, what is rejected, and that a rejection teaches."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wane.core.delimiter import DESCRIPTION, SCHEMA, DelimiterProtocol
from wane.core.episodes import EpisodeType


def call(**arguments: object) -> str:
    return json.dumps(arguments)


def after_expl() -> DelimiterProtocol:
    protocol = DelimiterProtocol()
    assert protocol.judge(call(action="start", name="look", type="expl")).accepted
    assert protocol.judge(call(action="end", description="seen")).accepted
    return protocol


def in_expl() -> DelimiterProtocol:
    protocol = after_expl()
    assert protocol.judge(call(action="start", name="look-more", type="expl")).accepted
    return protocol


def in_act() -> DelimiterProtocol:
    protocol = after_expl()
    assert protocol.judge(call(action="start", name="fix", type="act", dependencies=["look"])).accepted
    return protocol


def after_act() -> DelimiterProtocol:
    protocol = in_act()
    assert protocol.judge(call(action="end")).accepted
    return protocol


STATES = {"new": DelimiterProtocol, "explored": after_expl, "in_expl": in_expl, "in_act": in_act, "acted": after_act}

REJECTED = [
    ("new", "", "not valid JSON"),
    ("new", None, "not valid JSON"),
    ("new", '{"INVALID_JSON": "{\\"action\\": \\"sta"}', "not valid JSON"),
    ("new", '{"action": "start"', "not valid JSON"),
    ("new", "[" * 100_000, "not valid JSON"),
    ("new", '["start"]', "not a JSON object"),
    ("new", '"start"', "not a JSON object"),
    ("new", "null", "not a JSON object"),
    ("new", "{}", '"action" must be'),
    ("new", call(action=None), '"action" must be'),
    ("new", call(action="begin", name="a", type="expl"), '"action" must be'),
    ("new", call(action=1), '"action" must be a string'),
    ("new", call(action="start", name=5, type="expl"), '"name" must be a string'),
    ("new", call(action="start", name="  ", type="expl"), 'needs a "name"'),
    ("new", call(action="start", type="act"), 'needs a "name"'),
    ("new", call(action="start", name="a"), "no type was given"),
    ("new", call(action="start", name="a", type="plan"), '"plan" is no type'),
    ("new", call(action="start", name="a", type=["expl"]), '"type" must be a string'),
    ("new", call(action="start", name="a", type="expl", description=5), '"description" must be a string'),
    ("new", call(action="start", name="a", type="act"), 'needs the field "dependencies"'),
    ("new", call(action="start", name="a", type="act", dependencies=None), 'needs the field "dependencies"'),
    ("new", call(action="start", name="a", type="act", dependencies="look"), "must be a list of strings"),
    ("new", call(action="start", name="a", type="act", dependencies=[1]), "must be a list of strings"),
    ("new", call(action="start", name="a", type="act", dependencies=["look"]), "was never started"),
    ("new", call(action="end"), "no episode is active"),
    ("explored", call(action="start", name="look", type="expl"), "was used before"),
    ("explored", call(action="start", name=" look ", type="act", dependencies=["look"]), "was used before"),
    ("explored", call(action="start", name="a", type="expl", dependencies=["look"]), "takes no dependencies"),
    ("in_expl", call(action="start", name="b", type="expl"), "still active"),
    ("in_expl", call(action="end"), 'needs a "description"'),
    ("in_expl", call(action="end", description=" \n"), 'needs a "description"'),
    ("in_expl", call(action="end", description=" <what you learned> "), "is a placeholder"),
    ("in_expl", call(action="end", name="look", description="x"), 'is "look-more", not "look"'),
    ("in_act", call(action="end", description="done"), "takes no description"),
    ("acted", call(action="start", name="a", type="act", dependencies=["fix"]), "is not a closed expl"),
]

REFUSALS = {
    "not valid JSON": "malformed",
    "not a JSON object": "malformed",
    "must be a string": "malformed",
    "must be a list": "malformed",
    '"action" must be': "no action",
    'needs a "name"': "no name",
    "type was given": "no type",
    "is no type": "no type",
    'needs the field "dependencies"': "no dependencies",
    "was never started": "dependency unknown",
    "is not a closed expl": "dependency not closed",
    "no episode is active": "none active",
    "was used before": "name used",
    "takes no dependencies": "expl with dependencies",
    "still active": "still active",
    'needs a "description"': "no description",
    "is a placeholder": "placeholder",
    'is "look-more", not': "other name",
    "takes no description": "act with description",
}


def fill_placeholders(lesson: str) -> str:
    """A call that was shown, its placeholders in angle brackets filled in."""
    fields = json.loads(lesson)
    for name, value in (("description", "seen"), ("name", "new"), ("dependencies", ["look"])):
        if "<" in json.dumps(fields.get(name)):
            fields[name] = value
    return json.dumps(fields)


@pytest.mark.parametrize(("state", "arguments", "why"), REJECTED)
def test_a_rejection_says_why_changes_nothing_and_shows_a_call_that_works(
    state: str, arguments: str | None, why: str
) -> None:
    protocol = STATES[state]()
    before = (dict(protocol.started), protocol.active)
    verdict = protocol.judge(arguments)
    assert not verdict.accepted
    assert why in verdict.text
    assert verdict.refusal == next(kind for words, kind in REFUSALS.items() if words in why)
    assert (protocol.started, protocol.active) == before
    assert protocol.judge(fill_placeholders(verdict.text.split("A right call: ")[1])).accepted


def test_the_four_canonical_calls() -> None:
    protocol = DelimiterProtocol()
    start = protocol.judge(call(action=" start ", name=" look ", type="expl", dependencies=[], other=1))
    assert (start.action, start.name, start.type) == ("start", "look", EpisodeType.EXPL)
    end = protocol.judge(call(action="end", name=None, description=" seen "))
    assert (end.action, end.name, end.description) == ("end", "look", "seen")
    act = protocol.judge(call(action="start", name="fix", type="act", dependencies=["look", " look ", ""]))
    assert act.dependencies == ("look",)
    assert start.refusal is end.refusal is act.refusal is None
    assert protocol.judge(call(action="end", name=" fix ", description=" ")).accepted


@pytest.mark.parametrize("state", ["new", "explored"])
@pytest.mark.parametrize("dependencies", [[], [" ", ""]])
def test_an_act_may_depend_on_nothing(state: str, dependencies: list[str]) -> None:
    assert STATES[state]().judge(call(action="start", name="a", type="act", dependencies=dependencies)).accepted


def test_an_act_that_builds_on_nothing_is_told_so_where_there_is_something_to_build_on() -> None:
    start = call(action="start", name="a", type="act", dependencies=[])
    assert after_expl().judge(start).text == 'Started action "a", building on nothing.'
    assert DelimiterProtocol().judge(start).text == 'Started action "a".'
    # One that is not closed yet is nothing to build on.
    protocol = DelimiterProtocol()
    protocol.judge(call(action="start", name="b", type="act", dependencies=[]))
    protocol.judge(call(action="end"))
    assert protocol.judge(start).text == 'Started action "a".'


def test_what_has_left_the_view_is_told_and_accepted_all_the_same() -> None:
    start = call(action="start", name="fix", type="act", dependencies=["look", "look-more"])
    protocol = in_expl()
    protocol.judge(call(action="end", description="seen"))
    before = replace(protocol, started=dict(protocol.started))
    verdict = protocol.judge(start, lambda name: "all" if name == "look" else "none")
    assert (verdict.dependencies, verdict.absent) == (("look", "look-more"), {"look": "all"})
    assert verdict.text == 'Started action "fix", building on "look", "look-more".'
    gone = f'{verdict.text} The steps of "look" have left your view.'
    assert verdict.answer(recall=True) == (
        f'{gone} `recall` finds what you need of them: {{"name": "look", "search": "<text in it>"}}. Read again what '
        "has changed since."
    )
    assert verdict.answer(recall=False) == f"{gone} Read again what you need of them."
    there = before.judge(start)
    assert there.answer(recall=True) == there.text == verdict.text


def test_what_has_left_in_part_is_told_apart() -> None:
    start = call(action="start", name="fix", type="act", dependencies=["look", "look-more"])
    protocol = in_expl()
    protocol.judge(call(action="end", description="seen"))
    part = replace(protocol, started=dict(protocol.started)).judge(start, lambda name: "some").answer(recall=False)
    assert 'Some steps of "look", "look-more" have left your view.' in part
    mixed = protocol.judge(start, lambda name: "all" if name == "look-more" else "some").answer(recall=False)
    assert 'The steps of "look-more" and some steps of "look" have left your view.' in mixed


def test_a_closing_pair_stands_for_itself_when_the_rest_has_left() -> None:
    # By the name that the model is asked for in the call, and by what the result says.
    lesson = json.loads(in_expl().judge(call(action="end")).text.split("A right call: ")[1])
    assert lesson["name"] == "look-more"
    assert json.loads(in_act().judge("").text.split("A right call: ")[1]) == {"action": "end", "name": "fix"}
    assert DESCRIPTION.count('"action":"end","name":"<its name>"') == 2
    text = in_expl().judge(call(action="end", name="look-more", description="seen")).text
    assert text == 'Ended exploration "look-more"; its start and steps may leave your view.'


def test_a_description_may_speak_of_tags() -> None:
    assert in_expl().judge(call(action="end", description="<main> holds it")).accepted


def test_an_act_is_no_dependency() -> None:
    protocol = in_act()
    protocol.judge(call(action="end"))
    assert (
        "is not a closed expl" in protocol.judge(call(action="start", name="b", type="act", dependencies=["fix"])).text
    )


def test_a_rejected_start_does_not_use_up_its_name() -> None:
    protocol = DelimiterProtocol()
    assert not protocol.judge(call(action="start", name="a")).accepted
    assert protocol.judge(call(action="start", name="a", type="expl")).accepted


def test_text_for_the_model_can_be_encoded_whatever_the_name() -> None:
    protocol = DelimiterProtocol()
    assert protocol.judge('{"action": "start", "name": "\\ud800", "type": "expl"}').text.encode()
    assert protocol.judge('{"action": "start", "name": "\\udfff", "type": "expl"}').text.encode()


@given(st.text() | st.recursive(st.none() | st.booleans() | st.floats() | st.text(), st.lists).map(json.dumps))
def test_no_arguments_raise(arguments: str) -> None:
    for state in STATES.values():
        state().judge(arguments)


def test_the_schema_is_the_paper_s() -> None:
    assert set(SCHEMA["properties"]) == {"action", "name", "type", "dependencies", "description"}
    assert SCHEMA["required"] == ["action"]


@pytest.mark.parametrize(
    ("state", "arguments", "lesson"),
    [
        ("explored", call(action="start", name="look", type="expl"), {"name": "look-2", "type": "expl"}),
        ("new", call(action="start", name="fix", type="plan"), {"name": "fix", "type": "expl"}),
        ("new", call(action="start", type="act"), {"name": "<task-and-object>", "type": "act", "dependencies": []}),
        (
            "explored",
            call(action="start", name="fix", type="act", dependencies=["nope"]),
            {"name": "fix", "type": "act", "dependencies": ["<an expl it will use>"]},
        ),
    ],
)
def test_the_call_that_is_shown_is_closest_to_what_the_model_meant(
    state: str, arguments: str, lesson: dict[str, Any]
) -> None:
    text = STATES[state]().judge(arguments).text
    assert json.loads(text.split("A right call: ")[1]) == {"action": "start", **lesson}


def test_an_act_that_needs_explorations_is_shown_the_latest_closed_ones() -> None:
    act = call(action="start", name="fix", type="act", dependencies=["nope"])
    assert 'Closed explorations, latest first: "look". ' in after_expl().judge(act).text
    assert "Closed explorations" not in DelimiterProtocol().judge(act).text
