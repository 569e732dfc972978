"""What a strict server accepts without Wane, it accepts with Wane, after passes and restarts (R12, R12b)."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.marks import then_full, wide
from tests.proxy.served import (
    DEFERRED,
    PROVIDERS,
    PausingClient,
    SearchingClient,
    Serving,
    StreamedClient,
    ThinkingClient,
    model_of,
)
from tests.proxy.strict import SERVERS as STRICT
from tests.proxy.strict import LocalAnthropicClient, Reckless, StrictUpstream
from tests.proxy.wire.anthropic_replies import accumulate_message
from tests.proxy.world import ChatClient, Client, GeminiCliClient, GeminiClient, RemindedClient, ResponsesClient
from tests.strategies import times
from wane import Conversation, Policy
from wane.conversation import ContextSettings
from wane.core import ToolClass, exact_budget
from wane.formats.openai import OpenAIFormat
from wane.testing.openai import OpenAIResponses
from wane.testing.rules import DEEPSEEK, DEEPSEEK_V4, GEMINI_CHAT, MISTRAL, OPENROUTER, TEMPLATE, Rule
from wane.testing.sent_request import Request

SERVERS = {
    "deepseek": DEEPSEEK,
    "deepseek v4": DEEPSEEK_V4,
    "openrouter": OPENROUTER,
    "gemini": GEMINI_CHAT,
    "template": TEMPLATE,
    "mistral": MISTRAL,
}
STRATEGIES = ("cwl", "paper", "truncate", "streaming", "clear-tools", "mask", "fold")
SUMMARISING = ("compact", "memgpt", "acon", "resum")
FORGETFUL = ("truncate", "streaming", *SUMMARISING)
"""Those under which a person's words leave."""

TOOLS = ("read", "grep", "edit", "ask_user")
Message = dict[str, Any]


def refusal(rules: Sequence[Rule], messages: Sequence[Message], api: str = "openai-chat") -> str | None:
    body = {"input" if api == "openai-responses" else "messages": list(messages)}
    request = Request(0, api, "m", (), (), 0, False, body, b"", {})
    return next((words for rule in rules if (words := rule(request)) is not None), None)


def words_of_persons(sent: Any) -> list[int]:
    """The numbers of what persons said, in the order of a request; a recall repeats some at its end."""
    said = re.findall(r"(?:User turn|Question|Person's answer) (\d+)\.", json.dumps(sent, ensure_ascii=False))
    return [*dict.fromkeys(map(int, said))]


@st.composite
def histories(draw: st.DrawFn, server: str) -> list[Message]:
    """A history that the server accepts as it is. What persons say is numbered."""
    messages: list[Message] = [{"role": "system", "content": "Be brief."}]
    number, numbers = 0, count()
    for turn in range(draw(st.integers(3, 9))):
        # Mistral takes two turns of the user, such as a client's own text and the prompt; the templates take one.
        turns = range(draw(st.integers(1, 2)) if server == "mistral" else 1)
        messages += [
            {"role": "user", "content": f"Question {next(numbers)}. " * draw(st.integers(1, 9))} for _ in turns
        ]
        for _ in range(draw(st.integers(0, 4))):
            calls, results = [], list[Message]()
            for position in range(draw(st.integers(1, 3))):
                number += 1
                tool = draw(st.sampled_from(TOOLS))
                output = f"Person's answer {next(numbers)}." if tool == "ask_user" else "x" * draw(st.integers(0, 400))
                function = {"name": tool, "arguments": json.dumps({"path": f"f{number}"})}
                call: Message = {"id": f"c{number}", "type": "function", "function": function}
                if server == "gemini" and position == 0:
                    call["extra_content"] = {"google": {"thought_signature": "c2VhbA=="}}
                calls.append(call)
                results.append({"role": "tool", "tool_call_id": call["id"], "content": output})
            answer: Message = {"role": "assistant", "content": draw(st.sampled_from([None, "I look."]))}
            if server == "openrouter":
                answer["reasoning_details"] = [
                    {"type": "reasoning.encrypted", "data": "c2VhbA==" * 9, "id": call["id"]} for call in calls
                ]
            elif server.startswith("deepseek") or draw(st.booleans()):
                answer["reasoning_content"] = "Hm. " * draw(st.integers(1, 60))
            messages += [{**answer, "tool_calls": calls}, *results]
        called = messages[-1]["role"] == "tool"
        # 0 for a model that had nothing to add.
        words = f"Answer {turn}. " * draw(st.integers(0, 60))
        last: Message = {"role": "assistant", "content": words}
        # DeepSeek demands it in turns with calls alone.
        reasons = server == "deepseek v4" and (called or draw(st.booleans()))
        messages.append({**last, "reasoning_content": "Well. " * 20} if reasons else last)
    return messages


