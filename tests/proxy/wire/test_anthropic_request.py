"""Anthropic requests: what is managed, what the proxy adds, and how a view goes into a body."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.proxy.wire.anthropic_replies import WIRE, Block, call, own, text, thinking
from tests.proxy.wire.views import view_of, with_view
from tests.strategies import times
from wane.conversation.request import Tool
from wane.core.errors import FormatError
from wane.proxy.wire.anthropic.anthropic_wire import BINDING_BETA
from wane.proxy.wire.wire import Body, Equipped, Message, OwnCall
from wane.testing.anthropic import Anthropic

MARK = {"type": "ephemeral"}
LONG = {"type": "ephemeral", "ttl": "1h"}
TOOL = Tool("delimiter", "Marks work.", {"type": "object"})
READ = {"name": "read", "input_schema": {"type": "object"}}


def user(*content: Block) -> Message:
    return {"role": "user", "content": list(content)}


def user_message(content: str) -> Message:
    return {"role": "user", "content": content}


def model(*content: Block) -> Message:
    return {"role": "assistant", "content": list(content)}


def result(id_: str, content: Any = "r", **fields: Any) -> Block:
    return {"type": "tool_result", "tool_use_id": id_, "content": content, **fields}


def with_breakpoint(block: Block, mark: object = MARK) -> Block:
    return {**block, "cache_control": mark}


def marks(value: object) -> Iterator[object]:
    """The breakpoints in a body, in order."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key == "cache_control":
                yield inner
            else:
                yield from marks(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from marks(inner)


def place(sent: list[Message], view: list[Message], **body: Any) -> list[Message]:
    before = deepcopy((sent, view))
    placed: list[Message] = with_view(WIRE, {**body, "messages": sent}, view)["messages"]
    assert (sent, view) == before, "nothing is changed in place"
    return placed


# What is managed


def test_a_request_with_tools_of_the_clients_is_managed() -> None:
    body = {"messages": [user_message("Hi")], "tools": [READ]}
    assert WIRE.why_unmanaged(body) is None
    assert WIRE.why_unmanaged({**body, "tools": [{"type": "bash_20250124", "name": "bash"}]}) is None
    assert WIRE.refusal(body) is None


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ({"messages": [user_message("Hi")]}, "no tools"),
        ({"messages": [user_message("Hi")], "tools": []}, "no tools"),
        (
            {"messages": [user_message("Hi")], "tools": [{"type": "web_search_20250305", "name": "web_search"}]},
            "no tools",
        ),
        ({"messages": [user_message("Hi")], "tools": {}}, "no tools"),
        ({"messages": [user_message("Hi")], "tools": "read"}, "tools"),
        ({"messages": [], "tools": [READ]}, "messages"),
        ({"messages": "Hi", "tools": [READ]}, "messages"),
        ({"tools": [READ]}, "messages"),
        ({"messages": [user_message("Hi")], "tools": [READ], "system": 1}, "system"),
        ({"messages": [user_message("Hi")], "tools": [READ], "thread": {"type": "create"}}, "send all messages"),
        (
            {
                "messages": [user_message("Hi")],
                "tools": [READ],
                "thread": {"type": "continue", "previous_message_id": "msg_1"},
            },
            "no budget is kept",
        ),
    ],
)
def test_a_request_that_is_not_managed_has_a_reason(body: Body, why: str) -> None:
    assert why in (WIRE.why_unmanaged(body) or "")


def test_the_clients_tools_are_those_that_it_runs() -> None:
    tools = [
        READ,
        {"type": "custom", "name": "edit"},
        {"type": "text_editor_20250728", "name": "str_replace_based_edit_tool"},
        {"type": "code_execution_20260521", "name": "code_execution"},
        {"type": "tool_search_tool_regex_20251119", "name": "tool_search_tool_regex"},
        {"type": "mcp_toolset", "mcp_server_name": "x"},
        {"type": "browser_toolset_20260801"},
        "odd",
    ]
    found = WIRE.tools({"tools": tools})
    assert found == {"read", "edit", "str_replace_based_edit_tool", "browser_toolset_20260801"}
    assert WIRE.tools({}) == frozenset()


