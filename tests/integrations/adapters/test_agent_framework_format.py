"""Messages of Microsoft Agent Framework, part by part."""

from __future__ import annotations

import pytest

pytest.importorskip("agent_framework", reason="needs the extra agent-framework")

from agent_framework import Content, Message

from wane.core import Kind
from wane.core.errors import FormatError
from wane.integrations.agent_framework import AgentFrameworkFormat

FORMAT = AgentFrameworkFormat()


def call(call_id: str) -> Content:
    return Content.from_function_call(call_id, "read", arguments='{"path": ')


def test_an_answer_comes_apart_and_keeps_its_raw_arguments() -> None:
    thought = Content.from_text_reasoning(text="Hm.")
    message = Message("assistant", [thought, "I look.", call("c1"), Content.from_usage({"input_token_count": 1})])
    parts = FORMAT.parts(message)
    assert [part.kind for part in parts] == [Kind.REASONING, Kind.TEXT, Kind.CALL]
    assert parts[2].arguments == '{"path": '
    assert not any(part.needs for part in parts)
    kept = FORMAT.keep(message, [1])
    assert kept.text == "I look."
    assert len(kept.contents) == 1
    assert len(message.contents) == 4


@pytest.mark.parametrize(
    ("sealed", "needs"),
    [
        # By OpenAI's ids, what follows needs the reasoning as well.
        ({"id": "rs_1", "text": "Hm.", "protected_data": "x"}, [(1,), (-1,), (-2,)]),
        # By a signature, only calls do.
        ({"text": "Hm.", "protected_data": "x"}, [(1,), (), (-2,)]),
    ],
)
def test_sealed_reasoning_stays_with_what_follows(sealed: dict[str, str], needs: list[tuple[int, ...]]) -> None:
    parts = FORMAT.parts(Message("assistant", [Content.from_text_reasoning(**sealed), "I look.", call("c1")]))
    assert [part.needs for part in parts] == needs


def test_calls_stay_with_details_of_reasoning_behind_them() -> None:
    message = Message("assistant", [call("c1"), Content.from_text_reasoning(protected_data="[]")])
    assert [part.needs for part in FORMAT.parts(message)] == [(1,), ()]


def test_what_the_provider_ran_is_text_that_stays_together() -> None:
    ran = Content.from_mcp_server_tool_call("m1", "search", server_name="s", arguments={"q": "x"})
    found = Content.from_mcp_server_tool_result("m1", output=[Content.from_text("Found.")])
    parts = FORMAT.parts(Message("assistant", [ran, found, "Done.", call("c1")]))
    assert [part.kind for part in parts] == [Kind.TEXT, Kind.TEXT, Kind.TEXT, Kind.CALL]
    assert [part.needs for part in parts] == [(1,), (-1,), (), ()]
    assert "Found." in parts[1].text


def test_turns_notices_and_results() -> None:
    reminder = "<system-reminder>Mind it.</system-reminder>"
    picture = Content.from_uri("https://example.org/a.png", media_type="image/png")
    assert [part.kind for part in FORMAT.parts(Message("user", ["Go.", picture]))] == [Kind.USER, Kind.USER]
    assert [part.kind for part in FORMAT.parts(Message("user", [reminder]))] == [Kind.NOTICE]
    assert [part.kind for part in FORMAT.parts(Message("user", []))] == [Kind.USER]
    assert [part.kind for part in FORMAT.parts(Message("system", ["Be good."]))] == [Kind.SYSTEM]
    result = Message("tool", [Content.from_function_result(call_id="c1", result="x")])
    (part,) = FORMAT.parts(result)
    assert (part.kind, part.call_id, part.text) == (Kind.RESULT, "c1", "x")
    assert FORMAT.parts(FORMAT.cleared(result, 0, "gone"))[0].text == "gone"
    assert FORMAT.parts(result)[0].text == "x"


def test_a_result_answers_its_call() -> None:
    (part,) = FORMAT.parts(FORMAT.result(Message("assistant", ["I look.", call("c1")]), 1, "There."))
    assert (part.kind, part.text, part.call_id) == (Kind.RESULT, "There.", "c1")


def test_what_is_no_message_is_refused() -> None:
    with pytest.raises(FormatError, match="found dict"):
        FORMAT.parts({"role": "user"})  # type: ignore[arg-type]