@pytest.mark.parametrize("server", SERVERS)
@times(2)
@given(data=st.data(), strategy=st.sampled_from(STRATEGIES), budget=st.integers(30, 400))
def test_a_history_that_a_server_accepts_stays_acceptable(
    server: str, data: st.DataObject, strategy: str, budget: int
) -> None:
    history = data.draw(histories(server))
    assert refusal(SERVERS[server], history) is None
    conversation = Conversation(budget=exact_budget(budget), strategy=strategy, annotate="infer")
    forked = data.draw(st.integers(0, len(history)))
    for number, message in enumerate(history):
        if message["role"] == "assistant":
            sent = conversation.request().messages
            assert refusal(SERVERS[server], sent) is None
            said, shown = words_of_persons(history[:number]), words_of_persons(sent)
            assert shown == (sorted(shown) if strategy in FORGETFUL else said)
            if number == forked:
                state = json.loads(json.dumps(conversation.state()))
                conversation = Conversation(budget=exact_budget(budget), strategy=strategy, annotate="infer")
                conversation.restore(state, history[:number])
                assert conversation.request().messages == sent
        conversation.append(message)


def user_message(text: str) -> Message:
    return {"role": "user", "content": text}


def answer_message(text: str, **fields: Any) -> Message:
    return {"role": "assistant", "content": text, **fields}


def call_messages(number: int, tool: str, output: str, **fields: Any) -> list[Message]:
    function = {"name": tool, "arguments": "{}"}
    call = {"id": f"c{number}", "type": "function", "function": function}
    answer = {"role": "assistant", "content": None, "tool_calls": [call], **fields}
    return [answer, {"role": "tool", "tool_call_id": f"c{number}", "content": output}]


def views(history: Sequence[Message], **settings: Any) -> Iterator[list[Message]]:
    """The request ahead of each answer, and at the end."""
    conversation = Conversation(annotate="infer", **settings)
    for message in history:
        if message["role"] == "assistant":
            yield conversation.request().messages
        conversation.append(message)
    yield conversation.request().messages


@pytest.mark.parametrize("strategy", ["cwl", "paper", "streaming", "truncate", "fold"])
def test_a_later_turn_never_stands_ahead_of_an_earlier_answer_of_a_person(strategy: str) -> None:
    """The answer between both turns stays, or else the later one would join the earlier, ahead of "Yes, drop it."."""
    history = [
        user_message("Question 1."),
        *call_messages(0, "ask_user", "Person's answer 2. Yes, drop it."),
        answer_message("Dropped."),
    ]
    history += [user_message("Question 3. No, keep it!")]
    for number in range(1, 30):
        history += call_messages(number, "read", "x" * 400)
    history += [
        answer_message("Kept."),
        user_message("Question 4."),
        answer_message("Well."),
        user_message("Question 5."),
    ]
    sent = list(views(history, strategy=strategy, budget=exact_budget(600)))
    assert all(words_of_persons(messages) == sorted(words_of_persons(messages)) for messages in sent)
    assert len(sent[-1]) < len(history)
    assert all(refusal(TEMPLATE, messages) is None for messages in sent)
    if strategy in ("cwl", "paper"):
        assert [message["content"] for message in sent[-1]][2:4] == ["Person's answer 2. Yes, drop it.", "Dropped."]


def interrupted_history(rng: random.Random, *, empty: bool) -> list[Message]:
    """Turns of which each has one answer without calls: at its end, or early, where the user interrupts the calls.

    Args:
        rng: chooses.
        empty: whether half of these answers say nothing.
    """
    messages: list[Message] = []
    numbers = count()
    for turn in range(rng.randint(2, 8)):
        messages.append(user_message(f"Question {next(numbers)}. " * rng.randint(1, 9)))
        steps = rng.randint(0, 6)
        answered = rng.choice([0, steps, rng.randint(0, steps)])
        for step in range(steps + 1):
            if step == answered:
                words = f"Answer {turn}. " * rng.randint(1, 20)
                messages.append(answer_message("" if empty and rng.random() < 0.5 else words))
            else:
                tool = rng.choice(TOOLS)
                asks = tool == "ask_user"
                output = f"Person's answer {next(numbers)}." if asks else "x" * rng.randint(0, 400)
                fields = {"content": rng.choice([None, "I look."])}
                messages += call_messages(len(messages), tool, output, **fields)
    return [*messages, user_message(f"Question {next(numbers)}.")]


def in_history(sent: Sequence[Message], history: Sequence[Message]) -> bool:
    """Whether calls and what persons say stand in a request in the history's order."""

    def events(messages: Sequence[Message]) -> list[str]:
        return re.findall(r"(?:Question|Person's answer) \d+\.|\"(?:call_)?id\": \"\w+\"", json.dumps(list(messages)))

    places = {event: place for place, event in enumerate(events(history))}
    shown = [places[event] for event in dict.fromkeys(events(sent))]
    return shown == sorted(shown)