def test_messages_are_those_of_the_body() -> None:
    messages = [user_message("Hi"), model(text("Ho"))]
    found = WIRE.messages({"messages": messages})
    assert all(one is other for one, other in zip(found, messages, strict=True))
    for wrong in (None, "Hi", ["Hi"]):
        with pytest.raises(FormatError, match="list of objects"):
            WIRE.messages({"messages": wrong})


# What the proxy adds


def test_the_tool_and_the_guidance_stand_last_and_carry_no_breakpoint() -> None:
    body = {
        "model": "m",
        "system": [with_breakpoint(text("Be brief."))],
        "tools": [READ, with_breakpoint({**READ, "name": "edit"})],
        "messages": [user_message("Hi")],
    }
    before = deepcopy(body)
    equipped = WIRE.equip(body, [TOOL], "Mark your work.").body
    assert body == before
    assert equipped["tools"][:2] == body["tools"]
    assert equipped["tools"][2] == {"name": "delimiter", "description": "Marks work.", "input_schema": TOOL.schema}
    assert equipped["system"] == [*body["system"], text("Mark your work.")]
    assert list(marks(equipped)) == list(marks(body))
    assert WIRE.equip(body, [TOOL], "Mark your work.").body == equipped


@pytest.mark.parametrize(
    ("system", "blocks"),
    [({"system": "Be brief."}, [text("Be brief.")]), ({}, []), ({"system": ""}, []), ({"system": []}, [])],
)
def test_a_system_prompt_of_any_shape_becomes_blocks(system: Body, blocks: list[Block]) -> None:
    body = {"messages": [user_message("Hi")], "tools": [READ], **system}
    assert WIRE.equip(body, [TOOL], "G").body["system"] == [*blocks, text("G")]
    assert WIRE.equip(body, [], "").body == body


def test_what_is_fixed_has_no_breakpoints() -> None:
    body = {
        "system": [with_breakpoint(text("S"))],
        "tools": [with_breakpoint(READ)],
        "messages": [user_message("Hi")],
        "max_tokens": 1,
    }
    assert WIRE.fixed_data(Equipped(body)) == {"system": [text("S")], "tools": [READ]}
    assert WIRE.fixed_data(Equipped({"system": "S", "messages": []})) == {"system": [text("S")]}


def test_equal_messages_are_equal_wherever_breakpoints_stand_and_however_text_is_written() -> None:
    plain = user_message("Hi")
    assert (
        WIRE.canonical(plain) == WIRE.canonical(user(with_breakpoint(text("Hi")))) == WIRE.canonical(user(text("Hi")))
    )
    assert WIRE.canonical(plain) != WIRE.canonical(user_message("Ho"))
    assert WIRE.canonical(plain) != WIRE.canonical({"role": "assistant", "content": "Hi"})
    nested = user(with_breakpoint(result("c", [with_breakpoint(text("r"))])))
    assert WIRE.canonical(nested) == WIRE.canonical(user(result("c", "r")))
    assert WIRE.canonical(nested) != WIRE.canonical(user(result("d", "r")))
    image = {"type": "image", "source": {"type": "base64", "data": "eA=="}}
    assert WIRE.canonical(user(image, text("a"))) == WIRE.canonical(user(with_breakpoint(image), text("a")))


def test_results_are_one_message() -> None:
    answers = [(OwnCall("o1", "delimiter", "{}"), "Started."), (OwnCall("o2", "delimiter", "{}"), "Ended.")]
    assert WIRE.results(answers) == (user(result("o1", "Started."), result("o2", "Ended.")),)
    assert WIRE.results([]) == ()


