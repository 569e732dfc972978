"""Rules of servers that are stricter than the API that they imitate, for `ScriptedServer(rules=…)`.

A rule is a function from a request to the server's words of refusal, or None if it accepts it. Servers that run chat
templates, and gateways, make chat messages of the other protocols (`chat_messages`), so most rules hold in all of them.
`docs/servers.md` says which server has which rule, and where that is known from.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, TypeAlias

from wane.formats.gemini import seal_of
from wane.formats.gemini_calls import field
from wane.testing.sent_request import Request

Rule: TypeAlias = Callable[[Request], str | None]
"""What a server demands of a request: the words of its refusal, or None."""

_FOLLOWERS: Final = {
    "system": ("system", "user", "assistant"),
    "user": ("system", "user", "assistant"),
    "assistant": ("user", "assistant", "tool"),
    "tool": ("assistant", "tool"),
}
"""Which role may follow which, by `answers_follow_results`."""

ChatMessage: TypeAlias = Mapping[str, Any]


def calls_need_reasoning(request: Request) -> str | None:
    """DeepSeek and Kimi in thinking mode: each answer with calls has its reasoning, and an empty one counts as none."""
    for index, message in enumerate(chat_messages(request)):
        if message.get("tool_calls") and not message.get("reasoning_content"):
            return f"reasoning_content is missing in assistant tool call message at index {index}"
    return None


def answers_need_reasoning(request: Request) -> str | None:
    """DeepSeek V4 in thinking mode: in a turn with calls each answer has its reasoning, the last one too."""
    answers: list[ChatMessage] = []
    for message in (*chat_messages(request), {"role": "user"}):
        if message["role"] == "assistant":
            answers.append(message)
        elif message["role"] == "user":
            called = any(answer.get("tool_calls") for answer in answers)
            if called and not all(answer.get("reasoning_content") for answer in answers):
                return "The `reasoning_content` in the thinking mode must be passed back to the API."
            answers.clear()
    return None


def details_sign_calls(request: Request) -> str | None:
    """Gemini 3 behind OpenRouter: an entry of `reasoning_details` signs the call of its id, and neither comes alone."""
    for index, message in enumerate(_chat_only(request)):
        signed = [entry.get("id") for entry in message.get("reasoning_details") or ()]
        if signed != [call.get("id") for call in message.get("tool_calls") or ()]:
            return f"messages[{index}]: reasoning_details do not match its tool calls"
    return None


def first_call_is_signed(request: Request) -> str | None:
    """Gemini 3 behind a Chat endpoint: the first of an answer's calls carries the signature."""
    for message in _chat_only(request):
        for call in (message.get("tool_calls") or ())[:1]:
            google = (call.get("extra_content") or {}).get("google") or {}
            if not google.get("thought_signature"):
                return f"Function call `{call['function']['name']}` is missing a thought_signature"
    return None


def roles_alternate(request: Request) -> str | None:
    """Templates of Mistral and Devstral: turns of the user and answers without calls alternate, system prompt aside."""
    messages = chat_messages(request)
    if messages and messages[0].get("role") in ("system", "developer"):
        messages = messages[1:]
    if any(message.get("role") in ("system", "developer") for message in messages):
        return "Only user, assistant and tool roles are supported after the system message"
    turns = [
        m["role"] for m in messages if m["role"] == "user" or (m["role"] == "assistant" and not m.get("tool_calls"))
    ]
    if turns[:1] == ["assistant"] or any(role == following for role, following in pairwise(turns)):
        return "After the optional system message, conversation roles must alternate user/assistant/user/assistant/..."
    return None


def answers_follow_results(request: Request) -> str | None:
    """Mistral's check of requests: an answer stands between results and the user's next turn.

    So it is in older releases of mistral-common, by which vLLM checks requests to Mistral's models.
    """
    before = ""
    for message in chat_messages(request):
        role = "system" if message["role"] == "developer" else message["role"]
        if before and role not in _FOLLOWERS[before]:
            return f"Unexpected role {role!r} after role {before!r}"
        before = role
    return None