@pytest.mark.parametrize("strategy", ["none", *STRATEGIES, *SUMMARISING])
@pytest.mark.parametrize("empty", [False, True])
@pytest.mark.parametrize("seed", [*range(4), *wide(*range(4, 48))])
def test_no_turn_moves_ahead_of_what_it_interrupts(strategy: str, empty: bool, seed: int) -> None:
    """The early answer stays as long as a call behind it, since it alone parts the turns (R12b)."""
    rng = random.Random(seed)
    history = interrupted_history(rng, empty=empty)
    assert refusal(TEMPLATE, history) is None
    conversation = Conversation(budget=exact_budget(rng.randint(30, 400)), strategy=strategy, annotate="infer")
    for number, message in enumerate([*history, answer_message("The end.")]):
        if message["role"] == "assistant":
            request = conversation.request()
            while request.for_summary:
                request = conversation.summarised("They looked.")
            assert refusal(TEMPLATE, request.messages) is None
            assert in_history(request.messages, history[:number])
        conversation.append(message)


def as_messages(message: Message) -> Message:
    """A message of Chat Completions as one of Messages; each result is a message of its own."""
    if message["role"] == "tool":
        result = {"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": message["content"]}
        return {"role": "user", "content": [result]}
    content = [{"type": "text", "text": message["content"]}] if message["content"] else []
    for call in message.get("tool_calls", ()):
        arguments = json.loads(call["function"]["arguments"])
        content.append({"type": "tool_use", "id": call["id"], "name": call["function"]["name"], "input": arguments})
    return {"role": message["role"], "content": content}


@pytest.mark.parametrize("format_", ["openai", "anthropic"])
@pytest.mark.parametrize("seed", [*range(8), *wide(*range(8, 96))])
def test_no_turn_joins_an_index_ahead_of_what_it_interrupts(format_: str, seed: int) -> None:
    """Behind an early answer, and behind the calls that follow one, the index joins the turn before the answer."""
    rng = random.Random(seed)
    history = interrupted_history(rng, empty=False)
    for message in history:
        for call in message.get("tool_calls", ()):
            call["function"]["arguments"] = json.dumps({"path": f"{call['id']}.py"})
    if format_ == "anthropic":
        history = [*map(as_messages, history)]
    api = "openai-chat" if format_ == "openai" else "anthropic"
    budget, indexed = exact_budget(rng.randint(100, 400)), 0
    conversation = Conversation(format_, budget=budget, annotate="infer", policy=Policy(index_share=0.4))
    for number, message in enumerate(history):
        if message["role"] == "assistant":
            sent = conversation.request().messages
            indexed += "left your context window" in json.dumps(sent)
            assert refusal(TEMPLATE, sent, api) is None
            assert in_history(sent, history[:number])
        conversation.append(message)
    assert in_history(conversation.request().messages, history)
    assert indexed > 0


@pytest.mark.parametrize("strategy", ["none", "cwl", "paper", "clear-tools"])
def test_an_empty_answer_keeps_a_turn_behind_what_a_person_answered(strategy: str) -> None:
    """No other answer parts both turns, so this one goes out as it came, after passes too."""
    history = [
        user_message("Question 1."),
        *call_messages(0, "ask_user", "Person's answer 2. Yes, drop it."),
        answer_message(""),
        user_message("Question 3. No, keep it!"),
    ]
    for number in range(1, 30):
        history += call_messages(number, "read", "x" * 400)
    history += [answer_message("Kept."), user_message("Question 4."), answer_message(""), user_message("Question 5.")]
    sent = list(views(history, strategy=strategy, budget=exact_budget(600)))
    for messages in sent:
        assert words_of_persons(messages) == list(range(1, len(words_of_persons(messages)) + 1))
        assert refusal(TEMPLATE, messages) is None
    assert sent[-1][3:5] == history[3:5]
    assert sent[-1][-1]["content"] == "Question 4.\n\nQuestion 5."


@pytest.mark.parametrize("strategy", ["cwl", "paper", "truncate", "streaming", "clear-tools", "mask", "resum"])
def test_an_empty_answer_of_responses_parts_turns_too(strategy: str) -> None:
    """It has no items, so it stays as long as anything of its turn, also after the calls ahead of it have left."""
    history: list[Any] = []
    for turn in range(0, 40, 8):
        history.append({"role": "user", "content": f"Question {turn}. " * 4})
        for number in range(turn + 1, turn + 7):
            call = {"type": "function_call", "call_id": f"c{number}", "name": "read", "arguments": "{}"}
            history += [[call], {"type": "function_call_output", "call_id": f"c{number}", "output": "x" * 200}]
        history.append([{"role": "assistant", "content": ""}])
    history.append({"role": "user", "content": "Question 40."})
    conversation = Conversation("openai_responses", strategy=strategy, annotate="infer", budget=exact_budget(300))
    for entry in [*history, [{"role": "assistant", "content": "The end."}]]:
        if isinstance(entry, list):
            request = conversation.request()
            while request.for_summary:
                request = conversation.summarised("They looked.")
            assert refusal(TEMPLATE, request.messages, "openai-responses") is None
            assert in_history(request.messages, conversation.messages)
        conversation.append(entry)
    assert conversation.evicted > 0


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_an_answer_of_reasoning_alone_parts_turns_as_any_other(strategy: str) -> None:
    """It stays as long as the calls ahead of it: the next turn would stand behind a result, or ahead of all of them."""
    history = [user_message("Question 1.")]
    for turn in range(2, 12, 2):
        history += call_messages(turn, "ask_user", f"Person's answer {turn}.")
        history += call_messages(turn + 1, "read", "x" * 400)
        history += [answer_message("", reasoning_content="Well. " * 40), user_message(f"Question {turn + 1}.")]
    rules = (*TEMPLATE, *MISTRAL)
    assert refusal(rules, history) is None
    for messages in views(history, strategy=strategy, budget=exact_budget(200)):
        assert refusal(rules, messages) is None
        assert words_of_persons(messages) == sorted(words_of_persons(messages))


