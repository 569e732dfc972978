"""Speed of a conversation at the level of messages: a turn costs what it adds, whatever has been said before.

    python benchmarks/conversation.py

Every figure is measured in this one run, in processor time, so that ratios mean something on a busy machine.
"""

from __future__ import annotations

import gc
import json
import random
import re
import statistics
import time
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import UsageLimits
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from wane.conversation import Conversation
from wane.integrations.pydantic_ai import ContextLifecycle
from wane.search import search

BUDGET = 80_000
SIZES = (1_000, 10_000)
TURNS = 300
FORMATS = ("openai", "anthropic", "openai_responses")
PATTERNS = (
    "TOKEN-4711",
    r"TOKEN-\d+",
    "token-4711",
    "no such thing",
    r"port\s+\d{4}",
    r"\w+_handler",
    "error|TOKEN",
    r"\d{3}-?\d{4}",
    r"\b\d{5}\b",
    "[a-f0-9]{12}",
    r"\w+\s\d{5}",
    r".*error.*",
    r"line \w+ 99\d",
    r"\w+",
    r"(foo|bar)\d",
)

Message = dict[str, Any]


def chat(messages: int, first: int = 0) -> Iterator[Message]:
    """Chat messages of explorations and acts that build on them, some 400 tokens an exchange."""
    words = random.Random(7)
    vocabulary = ["".join(words.choices("abcdefghijklmnopqrstuvwxyz", k=words.randint(2, 9))) for _ in range(5_000)]

    def text(size: int) -> str:
        return " ".join(words.choices(vocabulary, k=size // 6))

    yield {"role": "user", "content": "Please do it."}
    made, number = 1, first
    while made < messages:
        look, fix = f"look-{number}", f"fix-{number}"
        calls: list[tuple[str, dict[str, Any]]] = [("delimiter", {"action": "start", "name": look, "type": "expl"})]
        calls += [(("grep", "read")[n % 2], {"path": text(30)}) for n in range(6)]
        calls += [("delimiter", {"action": "end", "description": text(100)})]
        calls += [("delimiter", {"action": "start", "name": fix, "type": "act", "dependencies": [look]})]
        calls += [(("edit", "shell")[n % 2], {"path": text(30)}) for n in range(4)]
        calls += [("delimiter", {"action": "end"})]
        for position, (tool, given) in enumerate(calls):
            call = {"id": f"c{number}-{position}", "type": "function"}
            function = {"name": tool, "arguments": json.dumps(given)}
            yield {"role": "assistant", "content": text(60), "tool_calls": [{**call, "function": function}]}
            size = 20 if tool == "delimiter" else 2_400
            yield {
                "role": "tool",
                "tool_call_id": call["id"],
                "content": "\n".join(text(80) for _ in range(size // 80)),
            }
            made += 2
        number += 1


def convert_message(name: str, message: Message) -> Message:
    if name == "openai":
        return message
    calls = message.get("tool_calls") or ()
    if name == "openai_responses":
        if message["role"] == "tool":
            output = {"type": "function_call_output", "call_id": message["tool_call_id"], "output": message["content"]}
            return {"items": [output]}
        items = [{"role": message["role"], "content": message["content"]}]
        return {"items": items + [{"type": "function_call", "call_id": c["id"], **c["function"]} for c in calls]}
    if message["role"] == "tool":
        block = {"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": message["content"]}
        return {"role": "user", "content": [block]}
    if message["role"] == "user":
        return message
    blocks = [{"type": "text", "text": message["content"]}]
    for call in calls:
        function = call["function"]
        arguments = json.loads(function["arguments"])
        blocks.append({"type": "tool_use", "id": call["id"], "name": function["name"], "input": arguments})
    return {"role": "assistant", "content": blocks}


def history(name: str, messages: int) -> list[Message]:
    """Return this many messages, and more for the measured turns."""
    size = messages + 3 * TURNS
    return [convert_message(name, message) for message in islice(chat(size), size)]


def settle_conversation(name: str, messages: list[Message], count: int) -> Conversation[Any]:
    """Return a conversation that has taken in some messages and made its request."""
    conversation: Conversation[Any] = Conversation(name, budget=BUDGET, remind_at=None)
    conversation.host.ingest(messages[:count])
    conversation.request()
    return conversation


def turns(name: str, size: int, feed: Callable[[Conversation[Any], list[Message], int], None]) -> list[float]:
    """Return the seconds of turns: an answer and its result come in, and a request goes out."""
    messages = history(name, size)
    count = size + 1  # the first one is the user's, then answers and results take turns
    conversation = settle_conversation(name, messages, count)
    gc.collect()
    times = []
    for stop in range(count + 2, count + 2 * TURNS, 2):
        start = time.process_time()
        feed(conversation, messages, stop)
        request = conversation.request()
        times.append(time.process_time() - start)
        assert request.messages
    return times


def append_new(conversation: Conversation[Any], messages: list[Message], stop: int) -> None:
    """The host appends the new messages."""
    for message in messages[stop - 2 : stop]:
        conversation.append(message, input_tokens=1)


def ingest_all(conversation: Conversation[Any], messages: list[Message], stop: int) -> None:
    """A framework passes its whole list of messages."""
    conversation.host.ingest(messages[:stop])


def ingest_copies(conversation: Conversation[Any], messages: list[Message], stop: int) -> None:
    """A framework passes all messages, each as a new object."""
    conversation.host.ingest([dict(message) for message in messages[:stop]])


def turn_table() -> Table:
    table = Table(
        title=f"A turn at a budget of {BUDGET:,} tokens: an answer and its result come in, a request goes out"
    )
    table.add_column("format")
    table.add_column("given")
    for size in SIZES:
        table.add_column(f"{size:,} messages", justify="right")
    table.add_column("ratio", justify="right")
    ways = {"append": append_new, "ingest, the same objects": ingest_all, "ingest, other objects": ingest_copies}
    for name in FORMATS:
        for way, feed in ways.items():
            medians = [statistics.median(turns(name, size, feed)) for size in SIZES]
            cells = [f"{median * 1e6:,.0f} µs" for median in medians]
            table.add_row(name, way, *cells, f"{medians[1] / medians[0]:.2f}")
    return table


class Timed(ContextLifecycle):
    """Measures its own part of each model request."""

    async def prepare_model_request(self, ctx: Any, request_context: Any) -> Any:
        start = time.process_time()
        prepared = await super().prepare_model_request(ctx, request_context)
        TIMES.append(time.process_time() - start)
        return prepared


TIMES: list[float] = []


def steps(size: int) -> tuple[float, float, float]:
    """Return the seconds that the capability takes: in a step of a run, in its first one, in that of the next run."""
    history: list[ModelMessage] = []
    for message in islice(chat(size), size + 1):  # it ends with a result
        if message["role"] == "tool":
            history.append(ModelRequest([ToolReturnPart("read", message["content"], message["tool_call_id"])]))
        elif message["role"] == "user":
            history.append(ModelRequest([UserPromptPart(message["content"])]))
        else:
            (call,) = message["tool_calls"]
            function = call["function"]
            use = ToolCallPart(function["name"], function["arguments"], call["id"])
            history.append(ModelResponse([TextPart(message["content"]), use]))
    given = iter(range(TURNS // 5))

    def answer(_messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
        number = next(given, None)
        return ModelResponse([TextPart("Done.") if number is None else ToolCallPart("look", {"at": number})])

    agent = Agent(FunctionModel(answer), capabilities=[Timed(BUDGET, remind_at=None)])

    @agent.tool_plain
    def look(at: int) -> str:
        return f"{at}: " + "seen " * 400

    TIMES.clear()
    run = agent.run_sync("Go on.", message_history=history, usage_limits=UsageLimits(request_limit=None))
    first, *others = TIMES  # the first one takes the history in
    TIMES.clear()
    agent.run_sync("And now?", message_history=run.all_messages())
    return statistics.median(others), first, TIMES[0]


def step_table() -> Table:
    table = Table(title="What ContextLifecycle adds to a Pydantic AI run that continues a history")
    table.add_column("what")
    for size in SIZES:
        table.add_column(f"{size:,} messages", justify="right")
    table.add_column("ratio", justify="right")
    labels = ("a step", "the first step", "the first step of the run after it")
    for label, (small, large) in zip(labels, zip(*map(steps, SIZES), strict=True), strict=True):
        table.add_row(label, f"{small * 1e6:,.0f} µs", f"{large * 1e6:,.0f} µs", f"{large / small:.2f}")
    return table


def history_table() -> Table:
    table = Table(title="A whole history of chat messages")
    table.add_column("what")
    for size in SIZES:
        table.add_column(f"{size:,} messages", justify="right")
    rows: dict[str, list[str]] = {}
    for size in SIZES:
        messages = history("openai", size)[:size]
        taking, conversation = time_work(lambda m=messages: settle_conversation("openai", m, len(m)))
        exporting, state = time_work(conversation.state)
        other: Conversation[Any] = Conversation(budget=BUDGET)
        restoring, done = time_work(lambda o=other, s=state, m=messages: o.restore(s, m))
        assert done
        cells = {
            "take it in, each request passed through": f"{taking * 1e3:,.1f} ms",
            "state()": f"{exporting * 1e3:,.1f} ms",
            "restore()": f"{restoring * 1e3:,.1f} ms",
            "size of the state": f"{len(json.dumps(state)) / 1e3:,.1f} kB",
        }
        for label, cell in cells.items():
            rows.setdefault(label, [label]).append(cell)
    for row in rows.values():
        table.add_row(*row)
    return table


def time_work(work: Callable[[], Any]) -> tuple[float, Any]:
    gc.collect()
    start = time.process_time()
    outcome = work()
    return time.process_time() - start, outcome


def lines_of_words() -> list[str]:
    """Return texts whose lines have the beginning of nearly every pattern: 10,000 texts of 9 MB in all."""
    words = re.findall(r"\w+", "line error warning foo bar handler value return import class port the of")
    chosen = random.Random(1)
    every = [*words * 5, *map(str, range(1_000, 1_015))]
    lines = [" ".join(chosen.choices(every, k=8)) for _ in range(200_000)]
    return ["\n".join(lines[start : start + 20]) for start in range(0, len(lines), 20)]


def bare_pass(regex: re.Pattern[str], texts: list[str]) -> None:
    for text in texts:
        regex.search(text)


def search_table() -> Table:
    messages = history("openai", SIZES[-1])[: SIZES[-1]]
    messages[3_002] = {**messages[3_002], "content": f"{messages[3_002]['content']}\nTOKEN-4711 at port 8443\n"}
    conversation = settle_conversation("openai", messages, len(messages))
    size = sum(len(str(message["content"])) for message in messages)
    table = Table(title=f"A search of {len(messages):,} messages, {size / 1e6:.0f} MB of text")
    table.add_column("pattern")
    table.add_column("time", justify="right")
    table.add_column("answer")
    table.add_column("lines of words", justify="right")
    table.add_column("one bare pass of re", justify="right")
    hard = lines_of_words()
    for pattern in PATTERNS:
        slow = min(time_work(lambda p=pattern: search(p, hard))[0] for _ in range(5))
        regex = re.compile(pattern, re.MULTILINE)
        bare = min(time_work(lambda r=regex: bare_pass(r, hard))[0] for _ in range(3))
        seconds, answer = min(
            (time_work(lambda p=pattern: conversation.search(p)) for _ in range(5)), key=lambda it: it[0]
        )
        said = escape(answer.split("\n", 1)[0][:40])
        table.add_row(
            escape(pattern), *(f"{seconds * 1e3:.0f} ms", said, f"{slow * 1e3:.0f} ms", f"{bare * 1e3:.0f} ms")
        )
    return table


if __name__ == "__main__":
    console = Console()
    for make in (turn_table, step_table, history_table, search_table):
        console.print(make())
