"""Calls and results of Gemini's contents: how they are named, and which result answers which call.

Calls of older models have no ids, Google's SDK sends results without them, and some versions of the API refuse them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

OpenCall: TypeAlias = tuple[str | None, str | None]
"""A call without a result: its id and its tool's name."""


_MADE: Final = re.compile(r".*#(\d+)", re.DOTALL)
"""An id that a call got here."""


def field(owner: Mapping[str, Any], name: str) -> Any:
    """Return a field by its name in Gemini's JSON, such as `functionCall`, also where it is spelled `function_call`.

    None if it is missing.
    """
    value = owner.get(name)
    return owner.get(_SNAKE[name]) if value is None and name in _SNAKE else value


_SNAKE: Final = {
    name: re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", name)
    for name in (
        *("functionCall", "functionResponse", "thoughtSignature", "inlineData", "fileData", "executableCode"),
        *("codeExecutionResult", "toolCall", "toolResponse", "toolType", "systemInstruction", "functionDeclarations"),
        *("generationConfig", "toolConfig", "cachedContent"),
        *("thinkingConfig", "includeThoughts"),
    )
}


def call_ids() -> Callable[[Mapping[str, Any], str], str]:
    """Return a function that names the calls or the results of one content, asked in their order.

    It takes a call or a result and its tool's name, and returns its id or, without one, the tool's name and a number.
    """
    counts: Counter[str] = Counter()

    def name(call: Mapping[str, Any], tool: str) -> str:
        number = counts[tool]
        counts[tool] += 1
        call_id = call.get("id")
        return call_id if isinstance(call_id, str) and call_id else f"{tool}#{number}"

    return name


def name_results(messages: Iterable[Any], calls: Sequence[OpenCall] = ()) -> list[Any]:
    """Return contents whose results have the ids of their calls; the same object where nothing was missing.

    Google's SDK answers calls by their name and order alone, also where they have ids. A resumed session of Gemini CLI
    0.61 has each result twice, which Gemini refuses: the second is left out. If an editor loads the session (ACP), all
    its calls stand in one content with all their results behind it, and the second ones where they came: so a content
    may be left out.

    Args:
        messages: contents in order; anything else stays as it is.
        calls: the open calls before them, each with its id and its tool's name.
    """
    waiting, result, goes_on = list(calls), [], False
    done: set[str] = set()
    for message in messages:
        if isinstance(message, dict) and message.get("role") == "model":
            id_of = call_ids()
            called = [call for _, call in _objects_in(message, "functionCall")]
            # An answer that was streamed may stand in several contents.
            waiting = waiting if goes_on or not called else []
            waiting += [(id_of(call, str(call.get("name"))), call.get("name")) for call in called]
            goes_on = True
            result.append(message)
        else:
            answer, waiting = _name_results(message, waiting, done)
            done.update(response.get("id") or "" for _, response in _objects_in(answer, "functionResponse"))
            goes_on = goes_on and answer is None
            if answer is not None:
                result.append(answer)
    return result


def _name_results(message: Any, waiting: list[OpenCall], done: Collection[str]) -> tuple[Any, list[OpenCall]]:
    """A content with ids in its results, None if it only repeats results of `done` calls, and the calls left open."""
    responses, id_of = list(_objects_in(message, "functionResponse")), call_ids()
    given = {response.get("id") for _, response in responses}
    unanswered = Counter(call_id for call_id, _ in waiting)
    waiting = [call for call in waiting if call[0] not in given]
    ids: dict[int, str] = {}
    answered, repeated = Counter[str](), set[int]()
    for position, response in responses:
        call_id = id_of(response, str(response.get("name")))
        answered[call_id] += 1
        if answered[call_id] > unanswered[call_id] and (unanswered[call_id] or response.get("id") in done):
            repeated.add(position)
            continue
        match = next((call for call in waiting if call[1] == response.get("name")), None)
        if response.get("id") or match is None:
            continue
        waiting.remove(match)
        if match[0] and match[0] != call_id:
            ids[position] = match[0]
    if not ids and not repeated:
        return message, waiting
    parts = []
    for position, part in enumerate(message["parts"]):
        if position in ids:
            parts.append(_with_response(part, {"id": ids[position], **field(part, "functionResponse")}))
        elif position not in repeated:
            parts.append(part)
    return {**message, "parts": parts} if parts else None, waiting


def _with_response(part: dict[str, Any], response: Mapping[str, Any]) -> dict[str, Any]:
    """Return a part with another response under the name that it has there."""
    return {**part, "functionResponse" if "functionResponse" in part else "function_response": dict(response)}


def _objects_in(message: Any, name: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """The calls or the responses of a content that may be malformed, each with the position of its part."""
    parts = message.get("parts") if isinstance(message, dict) else None
    for position, part in enumerate(parts if isinstance(parts, list) else ()):
        value = field(part, name) if isinstance(part, dict) else None
        if isinstance(value, dict):
            yield position, value


def as_called(content: dict[str, Any], before: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return a user's content with its results as Gemini takes them, if calls of the content before it have no ids.

    They have none either, and stand in the order of the calls.

    Args:
        content: the content.
        before: the content before it; None if it is no model's.
    """
    called = [call for _, call in _objects_in(before, "functionCall")]
    if all(call.get("id") for call in called):
        return content
    given = {call.get("id") for call in called}
    named: list[tuple[str, int, dict[str, Any]]] = []
    others: list[dict[str, Any]] = []
    for part in content["parts"]:
        response = field(part, "functionResponse")
        if not isinstance(response, dict):
            others.append(part)
            continue
        name, call_id = str(response.get("name")), response.get("id")
        made = _MADE.fullmatch(str(call_id)) if call_id not in given else None
        plain = {key: value for key, value in response.items() if key != "id"}
        named.append((name, int(made[1]) if made else 0, _with_response(part, plain) if made else part))
    waiting: dict[str, list[int]] = {}
    for number, call in enumerate(called):
        waiting.setdefault(str(call.get("name")), []).append(number)
    answers: list[tuple[int, dict[str, Any]]] = []
    for name, _, part in sorted(named, key=lambda triple: triple[1]):
        # A tool's first result answers its first call.
        numbers = waiting.get(name)
        answers.append((numbers.pop(0) if numbers else len(called), part))
    parts = [part for _, part in sorted(answers, key=lambda pair: pair[0])] + others
    return content if parts == content["parts"] else {**content, "parts": parts}