def test_in_messages_a_turn_behind_an_empty_answer_stays_in_place() -> None:
    """Anthropic refuses an empty answer between others, and takes turns of the user in a row."""
    conversation = Conversation("anthropic")
    conversation.append({"role": "user", "content": "Question 1."})
    conversation.append(
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "ask_user", "input": {}}]}
    )
    result = {"type": "tool_result", "tool_use_id": "c", "content": "Person's answer 2."}
    conversation.append({"role": "user", "content": [result]})
    conversation.append({"role": "assistant", "content": []})
    conversation.append({"role": "user", "content": "Question 3."})
    sent = conversation.request().messages
    assert words_of_persons(sent) == [1, 2, 3]
    # llama.cpp would put a text beside the result ahead of it.
    assert [message["content"] for message in sent[-2:]] == [[result], "Question 3."]


@pytest.mark.parametrize("strategy", ["cwl", "paper", "clear-tools", "mask"])
def test_in_messages_turns_in_a_row_are_one(strategy: str) -> None:
    """A request holds them as one message, so roles alternate before and after passes."""
    conversation = Conversation("anthropic", budget=exact_budget(300), strategy=strategy, annotate="infer")
    for turn in range(0, 36, 4):
        conversation.append({"role": "user", "content": f"Question {turn}."})
        conversation.append({"role": "user", "content": f"Question {turn + 1}."})
        conversation.append({"role": "assistant", "content": "I look. " * 9})
        for step in range(3):
            sent = conversation.request().messages
            assert refusal(TEMPLATE, sent, "anthropic") is None
            assert in_history(sent, conversation.messages)
            use = {"type": "tool_use", "id": f"c{turn}-{step}", "name": "edit" if step else "read", "input": {}}
            (call,) = conversation.append({"role": "assistant", "content": [use]})
            conversation.append(call.result("x" * 90))
        # The next turn interrupts the calls, so the early answer alone parts both.
    assert conversation.evicted > 0


QUEUED = (
    "<system-reminder>\nThe user sent the following message:\nUser turn 99.\n\n"
    "Please address this message and continue with your tasks.\n</system-reminder>"
)