def test_a_result_is_cleared_with_its_breakpoint_kept() -> None:
    message = user(text("a"), result("c", [text("r"), with_breakpoint(text("s"))], is_error=True), result("d"))
    before = deepcopy(message)
    cleared = WIRE.format.clear_result(message, 1, "[cleared]")
    assert cleared == user(text("a"), with_breakpoint(result("c", "[cleared]", is_error=True)), result("d"))
    assert message == before
    found = {"type": "web_search_tool_result", "tool_use_id": "s", "content": []}
    searched = model({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}, found)
    assert WIRE.format.clear_result(searched, 1, "[cleared]") == searched


# A view in a body


def test_a_view_of_everything_is_what_the_client_sent() -> None:
    sent = [
        user_message("Hi"),
        user_message("again"),
        model(with_breakpoint(call("c"))),
        user(with_breakpoint(result("c")), text("so")),
        user_message("And?"),
    ]
    placed = place(sent, list(sent), model="m")
    assert all(one is other for one, other in zip(placed, sent, strict=True))
    assert with_view(WIRE, {"model": "m", "messages": sent}, sent) == {"model": "m", "messages": sent}


def test_neighbours_are_joined_with_results_first() -> None:
    sent = [
        user_message("Hi"),
        model(call("c1")),
        user(result("c1"), text("a")),
        model(call("c2")),
        user(result("c2"), text("b")),
    ]
    own_call, own_result = model(call("c1"), own("o")), user(result("o"))
    placed = place(sent, [sent[0], own_call, own_result, sent[2], *sent[4:]])
    assert placed == [user_message("Hi"), own_call, user(result("o"), result("c1"), result("c2"), text("a"), text("b"))]


def test_strings_stay_strings_until_they_are_joined() -> None:
    sent = [user_message("Hi"), model(text("a")), user_message("Ho"), {"role": "assistant", "content": "b"}]
    assert place(sent, [sent[0], sent[2], sent[3]]) == [user(text("Hi"), text("Ho")), sent[3]]
    assert place(sent, [sent[0], sent[1], sent[3]])[1] == model(text("a"), text("b"))
    assert place(sent, [sent[0], sent[3]])[0] is sent[0]


def reminder(words: str) -> Message:
    return {"role": "system", "content": words}


def test_system_messages_stay_where_the_client_has_them() -> None:
    sent = [user_message("Hi"), reminder("S"), model(text("a")), user_message("Ho"), reminder("T")]
    assert place(sent, sent) == sent


def test_system_messages_stand_between_the_user_and_the_model_whatever_left() -> None:
    sent = [
        user_message("Hi"),
        reminder("S"),
        model(text("a")),
        user_message("Ho"),
        reminder("T"),
        model(text("b")),
        user_message("Hm"),
    ]
    joined = {"role": "system", "content": [text("S"), text("T")]}
    assert place(sent, [sent[0], sent[1], sent[3], sent[4], *sent[5:]]) == [
        user(text("Hi"), text("Ho")),
        joined,
        *sent[5:],
    ]
    # What the model said stayed, but not what it was told.
    assert place(sent, [sent[0], sent[1], sent[2], sent[4], *sent[5:]]) == [
        sent[0],
        joined,
        model(text("a"), text("b")),
        sent[6],
    ]


def test_a_breakpoint_moves_onto_text_that_is_a_string() -> None:
    sent = [user_message("Hi"), model(with_breakpoint(text("a"))), user_message("Ho")]
    assert place(sent, [sent[0], sent[2]]) == [user(with_breakpoint(text("Hi")), text("Ho"))]
    assert place([user_message(""), *sent[1:]], [user_message(""), sent[2]])[0]["content"] == [text("Ho")]


def test_a_breakpoint_never_stands_on_thinking_or_empty_text() -> None:
    sent = [
        user_message("Hi"),
        model(text("a"), thinking("t", "s"), text(" "), with_breakpoint(call("c"))),
        user(result("c")),
    ]
    placed = place(sent, [sent[0], model(*sent[1]["content"][:3])])
    assert placed[1] == model(with_breakpoint(text("a")), thinking("t", "s"), text(" "))


