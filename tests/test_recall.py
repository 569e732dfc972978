"""The tool `recall`: pages of episodes, and excerpts from wherever a pattern stands."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conversation.support import answer_message, result, user
from tests.strategies import sessions
from wane import ContextWindow, Episode, Policy
from wane.core import RECALL
from wane.formats import Transcript, get_format
from wane.formats.message_format import Part
from wane.recall import RECALL_SCHEMA, Archive, answer, page_size

Message = dict[str, Any]


def archive(messages: list[Message], budget: int = 80_000) -> Archive:
    window, transcript = ContextWindow(budget, Policy.paper()), Transcript(get_format("openai"))
    parts: list[Part] = []
    episodes: list[Episode] = []
    for message in messages:
        for item, part in transcript.take(message):
            parts.append(part)
            added = window.add(item)
            episodes += [added.opened] if added.opened else []
    window.fit()
    return Archive(window, window.budget, parts, episodes, transcript.message_of, len(messages), lambda: window.visible)


CONFIG = "host = x\n" * 40 + "port = 8443  # behind the proxy\n" + "tls = on\n" * 40

START = {"action": "start", "name": "find-port", "type": "expl"}

SESSION: list[Message] = [
    user("Which port?"),
    answer_message(
        None,
        ("m1", "delimiter", {"action": "start", "name": "find-port", "type": "expl"}),
        ("r1", "read", {"path": "a.toml"}),
    ),
    result("m1", "Started."),
    result("r1", CONFIG),
    answer_message(None, ("m2", "delimiter", {"action": "end", "description": "the port is in a.toml"})),
    result("m2", "Ended."),
    answer_message("It is in a.toml, port 8443."),
    user("Thanks."),
    answer_message("Fine."),
]


def ask(store: Archive, **arguments: object) -> str:
    return answer(json.dumps(arguments), store)


def test_a_search_gives_exact_excerpts_with_their_places() -> None:
    text = ask(archive(SESSION, 100), search=r"port = \d+")
    head, entry = text.split("\n\n", 1)
    assert head == '"port = \\\\d+" was found in 1 place.'
    place, cut, excerpt = entry.split("\n", 2)
    assert place.startswith(
        '1. Message 4 of 9, result of `read` {"path": "a.toml"}, in episode "find-port", not in view;'
    )
    start, stop = map(int, re.findall(r"\d+", cut)[:2])
    assert excerpt == CONFIG[start:stop]
    assert "port = 8443  # behind the proxy\n" in excerpt
    assert len(excerpt) <= 700


def test_what_has_left_the_view_comes_first_and_then_the_latest() -> None:
    text = ask(archive(SESSION, 100), search="8443")
    places = re.findall(r"^\d+\. Message (\d+) of 9, .*?(not in view|in view)", text, re.MULTILINE)
    assert places == [("4", "not in view"), ("7", "in view")]
    assert [it for it, _ in re.findall(r"Message (\d+)()", ask(archive(SESSION), search="8443"))] == ["7", "4"]


def test_one_reads_on_where_the_match_stands() -> None:
    store = archive(SESSION, 100)
    for pattern in ("8443", "host = x", "the port is in", "a.toml", "Ended"):
        text = ask(store, search=pattern, name="find-port")
        around = json.loads(text[text.index("read on there with ") + 19 :].split(":\n")[0])
        assert around["name"] == "find-port"
        page = ask(store, **around)
        assert page.split("\n\n", 1)[1].lstrip("[").startswith(pattern) or around["offset"] == 0


def test_a_search_within_an_episode() -> None:
    store = archive(SESSION)
    assert "in 1 place" in ask(store, name="find-port", search="8443")
    assert "Nothing matches" in ask(store, name="find-port", search="Thanks")
    assert ask(store, name="nobody", search="x").startswith("Error: no episode is named 'nobody'")


def test_what_recalls_ask_for_and_bring_is_not_found() -> None:
    again = [
        answer_message(None, ("c1", RECALL, {"search": "needle"})),
        result("c1", "1. Message 1: needle"),
        answer_message("There."),
    ]
    assert "in 1 place." in ask(archive([user("a needle"), *again, *again]), search="needle")


def test_places_come_page_by_page() -> None:
    messages: list[Message] = []
    for number in range(30):
        messages += [user(f"call {number}"), answer_message(f"needle {number}")]
    store = archive(messages)
    seen: list[str] = []
    asked: dict[str, Any] = {"search": "needle"}
    while asked:
        text = ask(store, **asked)
        seen += re.findall(r"^needle (\d+)$", text, re.MULTILINE)
        more = re.search(r"Go on with: (.*)\]$", text)
        asked = json.loads(more[1]) if more else {}
    assert seen == [str(n) for n in range(29, -1, -1)]
    assert "offset 99 is beyond them" in ask(store, search="needle", offset=99)


def test_the_answer_says_how_it_was_looked_for() -> None:
    store = archive(SESSION)
    assert "Case is ignored." in ask(store, search="THANKS")
    assert "as plain text: it is not a regular expression" in ask(store, search="f(x")
    assert "nothing in" not in ask(store, search="no such thing")
    assert ask(store, search="no such thing").startswith('Nothing matches "no such thing" in this conversation')


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({}, "needs the name of an episode, or a text to search for"),
        ({"search": 7}, "needs the name"),
        ({"search": " ", "name": ""}, "needs the name"),
        ({"search": "x" * 1_001}, "at most 1000 characters"),
        ({"search": "x", "offset": "3"}, '"offset" must be a whole number'),
        ({"search": "x", "offset": True}, '"offset" must be a whole number'),
        ({"search": "qq", "offset": -5}, "Nothing matches"),
        ([], "needs the name"),
    ],
)
def test_wrong_arguments_are_told(arguments: object, told: str) -> None:
    assert told in answer(json.dumps(arguments), archive(SESSION))


def test_the_schema_asks_for_neither() -> None:
    assert set(RECALL_SCHEMA["properties"]) == {"name", "search", "offset"}
    assert "required" not in RECALL_SCHEMA


@given(
    session=sessions(), budget=st.integers(1, 3_000), pattern=st.sampled_from(["e", "x+", r"\w{3}", "start", "(", "E0"])
)
def test_excerpts_are_exact_and_pages_bounded(session: list[Message], budget: int, pattern: str) -> None:
    store = archive(session, budget)
    text = ask(store, search=pattern)
    assert text == ask(store, search=pattern)
    texts = store.texts()
    excerpts = re.split(r"\n\n(?:\d+\. Message .*\n(?:\[characters .*\]\n)?|\[\d+ more)", text)[1:]
    if not text.startswith("Nothing"):
        assert any(excerpts[0] in each for each in texts)
    entries = len(re.findall(r"^\d+\. Message ", text, re.MULTILINE))
    assert len(text) <= page_size(budget) + 200 + entries * 400