@pytest.mark.parametrize("strategy", [*STRATEGIES, *SUMMARISING])
def test_words_inside_a_result_are_a_persons_and_no_turn(strategy: str) -> None:
    """Claude Code puts a prompt that was queued into the last result; a tool's output may end so, too (R21)."""
    conversation = Conversation("anthropic", budget=exact_budget(900), strategy=strategy, annotate="infer")
    for turn in range(9):
        conversation.append({"role": "user", "content": f"Question {turn}."})
        for step in range(2):
            request = conversation.request()
            while request.for_summary:
                request = conversation.summarised("They looked.")
            assert refusal(TEMPLATE, request.messages, "anthropic") is None
            blocks = [block for sent in request.messages for block in sent["content"] if isinstance(block, dict)]
            called = [block["id"] for block in blocks if block["type"] == "tool_use"]
            assert called == [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
            if strategy not in FORGETFUL:
                queued = turn > 2 or (turn, step) == (2, 1)
                assert ("User turn 99." in json.dumps(blocks)) == queued
            names = [f"c{turn}-{step}-{place}" for place in "ab"]
            uses = [{"type": "tool_use", "id": name, "name": "read", "input": {}} for name in names]
            for call in conversation.append({"role": "assistant", "content": uses}):
                conversation.append(call.result("x" * 200 + (QUEUED if (turn, step) == (2, 0) else "")))
        conversation.append({"role": "assistant", "content": "Done."})
    assert conversation.evicted > 0


def test_it_never_does_for_a_server_that_demands_nothing_either() -> None:
    history = [
        user_message("Question 1."),
        *call_messages(0, "ask_user", "Person's answer 2. Yes, drop it."),
        answer_message("Dropped."),
    ]
    history += [user_message("Question 3. No, keep it!")]
    for number in range(1, 30):
        history += call_messages(number, "read", "x" * 400)
    conversation = Conversation(
        OpenAIFormat(demands_reasoning=False), annotate="infer", strategy="paper", budget=exact_budget(600)
    )
    for message in history:
        if message["role"] == "assistant":
            assert words_of_persons(conversation.request().messages) in ([1], [1, 2], [1, 2, 3])
        conversation.append(message)
    assert conversation.evicted > 0


@pytest.mark.parametrize("strategy", ["cwl", "paper", "streaming"])
def test_a_turn_of_the_user_parts_turns_with_and_without_reasoning(strategy: str) -> None:
    """DeepSeek V4 demands reasoning of each answer of a turn with calls, and of no other."""
    history = [
        user_message("Edit."),
        *call_messages(0, "ask_user", "Yes.", reasoning_content="Hm."),
        answer_message("So. " * 400, reasoning_content="So."),
    ]
    history += [user_message("Thank you."), answer_message("You are welcome."), user_message("Go on.")]
    for number in range(1, 30):
        history += call_messages(number, "read", "x" * 100, reasoning_content="Hm.")
    assert refusal(DEEPSEEK_V4, history) is None
    for messages in views(history, strategy=strategy, budget=exact_budget(300)):
        assert refusal(DEEPSEEK_V4, messages) is None


def test_streaming_keeps_a_turn_of_the_user_between_the_head_and_later_answers() -> None:
    """Without it, DeepSeek V4 takes an answer without reasoning in the head for one of a turn with calls."""
    history = [
        user_message("Question 1."),
        user_message("Question 2."),
        answer_message("Hello."),
        user_message("Go on."),
    ]
    for turn in range(3):
        history += [user_message(f"Question {turn + 3}.")]
        for number in range(turn * 9, turn * 9 + 9):
            history += call_messages(number, "read", "x" * 100, reasoning_content="Hm.")
        history += [answer_message("Done.", reasoning_content="So.")]
    assert refusal(DEEPSEEK_V4, history) is None
    for messages in views(history, strategy="streaming", budget=exact_budget(200)):
        assert refusal(DEEPSEEK_V4, messages) is None


def thought_block(number: int, seal: int) -> Message:
    block = {"type": "thinking", "thinking": f"Thought {number}. " * 9}
    return {**block, "signature": "c" * seal} if seal else block


@pytest.mark.parametrize("seal", [0, 36])
@pytest.mark.parametrize("strategy", ["cwl", "paper", "truncate", "streaming"])
def test_in_messages_each_answer_of_a_turn_with_calls_keeps_its_thinking(strategy: str, seal: int) -> None:
    """DeepSeek V4, whose signature, if there is one, is shorter than Anthropic's over no thinking."""
    conversation = Conversation("anthropic", annotate="infer", strategy=strategy, budget=exact_budget(900))
    for turn in range(8):
        conversation.append({"role": "user", "content": f"Question {turn}."})
        for number in range(turn * 9, turn * 9 + 4):
            use = {"type": "tool_use", "id": f"c{number}", "name": "read", "input": {}}
            result = {"type": "tool_result", "tool_use_id": f"c{number}", "content": "x" * 200}
            conversation.append({"role": "assistant", "content": [thought_block(number, seal), use]})
            conversation.append({"role": "user", "content": [result]})
        last = [thought_block(turn, seal), {"type": "text", "text": f"Answer {turn}. " * 9}]
        conversation.append({"role": "assistant", "content": last})
        assert refusal(DEEPSEEK_V4, conversation.request().messages, "anthropic") is None
    assert conversation.evicted > 0


@pytest.mark.parametrize(
    ("api", "strategy"),
    [
        *(("anthropic", strategy) for strategy in ("cwl", "paper", "truncate", "streaming", "mask")),
        *(("openai-responses", strategy) for strategy in ("cwl", "paper", "truncate", "mask")),
    ],
)
def test_an_answer_of_reasoning_alone_parts_turns_in_other_apis_too(api: str, strategy: str) -> None:
    """In Messages as in Chat Completions; in Responses, where it may be a piece, if the user's turn comes behind it."""
    format_ = "anthropic" if api == "anthropic" else "openai_responses"
    conversation = Conversation(format_, annotate="infer", strategy=strategy, budget=exact_budget(300))
    for turn in range(0, 40, 8):
        conversation.append(conversation.format.turn(f"Question {turn}."))
        for number in range(turn + 1, turn + 5):
            if api == "anthropic":
                use = {"type": "tool_use", "id": f"c{number}", "name": "read", "input": {}}
                result = {"type": "tool_result", "tool_use_id": f"c{number}", "content": "x" * 200}
                conversation.append({"role": "assistant", "content": [use]})
                conversation.append({"role": "user", "content": [result]})
            else:
                call = {"type": "function_call", "call_id": f"c{number}", "name": "read", "arguments": "{}"}
                conversation.append([call])
                conversation.append({"type": "function_call_output", "call_id": f"c{number}", "output": "x" * 200})
        if api == "anthropic":
            conversation.append({"role": "assistant", "content": [thought_block(turn, 0)]})
        else:
            thought = [{"type": "reasoning_text", "text": "So. " * 9}]
            conversation.append([{"type": "reasoning", "summary": [], "content": thought}])
        conversation.append(conversation.format.turn("Thank you."))
        conversation.append(answers_in(conversation, "You are welcome."))
        sent = conversation.request().messages
        assert refusal((*TEMPLATE, *MISTRAL), sent, api) is None
        assert in_history(sent, conversation.messages)
    assert conversation.evicted > 0


def answers_in(conversation: Conversation[Any], text: str) -> Any:
    """An answer without calls; that of Responses as the list of its items."""
    message = {"role": "assistant", "content": text}
    return [message] if conversation.format.name == "openai_responses" else message


def test_a_thought_alone_stays_with_the_calls_behind_it_and_no_others_after_a_restart() -> None:
    """An answer of Chat Completions is one message, so that no reasoning in another one needs it."""
    history = [user_message("Question 1."), *call_messages(1, "read", "x" * 900)]
    history += [answer_message("", reasoning_content="Well. " * 9)]
    history += call_messages(2, "read", "x" * 900, content="I look.", reasoning_content="Hm.")
    conversation = Conversation(strategy="resum", budget=exact_budget(300), annotate="infer")
    for message in history:
        conversation.append(message)
    request = conversation.request()
    assert request.for_summary
    conversation.summarised("They looked.")
    for message in call_messages(3, "read", "short", reasoning_content="Hm."):
        conversation.append(message)
    again = Conversation(strategy="resum", budget=exact_budget(300), annotate="infer")
    assert again.restore(json.loads(json.dumps(conversation.state())), conversation.messages)
    assert again.request().messages == conversation.request().messages


@pytest.mark.parametrize("strategy", ["truncate", "streaming"])
def test_an_image_stays_and_goes_with_the_words_that_it_came_with(strategy: str) -> None:
    """The first turn of the user stays whole, and no cut falls within a later one."""
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aW1hZ2U="}}
    conversation = Conversation("anthropic", strategy=strategy, annotate="infer", budget=exact_budget(2_000))
    for turn in range(9):
        words = {"type": "text", "text": f"Question {turn}. " + "x" * 900}
        conversation.append({"role": "user", "content": [words, image]})
        conversation.append({"role": "assistant", "content": [{"type": "text", "text": "Yes. " * 40}]})
        sent = conversation.request().messages
        assert sent[0]["content"][:2] == [{**words, "text": "Question 0. " + "x" * 900}, image]
        for message in sent:
            kinds = [block["type"] for block in message["content"] if message["role"] == "user"]
            assert kinds.count("text") == kinds.count("image")
    assert conversation.evicted > 0


@pytest.mark.parametrize("strategy", ["cwl", "paper", "truncate", "streaming", "fold"])
def test_reasoning_that_is_appended_alone_stays_with_the_item_behind_it(strategy: str) -> None:
    """R12: in OpenAI's Responses an answer may be appended item by item."""
    history: list[Any] = [{"role": "user", "content": "Look."}]
    for number in range(40):
        names = (f"a{number}", f"b{number}")
        calls = [{"type": "function_call", "call_id": name, "id": f"fc_{name}", "name": "read"} for name in names]
        history.append([{"type": "reasoning", "id": f"rs_{number}", "summary": [], "encrypted_content": "c2VhbA=="}])
        history += [[{**call, "arguments": "{}"}] for call in calls]
        history += [[{"type": "function_call_output", "call_id": name, "output": "x" * 200}] for name in names]
        if number % 9 == 8:
            history += [[{"role": "assistant", "content": f"Done {number}."}], {"role": "user", "content": "On."}]
    conversation, strict = (
        Conversation("openai_responses", annotate="infer", strategy=strategy, budget=2_000),
        OpenAIResponses(),
    )
    for entry in history:
        kind = entry[0].get("type") if isinstance(entry, list) else None
        if kind == "reasoning":
            sent = conversation.request().messages
            body = {"model": "m", "input": sent}
            strict.check(strict.parse(json.dumps(body).encode(), body, {}, 0, {"model": "m"}))
        conversation.append(entry)
    assert conversation.evicted > 0


def test_a_mark_that_is_no_json_goes_back_as_an_empty_object_with_its_error() -> None:
    conversation = Conversation(budget="6k")
    conversation.append({"role": "user", "content": "Look."})
    conversation.request()
    function = {"name": "delimiter", "arguments": '{"action": "start", "name": "look'}
    conversation.append(
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "type": "function", "function": function}]}
    )
    request = conversation.request()
    assert refusal(TEMPLATE, request.messages) is None
    assert request.messages[1]["tool_calls"][0]["function"]["arguments"] == "{}"
    assert request.messages[2]["content"].startswith("Error")
    # The history has what the model wrote.
    assert conversation.messages[1]["tool_calls"][0]["function"] == function


