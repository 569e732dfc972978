"""Contents of Google's Agent Development Kit, part by part."""

from __future__ import annotations

import pytest

pytest.importorskip("google.adk", reason="needs the extra google-adk")

from google.genai import types

from wane.core import Kind
from wane.core.errors import FormatError
from wane.integrations.google_adk import GoogleADKFormat

FORMAT = GoogleADKFormat()


def call(name: str, *, seal: bytes | None = None, **args: object) -> types.Part:
    return types.Part(function_call=types.FunctionCall(name=name, args=args), thought_signature=seal)


def response(name: str, **given: object) -> types.Part:
    return types.Part(function_response=types.FunctionResponse(name=name, response=given))


def made(*parts: types.Part) -> types.Content:
    return types.Content(role="model", parts=list(parts))


def told(*parts: types.Part) -> types.Content:
    return types.Content(role="user", parts=list(parts))


def test_calls_without_ids_pair_with_their_results() -> None:
    calls = FORMAT.parts(made(types.Part(text="I look."), call("read", path="a"), call("grep"), call("read", path="b")))
    results = FORMAT.parts(told(response("read", result="A"), response("grep", found=1), response("read", result="B")))
    assert [part.call_id for part in calls[1:]] == [part.call_id for part in results]
    assert len({part.call_id for part in results}) == 3
    assert [part.text for part in results] == ["A", '{"found":1}', "B"]
    assert calls[1].arguments == '{"path":"a"}'


def test_parallel_calls_stay_with_the_signature_of_the_first() -> None:
    parts = FORMAT.parts(made(types.Part(text="Hm."), call("a", seal=b"x"), call("b"), call("c")))
    assert [part.needs for part in parts] == [(), (), (-1,), (-2,)]


def test_calls_stay_with_a_signed_thought_and_it_with_what_follows() -> None:
    thought = types.Part(text="Hm.", thought=True, thought_signature=b"x")
    parts = FORMAT.parts(made(thought, types.Part(text="I look."), call("a"), call("b")))
    assert parts[0].kind is Kind.REASONING
    assert [part.needs for part in parts] == [(1,), (), (-2,), (-3,)]


def test_what_the_provider_ran_stays_with_its_result() -> None:
    code = types.Part(executable_code=types.ExecutableCode(code="1", language=types.Language.PYTHON))
    outcome = types.CodeExecutionResult(outcome=types.Outcome.OUTCOME_OK, output="1")
    parts = FORMAT.parts(made(code, types.Part(code_execution_result=outcome), types.Part(text="Done.")))
    assert [part.kind for part in parts] == [Kind.TEXT] * 3
    assert [part.needs for part in parts] == [(1,), (-1,), ()]


def test_what_stands_in_the_users_place() -> None:
    context = "For context: below is a transcript of what another agent did, quoted between A and B."
    blob = types.Part(inline_data=types.Blob(data=b"x", mime_type="image/png"))
    kinds = [
        [part.kind for part in FORMAT.parts(content)]
        for content in (
            told(types.Part(text="Go."), blob),
            told(types.Part(text=context), types.Part(text="[b] said: x")),
            told(types.Part(text="<system-reminder>Mind it.</system-reminder>")),
            told(types.Part(text="")),
            types.Content(role="user", parts=[]),
        )
    ]
    assert kinds == [[Kind.USER] * 2, [Kind.NOTICE] * 2, [Kind.NOTICE], [Kind.USER], [Kind.USER]]


def test_some_parts_are_kept_as_they_are() -> None:
    content = made(types.Part(text="I look."), types.Part(text=""), call("a", seal=b"x"))
    kept = FORMAT.keep(content, [1])
    assert kept.parts is not None
    assert kept.parts[0] is (content.parts or [])[2]
    assert FORMAT.parts(FORMAT.cleared(told(response("a", result="x")), 0, "gone"))[0].text == "gone"


def test_a_result_answers_its_call() -> None:
    content = made(types.Part(text="I look."), call("a", seal=b"x"))
    (part,) = FORMAT.parts(FORMAT.result(content, 1, "There."))
    assert (part.kind, part.text, part.call_id) == (Kind.RESULT, "There.", FORMAT.parts(content)[1].call_id)


def test_what_is_no_content_is_refused() -> None:
    with pytest.raises(FormatError, match="found dict"):
        FORMAT.parts({"role": "user"})  # type: ignore[arg-type]