def results_follow_calls(request: Request) -> str | None:
    """Templates that look results up by the answer before them: nothing stands between a call and its result."""
    open_calls: list[str] = []
    for message in chat_messages(request):
        if message["role"] == "tool":
            if message.get("tool_call_id") not in open_calls:
                return "a tool message must follow the assistant message with its call"
            open_calls.remove(message["tool_call_id"])
        elif open_calls:
            return "Not the same number of function calls and responses"
        else:
            open_calls = [call["id"] for call in message.get("tool_calls") or ()]
    return None


def arguments_are_objects(request: Request) -> str | None:
    """Templates that take a call's arguments apart, such as Qwen3's in llama.cpp, and gateways to other protocols."""
    for message in chat_messages(request):
        for call in message.get("tool_calls") or ():
            try:
                arguments = json.loads(call["function"]["arguments"])
            except ValueError:
                arguments = None
            if not isinstance(arguments, dict):
                return "Failed to parse tool call arguments as JSON"
    return None


def contents_alternate(request: Request) -> str | None:
    """Gemini on Vertex and older models: `user` and `model` alternate from content to content, `user` first.

    Each content names its role there, and no text is empty.
    """
    before: object = "model"
    for content in _contents(request):
        role = content.get("role")
        if role == before:
            return "Please ensure that multiturn requests alternate between user and model."
        if role not in ("user", "model"):
            return "Please use a valid role: user, model."
        if any(part.get("text") == "" and not seal_of(part) for part in content["parts"]):
            return "Unable to submit request because it has an empty text parameter."
        before = role
    return None


def results_answer_calls(request: Request) -> str | None:
    """Gemini's guide to functions: the content behind calls has one result for each, by its name, and by its id if any.

    A view that kept the number of results and mixed up what they answer would pass the protocol's own check.
    """
    calls: list[Mapping[str, Any]] = []
    for content in _contents(request):
        results = _each(content, "functionResponse")
        if sorted(str(call["name"]) for call in calls) != sorted(str(result["name"]) for result in results):
            return "Please ensure that function responses have the names of the calls of the function call turn."
        ids = [call["id"] for call in calls if "id" in call]
        if any("id" in result and result["id"] not in ids for result in results):
            return "Please ensure that function responses have the ids of the calls of the function call turn."
        calls = _each(content, "functionCall")
    return None


def served_pairs_stay(request: Request) -> str | None:
    """Gemini's guide to its own tools: what it ran goes back with its result, in one content, the result behind it."""
    for number, content in enumerate(_contents(request)):
        for call, result in (("executableCode", "codeExecutionResult"), ("toolCall", "toolResponse")):
            waiting: list[object] = []
            for part in content["parts"]:
                if (called := field(part, call)) is not None:
                    waiting.append(called.get("id"))
                elif (answer := field(part, result)) is not None:
                    if answer.get("id") not in waiting:
                        return f"contents[{number}]: a {result} stands without its {call}"
                    waiting.remove(answer.get("id"))
            if waiting:
                return f"contents[{number}]: a {call} stands without its {result}"
    return None


def chat_messages(request: Request) -> Sequence[ChatMessage]:
    """Return the chat messages that llama.cpp makes of a request to `/v1/messages` or `/v1/responses`.

    Those of Chat Completions are returned as they are; for Gemini there are none.
    """
    body = request.body
    if request.api == "anthropic":
        return list(_of_messages(body))
    if request.api == "openai-responses":
        return list(_of_items(body))
    return _chat_only(request)


def _chat_only(request: Request) -> list[ChatMessage]:
    messages = request.body.get("messages")
    return messages if request.api == "openai-chat" and isinstance(messages, list) else []


def _contents(request: Request) -> list[ChatMessage]:
    return request.body["contents"] if request.api == "gemini" else []