def test_a_mark_in_responses_goes_back_as_an_empty_object_too() -> None:
    conversation = Conversation("openai_responses", budget="6k")
    conversation.append({"role": "user", "content": "Look."})
    conversation.request()
    call = {"type": "function_call", "id": "fc_1", "call_id": "c1", "arguments": '{"action": "start", "name": "look'}
    others = {**call, "id": "fc_2", "call_id": "c2", "name": "read"}
    (open_call,) = conversation.append([{**call, "name": "delimiter"}, others])
    conversation.append(open_call.result("x"))
    sent = conversation.request().messages
    # What other tools are called with goes back as the model wrote it.
    assert sent[1:3] == [{**call, "name": "delimiter", "arguments": "{}"}, others]
    assert [item["output"].startswith("Error") for item in sent if item.get("call_id") == "c1" and "output" in item]
    assert conversation.messages[1]["items"][0]["arguments"] == call["arguments"]


LOOP = ContextSettings(
    budget=exact_budget(2_400),
    policy=Policy(index_share=0.1),
    remind_at=0.3,
    recall=True,
    tool_classes={"edit": ToolClass.PERSON},
)
OUTPUTS = {"tool_search": [DEFERRED], "drop": {"approve": True, "reason": "It is the test system."}}
LOOPS: list[Any] = [
    (ChatClient, "template"),
    (ChatClient, "mistral"),
    *(
        pytest.param(*loop, marks=pytest.mark.full)
        for loop in [
            *((ChatClient, "deepseek"), (ChatClient, "openrouter"), (ChatClient, "gemini")),
            *((LocalAnthropicClient, "template"), (LocalAnthropicClient, "deepseek"), (ResponsesClient, "template")),
            (ChatClient, "deepseek v4"),
            *((LocalAnthropicClient, "mistral"), (ResponsesClient, "mistral")),
            *((GeminiClient, "gemini 3"), (GeminiCliClient, "gemini 2")),
        ]
    ),
]