def test_breakpoints_keep_their_order_and_lifetimes_and_none_is_doubled() -> None:
    sent = [
        user(with_breakpoint(text("Hi"), LONG)),
        model(with_breakpoint(call("c1"), LONG)),
        user(with_breakpoint(result("c1"))),
        model(text("b")),
        user(with_breakpoint(text("Ho"))),
    ]
    placed = place(sent, [sent[0], sent[3], sent[4]])
    assert list(marks(placed)) == [LONG, MARK]
    later = place(sent, [user(text("x")), sent[3], sent[4]])
    assert list(marks(later)) == [MARK]


def test_a_breakpoint_with_nothing_before_it_is_dropped() -> None:
    sent = [user(with_breakpoint(text("Hi"))), user_message("Ho")]
    assert place(sent, [sent[1]]) == [sent[1]]


def test_a_breakpoint_in_a_result_moves_too() -> None:
    sent = [user_message("Hi"), model(call("c")), user(result("c", [with_breakpoint(text("r"))])), user_message("Ho")]
    assert list(marks(place(sent, [sent[0], sent[3]])[0])) == [MARK]


def test_a_block_that_was_changed_keeps_its_breakpoint() -> None:
    sent = [user_message("Hi"), model(call("c")), user(with_breakpoint(result("c"))), user_message("Ho")]
    view = [*sent[:2], WIRE.format.clear_result(sent[2], 0, "[cleared]"), sent[3]]
    placed = place(sent, view)
    assert list(marks(placed)) == [MARK]
    assert list(marks(placed[0])) == []


def place_headed(sent: list[Message], view: list[Message], head: int, **body: Any) -> Body:
    """The body of a view whose first `head` messages are what no pass may take."""
    shown = view_of(sent, view)
    shown[head - 1] = shown[head - 1]._replace(ends_head=True)
    return WIRE.with_messages(Equipped({**body, "messages": sent}), shown, sent)


WORK = [model(text("a"), call("c")), user(result("c")), model(text("b"))]


@pytest.mark.parametrize("mark", [MARK, LONG])
def test_a_breakpoint_stands_behind_what_no_pass_takes_and_lives_as_long_as_the_next(mark: Block) -> None:
    sent = [user_message("Hi"), *WORK, user(text("Ho"), text("  ")), *WORK, user(with_breakpoint(text("Hm"), mark))]
    placed = place_headed(sent, [sent[0], sent[4], *sent[7:]], 2)["messages"]
    assert placed[0] == user(text("Hi"), with_breakpoint(text("Ho"), mark), text("  "))
    assert list(marks(placed)) == [mark, mark]
    whole = {"cache_control": mark}
    sent = [*sent[:-1], user_message("Hm")]
    assert list(marks(place_headed(sent, [sent[0], *sent[3:]], 1, **whole))) == [mark, mark]


def test_no_breakpoint_is_added_where_there_is_no_room_for_one_or_nothing_to_cache() -> None:
    ahead = {"system": [with_breakpoint(text("S"))], "tools": [with_breakpoint(READ)]}
    sent = [user_message("Hi"), *WORK, user(with_breakpoint(text("Ho")))]
    assert list(marks(place_headed(sent, [sent[0], *sent[3:]], 1, **ahead)["messages"])) == [MARK, MARK]
    ahead["system"].append(with_breakpoint(text("T")))
    assert list(marks(place_headed(sent, [sent[0], *sent[3:]], 1, **ahead)["messages"])) == [MARK]
    uncached = [*sent[:-1], user_message("Ho")]
    assert list(marks(place_headed(uncached, [sent[0], *uncached[3:]], 1))) == []
    # What the client itself marks at the end of the head is enough.
    own = [user(with_breakpoint(text("Hi"))), *sent[1:]]
    assert list(marks(place_headed(own, [own[0], *own[3:]], 1))) == [MARK, MARK]