def _each(content: ChatMessage, name: str) -> list[Mapping[str, Any]]:
    return [called for part in content["parts"] if (called := field(part, name)) is not None]


def _of_messages(body: Mapping[str, Any]) -> Iterator[ChatMessage]:
    """Text that stands beside results comes ahead of them, as a message of the user."""
    if body.get("system"):
        yield {"role": "system", "content": body["system"]}
    for message in body["messages"]:
        content = message["content"]
        if isinstance(content, str):
            yield message
            continue
        texts = [block for block in content if block["type"] in ("text", "image", "document")]
        thinking = "".join(block.get("thinking") or "" for block in content if block["type"] == "thinking")
        calls: list[ChatMessage] = []
        for block in content:
            if block["type"] == "tool_use":
                function = {"name": block["name"], "arguments": json.dumps(block["input"])}
                calls.append({"id": block["id"], "type": "function", "function": function})
        made: dict[str, Any] = {"role": message["role"], "content": texts}
        if thinking:
            made["reasoning_content"] = thinking
        if calls:
            made["tool_calls"] = calls
        if texts or thinking or calls:
            yield made
        for block in content:
            if block["type"] == "tool_result":
                yield {"role": "tool", "tool_call_id": block["tool_use_id"], "content": block.get("content")}


def _of_items(body: Mapping[str, Any]) -> Iterator[ChatMessage]:
    """Neighbouring items of the model are one message."""
    if body.get("instructions"):
        yield {"role": "system", "content": body["instructions"]}
    given: str | list[dict[str, Any]] = body["input"]
    items: list[dict[str, Any]] = [{"role": "user", "content": given}] if isinstance(given, str) else given
    answer: dict[str, Any] | None = None
    for item in items:
        kind = item.get("type", "message")
        if kind in ("function_call", "custom_tool_call", "reasoning") or item.get("role") == "assistant":
            if answer is None:
                answer = {"role": "assistant", "content": ""}
            if kind == "reasoning":
                texts = [piece["text"] for key in ("summary", "content") for piece in item.get(key) or ()]
                answer["reasoning_content"] = "".join([answer.get("reasoning_content", ""), *texts])
            elif kind == "message":
                answer["content"] = item["content"]
            else:
                function = {"name": item["name"], "arguments": item.get("arguments", "{}")}
                call = {"id": item["call_id"], "type": "function", "function": function}
                answer["tool_calls"] = [*answer.get("tool_calls", ()), call]
            continue
        if answer is not None:
            yield answer
            answer = None
        if kind.endswith("_output"):
            yield {"role": "tool", "tool_call_id": item["call_id"], "content": item["output"]}
        elif kind == "message":
            yield item
    if answer is not None:
        yield answer


DEEPSEEK: Final[tuple[Rule, ...]] = (calls_need_reasoning,)
"""DeepSeek's and Kimi's servers, Chat Completions and Anthropic Messages."""

DEEPSEEK_V4: Final[tuple[Rule, ...]] = (calls_need_reasoning, answers_need_reasoning)
"""DeepSeek's server with its models since V4."""

OPENROUTER: Final[tuple[Rule, ...]] = (details_sign_calls,)
GEMINI_CHAT: Final[tuple[Rule, ...]] = (first_call_is_signed,)
TEMPLATE: Final[tuple[Rule, ...]] = (roles_alternate, results_follow_calls, arguments_are_objects)
"""llama.cpp, LM Studio and vLLM with the strictest of the templates."""

MISTRAL: Final[tuple[Rule, ...]] = (answers_follow_results, results_follow_calls, arguments_are_objects)
"""Mistral's API, and vLLM with its tokenizer."""

GEMINI: Final[tuple[Rule, ...]] = (contents_alternate, results_answer_calls, served_pairs_stay)
"""Gemini's own API, besides what `ScriptedServer` refuses there without rules, such as lost signatures."""