@pytest.mark.parametrize(("make", "server"), LOOPS)
@pytest.mark.parametrize("annotate", ["model", "infer"])
@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.wide) for n in range(1, 12))])
def test_a_server_accepts_each_request_of_a_loop_whose_model_marks_recklessly(
    make: type[Client], server: str, annotate: Any, seed: int
) -> None:
    """With recalls, branches and restarts, and marks that are not JSON."""
    strategy = "cwl" if seed % 3 < 2 else random.Random(seed).choice(STRATEGIES)
    settings = replace(LOOP, annotate=annotate, strategy=strategy)
    model = Reckless(seed, always_reasons=server == "deepseek v4")
    live(make, settings, StrictUpstream(make.provider, model, server=STRICT[server]), seed)


@pytest.mark.parametrize(
    ("make", "server", "strategy"),
    [
        (PausingClient, "anthropic", "truncate"),
        *then_full(
            *((PausingClient, "anthropic", strategy) for strategy in ("cwl", "fold", "mask")),
            *(
                (ThinkingClient, "anthropic", "cwl"),
                (StreamedClient, "anthropic", "cwl"),
                (ThinkingClient, "anthropic", "acon"),
                (SearchingClient, "openai", "cwl"),
                (GeminiClient, "gemini 3", "cwl"),
            ),
        ),
        *wide(*((*provider, strategy) for provider in PROVIDERS for strategy in (*STRATEGIES, *SUMMARISING))),
    ],
)
@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.wide) for n in range(1, 6))])
def test_a_server_that_runs_tools_itself_accepts_each_request_of_a_loop(
    make: type[Client], server: str, strategy: str, seed: int
) -> None:
    settings = replace(LOOP, annotate="model" if seed % 2 else "infer", strategy=strategy)
    live(make, settings, Serving(make.provider, model_of(make, seed), server=STRICT[server], seed=seed), seed)


@pytest.mark.parametrize("strategy", ["cwl", *wide("paper", "truncate", "streaming", "clear-tools", "mask", "fold")])
@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(n, marks=pytest.mark.wide) for n in range(2, 24))])
def test_a_server_accepts_each_later_system_message_of_a_loop(strategy: str, seed: int) -> None:
    """Anthropic takes one behind a turn of the user alone, whatever of what stood between them has left."""
    settings = replace(LOOP, annotate="model" if seed % 2 else "infer", strategy=strategy)
    live(RemindedClient, settings, StrictUpstream(RemindedClient.provider, Reckless(seed)), seed)


