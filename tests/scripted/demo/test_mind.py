"""The scripted model decides from the messages that it is sent, and from nothing else."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.scripted.requests import TOOLS, reply_messages, request, user
from wane.scripted.demo.mind import PATIENCE, Decision, Position, decide, find, position_in
from wane.scripted.demo.moves import Definition, Fact, Look, ScriptStep, SourceLine, Task, check, rewrite, swap
from wane.scripted.model_calls import act, end, explore, search
from wane.scripted.sight import Sight
from wane.testing import Call, Message

PATH = "shop.py"
OLD = "def price(n):\n    return n\n"
NEW = "def price(n):\n    return n * 2\n"
FILE = f"[shop.py | 4 lines]\n     1\t{OLD.splitlines()[0]}\n     2\t{OLD.splitlines()[1]}\n     3\t\n     4\tTAX = 3\n"
TAX = Fact("tax", r"^TAX = (\d+)", path=PATH)

EDIT = ScriptStep("Change it, tax is «tax».", (rewrite(PATH, "def price(", NEW),), needs=(TAX,))
TASK = Task(
    "Prices",
    "Task 1. Double the price.",
    (
        ScriptStep("Look.", (explore("prices"), search("price"), Look((Definition(PATH, "def price("),)))),
        ScriptStep("Now I know.", (end("prices", "tax is «tax»"), act("double", on=("prices",))), needs=(TAX,)),
        EDIT,
        ScriptStep("Test.", (check(), end("double"))),
        ScriptStep("Done."),
    ),
)


def read(result: str = FILE) -> tuple[str, dict[str, Any], str]:
    return ("read_file", {"path": PATH}, result)


def answer(*messages: Message, tools: tuple[str, ...] = TOOLS, tasks: tuple[Task, ...] = (TASK,)) -> Decision:
    return decide(request(*messages, tools=tools), tasks)


def tools_of(reply: Decision) -> list[str]:
    return [call.tool for call in reply.calls]


DONE = ("edit_file", {"path": PATH, "old_text": OLD, "new_text": NEW.strip("\n")}, "Edited shop.py.")
STALE = ("edit_file", {"path": PATH, "old_text": "x", "new_text": "y"}, "Error: old_text not found in shop.py.")


@pytest.mark.parametrize(
    ("messages", "position", "tools"),
    [
        ([user(TASK.prompt)], "1.1", ["delimiter", "grep", "read_file"]),
        ([*reply_messages("9.9", read()), user(TASK.prompt)], "1.1", ["delimiter", "grep"]),
        (reply_messages("1.2", read()), "1.3", ["edit_file"]),
        (reply_messages("1.2"), "1.3?", ["read_file"]),
        (reply_messages("1.3?", read()), "1.3", ["edit_file"]),
        ([user(TASK.prompt), *reply_messages("1.3", STALE)], "1.3?", ["read_file"]),
        ([*reply_messages("1.1", read()), *reply_messages("1.2", DONE)], "1.4", ["shell", "delimiter"]),
        (
            [user(TASK.prompt), *reply_messages("1.2", read()), *reply_messages("1.2!", ("delimiter", {}, "Started."))],
            "1.3",
            ["edit_file"],
        ),
        ([user("hello")], "0.0", []),
    ],
    ids=[
        "it begins where the user does",
        "what is in view is not read again",
        "its place is what it said last, even if the task is out of view",
        "what is not in view is looked up",
        "and the step comes back",
        "an edit of what has changed meanwhile leads to a read",
        "an edit that is done is not done again",
        "after a corrected mark the plan goes on",
        "a request without a task gets an answer",
    ],
)
def test_where_it_is_and_what_it_does(messages: list[Message], position: str, tools: list[str]) -> None:
    reply = answer(*messages)
    assert (str(reply.position), tools_of(reply)) == (position, tools)


def test_without_the_tool_it_marks_nothing() -> None:
    tools = tuple(tool for tool in TOOLS if tool != "delimiter")
    assert tools_of(answer(user(TASK.prompt), tools=tools)) == ["grep", "read_file"]


def test_it_says_what_it_knows_and_what_it_looks_for() -> None:
    assert list(answer(*reply_messages("9.9", read()), user(TASK.prompt)).knowledge) == [Definition(PATH, "def price(")]
    reply = answer(*reply_messages("1.2", read()))
    assert reply.say == "Change it, tax is 3."
    assert reply.calls == (Call("edit_file", {"path": PATH, "old_text": OLD.rstrip(), "new_text": NEW.strip("\n")}),)
    assert set(answer(*reply_messages("1.2")).sought) == {Definition(PATH, "def price("), TAX}


@pytest.mark.parametrize(
    ("messages", "why"),
    [
        (reply_messages(f"1.3{'?' * PATIENCE}", read("[shop.py | 1 lines]\n     1\tempty\n")), "do not find it"),
        (
            [user(TASK.prompt), *reply_messages("1.4", ("shell", {"command": "sh check"}, "FAILED\n[exit code: 1]"))],
            "tests fail",
        ),
    ],
    ids=["looking does not help", "the tests fail"],
)
def test_when_it_gives_up(messages: list[Message], why: str) -> None:
    reply = answer(*messages)
    assert not reply.calls
    assert why in reply.say


def test_the_newest_text_counts() -> None:
    refused = ("edit_file", {"path": PATH, "old_text": OLD, "new_text": "def price(n):\n    pass"}, "Error: refused")
    sight = Sight(
        request(*reply_messages("1.1", read()), *reply_messages("1.2", DONE), *reply_messages("1.3", refused))
    )
    found = find(sight, Definition(PATH, "def price("))
    assert found is not None
    assert found.text == NEW.strip("\n")


def test_an_end_names_its_episode() -> None:
    learned = answer(*reply_messages("1.1", read()))
    assert learned.calls[0].arguments == {"action": "end", "name": "prices", "description": "tax is 3"}
    tested = answer(*reply_messages("1.3", read()))
    assert tested.calls[-1].arguments == {"action": "end", "name": "double"}


def test_a_refused_mark_is_put_right_as_the_refusal_says() -> None:
    right = '{"action": "start", "name": "double", "type": "act", "dependencies": ["prices"]}'
    wrong = (
        "delimiter",
        {"action": "start", "name": "double", "type": "act", "dependencies": []},
        f"Error: no. A right call: {right}",
    )
    reply = answer(user(TASK.prompt), *reply_messages("1.2", wrong))
    assert str(reply.position) == "1.2!"
    assert reply.calls == (Call("delimiter", json.loads(right)),)


def test_a_line_may_be_seen_in_a_search() -> None:
    grep = ("grep", {"pattern": "TAX"}, "other.py:9:TAX = 4\nshop.py:4:TAX = 3")
    task = Task("T", "Task 1. x", (ScriptStep("s", (swap(PATH, "TAX = 3", "TAX = 4"),)), ScriptStep("end")))
    sight = Sight(request(user("Task 1. x"), *reply_messages("8.8", grep)))
    assert find(sight, SourceLine(PATH, "TAX = 3")) is not None
    assert find(sight, SourceLine(PATH, "TAX = 4")) is None
    assert find(sight, Definition(PATH, "TAX")) is None, "one line of a search is not a whole definition"
    assert tools_of(answer(*reply_messages("8.8", grep), user("Task 1. x"), tasks=(task,))) == ["edit_file"]


def test_a_description_serves_where_the_output_is_gone() -> None:
    end = ("delimiter", {"action": "end", "name": "prices", "description": "TAX = 3"}, 'Ended exploration "prices".')
    found = find(Sight(request(*reply_messages("1.2", end))), TAX)
    assert found is not None
    assert (found.text, found.described) == ("3", True)


def test_what_only_an_episode_holds_is_recalled_or_where_that_cannot_be_found_out_anew() -> None:
    count = Fact("count", r"count (\d+)", episode="before", otherwise="git stash; count")
    task = Task("T", "Task 1. x", (ScriptStep("It was «count».", (check(),), needs=(count,)), ScriptStep("end")))
    end = ("delimiter", {"action": "end", "name": "before", "description": "counted"}, 'Ended exploration "before".')
    known = [*reply_messages("8.8", end), user("Task 1. x")]
    assert answer(*known, tasks=(task,)).calls == (Call("recall", {"name": "before"}),)
    assert answer(user("Task 1. x"), tasks=(task,)).calls == (Call("shell", {"command": "git stash; count"}),)
    later = ("shell", {"command": "count"}, "count 9")
    recalled = ("recall", {"name": "before"}, 'Episode "before", whole:\n\ncount 5')
    assert (
        answer(*reply_messages("8.9", later), user("Task 1. x"), *reply_messages("1.1?", recalled), tasks=(task,)).say
        == "It was 5."
    )


def test_a_place_is_read_back_as_it_is_written() -> None:
    for place in (Position(1, 2), Position(10, 11, "!"), Position(3, 1, "??")):
        assert position_in(Sight(request(*reply_messages(str(place))))) == place