def test_words_behind_results_stay_apart_where_the_client_has_them_so() -> None:
    """llama.cpp would put them ahead of the results."""
    sent = [user_message("Hi"), model(text("a")), model(call("c")), user(result("c")), user_message("Ho")]
    cleared = {**sent[3], "content": [{**result("c"), "content": "cleared"}]}
    placed = with_view(WIRE, {"messages": sent}, [*sent[:3], cleared, sent[4]])["messages"]
    assert placed == [*sent[:3], cleared, sent[4]]
    # Where no two messages of a client have one role, none of a request have.
    beside = [user_message("Hi"), *WORK[:1], user(result("c"), text("u")), model(call("d")), user(result("d"))]
    left = [*beside[:1], model(call("c")), user(result("c")), user(text("u")), *beside[3:]]
    assert [message["role"] for message in with_view(WIRE, {"messages": beside}, left)["messages"]] == [
        *("user", "assistant", "user", "assistant", "user")
    ]


@st.composite
def bodies(draw: st.DrawFn) -> tuple[Body, list[Message]]:
    """A client's body with up to four breakpoints, and a view of it that leaves out calls with their results."""
    sent: list[Message] = [draw(st.sampled_from([user_message("Hi"), user(text("Hi"))]))]
    view: list[Message] = [sent[0]]
    for number in range(draw(st.integers(0, 6))):
        blocks = [thinking("t", f"s{number}")] if draw(st.booleans()) else []
        blocks += [text(f"a{number}")] if draw(st.booleans()) else []
        calls = draw(st.integers(0, 2))
        blocks += [call(f"c{number}{each}") for each in range(calls)] or [text(f"b{number}")]
        results = [result(f"c{number}{each}") for each in range(calls)]
        sent += [model(*blocks), user(*results, *[text(f"u{number}")] * (not calls or draw(st.booleans())))]
    for each in draw(st.lists(st.sampled_from(sent), max_size=4)):
        if isinstance(each["content"], list) and each["content"][-1]["type"] != "thinking":
            each["content"][-1] = with_breakpoint(each["content"][-1])
    for asked, answered in zip(sent[1::2], sent[2::2], strict=True):
        gone = {block["id"] for block in asked["content"] if block["type"] == "tool_use" and draw(st.booleans())}
        left = [block for block in asked["content"] if block.get("id") not in gone]
        if all(block["type"] == "thinking" for block in left) or (not _calls(left) and draw(st.booleans())):
            left = []
        rest = [block for block in answered["content"] if block.get("tool_use_id") not in gone]
        for message, blocks in ((asked, left), (answered, rest)):
            if blocks:
                view.append(message if len(blocks) == len(message["content"]) else {**message, "content": blocks})
    return {"model": "m", "messages": sent}, view


def _calls(blocks: list[Block]) -> bool:
    return any(block["type"] == "tool_use" for block in blocks)


@times(5)
@given(bodies())
def test_a_view_is_a_history_that_the_provider_takes(given_: tuple[Body, list[Message]]) -> None:
    body, view = given_
    placed = with_view(WIRE, body, view)
    provider = Anthropic()
    provider.check(provider.parse(json.dumps(placed).encode(), placed, {}, 0))
    roles = [message["role"] for message in placed["messages"]]
    assert all(one != other for one, other in pairwise(roles))
    assert len(list(marks(placed))) <= len(list(marks(body)))
    for message in placed["messages"]:
        for block in message["content"] if isinstance(message["content"], list) else ():
            assert block["type"] != "thinking" or "cache_control" not in block
    before = [block for message in view for block in _bare(message)]
    after = [block for message in placed["messages"] for block in _bare(message)]
    assert sorted(map(str, before)) == sorted(map(str, after))


@times(5)
@given(bodies())
def test_a_breakpoint_is_as_far_back_as_it_must_and_no_farther(given_: tuple[Body, list[Message]]) -> None:
    """What is cached up to it is the longest part of the view that the client had cached."""
    body, view = given_
    present = {_key(block) for message in view for block in _bare(message)}
    expected: list[object] = []
    carrier: object = None
    for message in body["messages"]:
        for block, whole in zip(_bare(message), _list_blocks(message) or [{}], strict=True):
            if _key(block) in present and block["type"] != "thinking":
                carrier = _key(block)
            if "cache_control" in whole and carrier not in expected:
                expected.append(carrier)
    placed = with_view(WIRE, body, view)
    found = [
        _key(block) for message in placed["messages"] for block in _list_blocks(message) if "cache_control" in block
    ]
    assert sorted(map(str, found)) == sorted(map(str, expected))