def live(make: type[Client], settings: ContextSettings, upstream: StrictUpstream, seed: int) -> None:
    """Live twelve turns, with recalls, branches and restarts."""
    rng, client, numbers = random.Random(seed), make(), count()
    client.say("(the history)")
    key = next(name for name in ("contents", "input", "messages") if name in client.body())

    def ask(conversation: Conversation) -> Any:
        body, request = client.body(), conversation.request()
        tools = [*body["tools"], *conversation.tools]
        while request.for_summary:
            assert upstream.refusal({**body, key: request.messages, "tools": tools}) is None
            request = conversation.summarised("They looked.")
        sent = {key: request.messages, "tools": tools}
        if settings.strategy not in FORGETFUL:
            assert words_of_persons(sent[key]) == words_of_persons(conversation.format.wire(conversation.messages))
        answer = upstream.ask({**body, **sent})
        return accumulate_message(answer) if make is StreamedClient else json.loads(answer)

    # llama.cpp takes no note beside a result with a breakpoint, and has no use for one.
    cached = client.wire.name == "anthropic" and make is not LocalAnthropicClient and seed % 2 == 0
    mark = {"type": "ephemeral"} if cached else None

    def begin() -> Conversation[Any]:
        opens = make is ThinkingClient
        return Conversation(client.wire.name, settings=settings, keep_opening=opens, cache_control=mark)

    conversation = begin()
    if make is ChatClient:
        conversation.append(client.history[0])
    branches, evicted = [conversation], 0
    for _turn in range(12):
        if rng.random() < 0.3:
            branches.append(conversation.branch())
            conversation = rng.choice(branches)
        twice = upstream.server is STRICT["mistral"] and rng.random() < 0.5
        for _ in range(1 + twice):
            conversation.append(conversation.format.turn(f"User turn {next(numbers)}. " * rng.randint(1, 9)))
        while True:
            if rng.random() < 0.2:
                place = branches.index(conversation)
                state, history = json.loads(json.dumps(conversation.state())), conversation.messages
                conversation = branches[place] = begin()
                assert conversation.restore(state, history)
            calls = conversation.append(ask(conversation))
            evicted = max(evicted, conversation.evicted)
            for call in calls:
                output = OUTPUTS.get(call.name, "line of output, as long as lines are\n" * 12)
                if call.name == "edit":
                    output = f"Person's answer {next(numbers)}."
                conversation.append(call.result(output))
            if make is RemindedClient and rng.random() < 0.7 and not conversation.ended:
                conversation.append({"role": "system", "content": remind(len(conversation.messages))})
            if conversation.ended:
                break
    assert evicted > 0


def remind(number: int) -> str:
    """What a harness says in the system's place, or a person's settings."""
    return f"<total_tokens>{number} tokens left</total_tokens>" if number % 3 else f"Mind §{number}."


@pytest.mark.parametrize("make", [ChatClient, LocalAnthropicClient, ResponsesClient])
def test_a_reminder_makes_no_second_turn_of_the_user(make: type[Client]) -> None:
    """A server with a strict template would refuse one behind a result, and llama.cpp makes one of text beside it."""
    client, upstream = make(), StrictUpstream(make.provider, Reckless(0), server=STRICT["template"])
    client.say("(the history)")
    conversation = Conversation(client.wire.name, budget=exact_budget(1_000), remind_at=0.1)
    conversation.append(conversation.format.turn("Go."))
    for message in answers_of(make):
        conversation.append(message)
    request = conversation.request()
    assert request.reminder is not None
    assert request.reminder in json.dumps(request.messages[-1], ensure_ascii=False)
    key = "input" if make is ResponsesClient else "messages"
    messages = [*client.history[:-1], *request.messages] if make is ChatClient else request.messages
    assert upstream.refusal({**client.body(), key: messages}) is None


def answers_of(make: type[Client]) -> list[Any]:
    """A call and its long result."""
    long = "x" * 2_000
    if make is ResponsesClient:
        call = {"type": "function_call", "call_id": "c", "name": "read", "arguments": "{}"}
        return [[call], {"type": "function_call_output", "call_id": "c", "output": long}]
    if make is LocalAnthropicClient:
        use = {"type": "tool_use", "id": "c", "name": "read", "input": {}}
        answer = {"type": "tool_result", "tool_use_id": "c", "content": long}
        return [{"role": "assistant", "content": [use]}, {"role": "user", "content": [answer]}]
    called = {"id": "c", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    assistant = {"role": "assistant", "content": None, "tool_calls": [called]}
    return [assistant, {"role": "tool", "tool_call_id": "c", "content": long}]


@pytest.mark.parametrize("cached", [False, True])
def test_a_reminder_stands_in_an_earlier_result_where_the_last_one_loads_tools(cached: bool) -> None:
    """A result with references takes no text; beside it, llama.cpp makes a turn of the user of the note."""
    long, loaded = answers_of(LocalAnthropicClient), {"type": "tool_reference", "tool_name": "grep"}
    long[0]["content"].append({"type": "tool_use", "id": "d", "name": "ToolSearch", "input": {}})
    long[1]["content"].append({"type": "tool_result", "tool_use_id": "d", "content": [loaded]})
    if cached:
        long[1]["content"][-1]["cache_control"] = {"type": "ephemeral"}
    conversation = Conversation("anthropic", budget=exact_budget(1_000), remind_at=0.1)
    conversation.append(conversation.format.turn("Go."))
    for message in long:
        conversation.append(message)
    request = conversation.request()
    note = {"type": "text", "text": request.reminder}
    first, last, *beside = (block for sent in request.messages[2:] for block in sent["content"])
    assert last == long[1]["content"][1]
    # No later request could read a prefix that was cached with the note.
    assert (first["content"][-1] == note, beside == [note]) == (not cached, cached)
    assert (refusal(TEMPLATE, request.messages, "anthropic") is not None) == cached