def _list_blocks(message: Message) -> list[Block]:
    content = message["content"]
    return content if isinstance(content, list) else []


def _bare(message: Message) -> list[Block]:
    content = message["content"]
    blocks = [text(content)] if isinstance(content, str) else content
    return [{key: value for key, value in block.items() if key != "cache_control"} for block in blocks]


def _key(block: Block) -> object:
    return block["type"], block.get("id") or block.get("tool_use_id") or block.get("text") or block.get("signature")


# Thinking that is refused


def refusal(message: str) -> bytes:
    return json.dumps({"type": "error", "error": {"type": "invalid_request_error", "message": message}}).encode()


BOUND = refusal(
    "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different conversation."
)
UNLED = refusal("messages.3.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`.")
HISTORY = [user_message("Hi"), model(thinking("t", "s"), call("c")), user(result("c"))]


def correct_body(error: bytes, body: Body) -> Body:
    correction = WIRE.correction(400, error, body, body)
    assert correction is not None
    return correction(body, body)


def test_thinking_that_is_bound_to_what_was_evicted_is_dropped_by_the_provider() -> None:
    body = {"model": "m", "messages": HISTORY}
    before = deepcopy(body)
    again = correct_body(BOUND, body)
    assert again == {
        **body,
        "thinking": {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}},
    }
    assert body == before
    assert WIRE.headers(again) == {"anthropic-beta": BINDING_BETA}
    assert WIRE.headers(body) == {}
    kept = correct_body(BOUND, {**body, "thinking": {"type": "adaptive", "display": "omitted"}})
    assert kept["thinking"]["display"] == "omitted"


@pytest.mark.parametrize(
    "config", [{"type": "disabled"}, {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}]
)
def test_where_the_provider_cannot_drop_it_thinking_is_left_out(config: Body) -> None:
    body = {"messages": HISTORY, "thinking": config}
    again = correct_body(BOUND, body)
    assert again == {"messages": [HISTORY[0], model(call("c")), HISTORY[2]], "thinking": config}


def test_a_turn_whose_thinking_was_evicted_goes_on_without() -> None:
    body = {"messages": HISTORY, "thinking": {"type": "enabled", "budget_tokens": 2_000}}
    again = correct_body(UNLED, body)
    assert again == {"messages": [HISTORY[0], model(call("c")), HISTORY[2]], "thinking": {"type": "disabled"}}


def test_messages_of_mere_thinking_are_left_out_and_their_neighbours_joined() -> None:
    body = {
        "messages": [user_message("Hi"), model(thinking("t", "s")), user_message("Ho")],
        "thinking": {"type": "disabled"},
    }
    again = correct_body(BOUND, body)
    assert again["messages"] == [user(text("Hi"), text("Ho"))]


@pytest.mark.parametrize(
    ("status", "error", "body"),
    [
        (400, refusal("max_tokens: Field required"), {"messages": HISTORY}),
        (429, BOUND, {"messages": HISTORY}),
        (400, b"<html>", {"messages": HISTORY}),
        (400, b'{"error": "bound to a different conversation"}', {"messages": HISTORY}),
        (400, b"[]", {"messages": HISTORY}),
        (400, BOUND, {"messages": [user_message("Hi")]}),
        (400, UNLED, {"messages": HISTORY, "thinking": {"type": "adaptive"}}),
    ],
)
def test_other_refusals_are_the_clients(status: int, error: bytes, body: Body) -> None:
    assert WIRE.correction(status, error, body, body) is None


@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, "invalid_request_error"), (422, "invalid_request_error"), (500, "api_error"), (529, "overloaded_error")],
)
def test_errors_have_the_providers_shape(status: int, kind: str) -> None:
    assert json.loads(WIRE.error(status, "Oh.")) == {"type": "error", "error": {"type": kind, "message": "Oh."}}
