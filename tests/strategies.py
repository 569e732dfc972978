"""Hypothesis strategies for histories, policies and budgets.

A history is drawn as a list of moves, which shrink well, and then written out by an author who keeps
to the protocol's state just enough to be right or wrong on purpose.

| strategy | gives |
|---|---|
| `sessions()` | OpenAI chat messages: every kind of delimiter call, parallel calls, late and shuffled results |
| `histories()` | `Item` lists: the same, with or without message ordinals, free token counts, couplings (R12) |
| `policies()`, `budgets(…)` | policies of every order; budgets that strain a history, tiny ones too |
| `scenarios()` | a history with budget and policy |
| `branchings()` | a scenario in which a host opens, enters and ends episodes, several at once (R18) |
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import pairwise
from typing import Any, Protocol

from hypothesis import settings
from hypothesis import strategies as st

from tests.lives import rules_of
from tests.oracle import (
    Ep,
    Reading,
    Rules,
    State,
    arguments_of,
    assistant_messages,
    find_ended,
    items_of,
    open_tasks,
    read,
    run_pass,
    start_is_accepted,
)
from wane.core import ContextWindow, EpisodeType, Item, Kind, Policy, Standing
from wane.core import Mark as HostMark


def times(factor: float) -> settings:
    """Settings for so many times the examples of the profile in use."""
    assert settings.default is not None
    return settings(max_examples=max(1, round(settings.default.max_examples * factor)))


TOOLS = (
    *("grep", "glob", "LS", "List_Files", "web_search"),  # bulk
    *("edit", "write", "Apply_Patch"),  # durable
    *("read", "bash", "fetch", "unheard_of", "Delimiter"),  # artifact
)

# Moves. The strategies are cached: making one costs more than drawing from it.

PADS = ("", " ", "\n\t ")
RAW = (
    "",
    " ",
    "null",
    "true",
    "7",
    "NaN",
    '"start"',
    "[]",
    '[{"action": "start", "name": "raw", "type": "expl"}]',
    '{"action": "end"',
    "{'action': 'end'}",
    '{"action": "end",}',
    '{"action": "end"} trailing',
    "[" * 20_000,
    '{"action": "end", "x": ' + "9" * 5_000 + "}",
    '{"action": "start", "name": "raw", "type": "expl", "x": NaN}',
    '{"action": "end", "description": "known", "x": -Infinity}',
)
"""Arguments that are no JSON object, or no JSON at all."""

VALUES: tuple[Any, ...] = (
    *(None, True, 0, 1.5, "", "  ", "start", "end", "expl", "act", "task", "Start", "EXPL", "nobody", " e0 "),
    *(
        "<what you learned>",
        "<",
        "<b",
        [],
        [""],
        ["e0"],
        ["e0", "e0", " "],
        ["nobody"],
        [None],
        [7],
        [["e0"]],
        {},
        {"e0": 1},
    ),
)
"""What may stand in a field, right or wrong."""

FIELDS = ("action", "name", "type", "dependencies", "description", "abandoned", "extra")


@dataclass(frozen=True)
class Mark:
    """A delimiter call to make: the next one that is right, or one that is spoilt on purpose.

    Where no episode is active, and there are tasks, `task` starts or ends one.
    """

    way: str = "next"
    act: bool = False
    task: bool = False
    pick: int = 0
    pad: str = ""
    frill: int = 0
    spoil: tuple[str, Any] | str | None = None


@dataclass(frozen=True)
class Use:
    """A tool call to make; `again` gives it the id of a call that is still open, as some servers do."""

    tool: str = "grep"
    size: int = 4
    again: bool = False


@dataclass(frozen=True)
class Turn:
    """An assistant message to write, with sizes in characters, and which open calls are answered after it."""

    reasoning: int = 0
    text: int = 0
    calls: tuple[Mark | Use, ...] = ()
    answers: int = -1
    shuffle: int = 0
    result: int = 4


@dataclass(frozen=True)
class Word:
    """A user or system message, or a notice, to write."""

    role: str = "user"
    size: int = 4


def often(*pairs: tuple[int, st.SearchStrategy[Any]]) -> st.SearchStrategy[Any]:
    """One of several strategies, by weight (`one_of` takes a repeated strategy once)."""
    weighted = [strategy for weight, strategy in pairs for _ in range(weight)]
    return st.sampled_from(weighted).flatmap(lambda chosen: chosen)


@cache
def marks() -> st.SearchStrategy[Mark]:
    """Delimiter calls, mostly right."""
    frills, pads = st.sampled_from((0, 0, 0, 1, 2, 3)), st.sampled_from(PADS)
    right = st.builds(Mark, act=st.booleans(), task=of_a_task(), pick=st.integers(0, 7), pad=pads, frill=frills)
    field_spoilt = st.tuples(st.sampled_from(FIELDS), st.sampled_from(VALUES))
    spoils = st.one_of(field_spoilt, st.sampled_from(FIELDS[:5]), st.sampled_from(RAW))
    spoilt = st.builds(
        Mark,
        way=st.sampled_from(("next", "start", "end")),
        act=st.booleans(),
        task=of_a_task(),
        pick=st.integers(0, 7),
        spoil=spoils,
    )
    out_of_turn = st.builds(Mark, way=st.sampled_from(("start", "end", "again")), act=st.booleans(), task=of_a_task())
    return often((8, right), (1, spoilt), (1, out_of_turn))


@cache
def of_a_task() -> st.SearchStrategy[bool]:
    """Whether a mark is of a task, where there are tasks."""
    return st.sampled_from((False, False, True))


@cache
def sizes() -> st.SearchStrategy[int]:
    """Lengths of texts in characters, now and then long."""
    return often((2, st.integers(0, 40)), (1, st.integers(100, 600)))


@cache
def turns() -> st.SearchStrategy[Turn]:
    """Assistant messages with what is answered after them."""
    uses = st.builds(
        Use, tool=st.sampled_from(TOOLS), size=st.integers(0, 40), again=st.integers(0, 9).map(lambda n: n == 9)
    )
    calls = st.lists(often((1, marks()), (1, uses)), max_size=3).map(tuple)
    some = often((3, st.just(-1)), (1, st.integers(0, 15)))
    maybe = st.one_of(st.just(0), st.integers(1, 120))
    return st.builds(
        Turn, reasoning=maybe, text=maybe, calls=calls, answers=some, shuffle=st.integers(0, 5), result=sizes()
    )


@cache
def steps() -> st.SearchStrategy[Turn]:
    """Assistant messages that do little but mark: many short episodes, for a full graph."""
    mark = st.builds(Mark, act=st.booleans(), task=of_a_task(), pick=st.integers(0, 7))
    also = st.lists(st.builds(Use, tool=st.sampled_from(TOOLS)), max_size=1)
    calls = st.tuples(mark, also).map(lambda pair: (pair[0], *pair[1]))
    return st.builds(Turn, calls=calls, text=st.sampled_from((0, 0, 30)), result=st.integers(0, 12))


@cache
def moves() -> st.SearchStrategy[Turn | Word]:
    """What may happen next: mostly assistant turns."""
    word = st.builds(Word, role=st.sampled_from(("user", "user", "notice", "system")), size=sizes())
    return often((5, turns()), (1, word))


@cache
def steps_with_notices() -> st.SearchStrategy[Turn | Word]:
    """Short episodes with many notices among them."""
    return often((2, steps()), (1, st.builds(Word, role=st.just("notice"), size=sizes())))


# The author


@dataclass
class Author:
    """Writes moves out as OpenAI messages, keeping the protocol's state to know what would be right next."""

    tasks: bool = False
    messages: list[dict[str, Any]] = field(default_factory=list)
    episodes: list[Ep] = field(default_factory=list)
    pending: list[str] = field(default_factory=list)
    calls: int = 0

    def write(self, move: Turn | Word) -> None:
        """Append what the move stands for."""
        if isinstance(move, Word):
            self.messages.append(_spoken(move))
            return
        calls = [self._call(call) for call in move.calls]
        message: dict[str, Any] = {"role": "assistant", "content": "t" * move.text or None}
        message |= {"reasoning_content": "r" * move.reasoning} if move.reasoning else {}
        message |= {"tool_calls": calls} if calls else {}
        self.messages.append(message)
        self._answer(move)

    def _answer(self, move: Turn) -> None:
        places = [place for place in range(len(self.pending)) if move.answers >> min(place, 10) & 1]
        chosen = [self.pending[place] for place in places]
        self.pending = [call for place, call in enumerate(self.pending) if place not in places]
        turned = chosen[move.shuffle :] + chosen[: move.shuffle]
        for place, call in enumerate(reversed(turned) if move.shuffle % 2 else turned):
            self.messages.append({"role": "tool", "tool_call_id": call, "content": "x" * (move.result * (place + 1))})

    def _call(self, call: Mark | Use) -> dict[str, Any]:
        self.calls += 1
        name = f"c{self.calls}"
        if isinstance(call, Use):
            name = self.pending[-1] if call.again and self.pending else name
            function = {"name": call.tool, "arguments": json.dumps({"p": "a" * call.size})}
        else:
            function = {"name": "delimiter", "arguments": self._arguments(call)}
            self._take(function["arguments"])
        self.pending.append(name)
        return {"id": name, "type": "function", "function": function}

    def _arguments(self, mark: Mark) -> str:
        active = next((one for one in self.episodes if not one.closed and one.type != "task"), None)
        way = mark.way
        if way == "next":
            over = active or (self.tasks and mark.task and mark.pick % 2 and open_tasks(self.episodes))
            way = "end" if over else "start"
        if active is None and self.tasks and mark.task:
            active = next(reversed(open_tasks(self.episodes)), None)
        arguments = self._end(active, mark) if way == "end" else self._start(mark)
        if way == "again" and self.episodes:
            arguments["name"] = self.episodes[0].name
        self._decorate(arguments, mark, active)
        if isinstance(mark.spoil, tuple):
            arguments[mark.spoil[0]] = mark.spoil[1]
        elif mark.spoil in FIELDS:
            arguments.pop(mark.spoil, None)
        elif mark.spoil is not None:
            return mark.spoil
        return json.dumps(arguments)

    def _start(self, mark: Mark) -> dict[str, Any]:
        start: dict[str, Any] = {"action": "start", "name": f"e{len(self.episodes)}"}
        if self.tasks and mark.task:
            return start | {"type": "task"}
        if not mark.act:
            return start | {"type": "expl"}
        explored = [episode.name for episode in self.episodes if episode.type == "expl" and episode.closed]
        chosen = [name for place, name in enumerate(reversed(explored)) if mark.pick >> min(place, 3) & 1]
        return start | {"type": "act", "dependencies": chosen}

    def _end(self, active: Ep | None, mark: Mark) -> dict[str, Any]:
        if active is not None and active.type == "task":
            came = {"action": "end", "name": active.name, "description": "what came of it"}
            return came | ({"abandoned": mark.act} if mark.pick % 4 == 3 else {})
        if active is not None and active.type == "act":
            return {"action": "end"}
        return {"action": "end", "description": "what was found " * (len(self.episodes) % 3 + 1)}

    def _decorate(self, arguments: dict[str, Any], mark: Mark, active: Ep | None) -> None:
        """What must not matter: blanks around strings, nulls, a name on an end, repeated dependencies."""
        if mark.frill == 1:
            arguments.update({key: None for key in FIELDS if key not in arguments})
        if mark.frill == 2 and arguments["action"] == "end" and active is not None:
            arguments["name"] = active.name
        if mark.frill == 3 and "dependencies" in arguments:
            arguments["dependencies"] = [*arguments["dependencies"], " ", *arguments["dependencies"]]
        for key, value in arguments.items():
            if isinstance(value, str):
                arguments[key] = mark.pad + value + mark.pad

    def _take(self, raw: str) -> None:
        arguments = arguments_of(raw, self.tasks) or {}
        if arguments.get("action") == "start" and start_is_accepted(arguments, self.episodes, self.tasks):
            named = Ep(len(self.episodes), arguments["name"], arguments["type"], implicit=False)
            self.episodes.append(named)
        elif arguments.get("action") == "end" and (ending := find_ended(arguments, self.episodes)):
            ending.closed = True


def _spoken(word: Word) -> dict[str, Any]:
    text = "u" * word.size
    if word.role == "notice":
        return {"role": "user", "content": f"<system-reminder>{text}</system-reminder>"}
    return {"role": word.role, "content": text}


def write(played: Sequence[Turn | Word], *, tasks: bool = False) -> list[dict[str, Any]]:
    """Write moves out as a session; `tasks` says whether its author knows of tasks (R17)."""
    author = Author(tasks)
    for move in played:
        author.write(move)
    return author.messages


@st.composite
def sessions(draw: st.DrawFn, *, max_moves: int = 30, tasks: bool = False) -> list[dict[str, Any]]:
    """Sessions as OpenAI chat messages."""
    opening = draw(st.sampled_from(([], [Word("system", 8)], [Word("system", 8), Word("user", 20)])))
    # Short ones find the corners, long ones fill the graph.
    length = draw(often((1, st.integers(0, 6)), (2, st.integers(max_moves // 2, max_moves))))
    move = draw(st.sampled_from((moves(), moves(), steps(), steps_with_notices())))
    return write([*opening, *draw(st.lists(move, min_size=length, max_size=length))], tasks=tasks)


# Items


def _couple_thinking(items: list[Item], run: range, _: int) -> None:
    """A signed thinking block: the calls of its message need it."""
    blocks = [index for index in run if items[index].kind is Kind.REASONING]
    for index in run:
        if items[index].kind is Kind.CALL:
            items[index] = replace(items[index], needs=tuple(block - index for block in blocks))


def _couple_responses(items: list[Item], run: range, _: int) -> None:
    """An OpenAI Responses reasoning item and the item after it need each other."""
    for index in run[:-1]:
        if items[index].kind is Kind.REASONING:
            items[index] = replace(items[index], needs=(1,))
            items[index + 1] = replace(items[index + 1], needs=(-1,))


def _couple_anyhow(items: list[Item], run: range, seed: int) -> None:
    """Whatever may need whatever."""
    for place, index in enumerate(run):
        target = run[(seed >> place) % len(run)]
        if target != index and seed >> place & 1:
            items[index] = replace(items[index], needs=(target - index,))


def _couple_turns(items: list[Item], run: range, _: int) -> None:
    """Calls and results of a turn need the text of an answer without calls (R12b)."""
    texts = [index for index in run if items[index].kind is Kind.TEXT]
    if not texts or any(items[index].kind is Kind.CALL for index in run):
        return
    needed_by = []
    for index in range(run[0] - 1, -1, -1):
        if items[index].kind is Kind.USER:
            break
        if items[index].kind in (Kind.CALL, Kind.RESULT):
            needed_by.append(index - texts[-1])
    items[texts[-1]] = replace(items[texts[-1]], needed_by=tuple(needed_by))


COUPLINGS: tuple[Callable[[list[Item], range, int], None], ...] = (
    _couple_thinking,
    _couple_responses,
    _couple_anyhow,
    _couple_turns,
)


@cache
def standing() -> st.SearchStrategy[tuple[Standing, ...]]:
    """What notices state that holds, or nothing (R15)."""
    one = st.builds(Standing, st.sampled_from(("mode", "tools")), st.sampled_from((False, False, True)))
    return often((1, st.just(())), (4, st.lists(one, min_size=1, max_size=2).map(tuple)))


@cache
def result_flags() -> st.SearchStrategy[dict[str, Any]]:
    """What is known of a result: usually nothing, or that a person gave it (R21), or that it loaded tools (R15)."""
    loads = st.sampled_from((("a",), ("b",), ("a", "b"), ("c",)))
    return often((4, st.just({})), (1, st.just({"person": True})), (2, loads.map(lambda tools: {"loads": tools})))


@st.composite
def histories(draw: st.DrawFn, *, max_moves: int = 30, coupled: bool | None = None, tasks: bool = False) -> list[Item]:
    """Histories as items; `coupled` says whether items may need others, None leaves it to chance."""
    items = items_of(draw(sessions(max_moves=max_moves, tasks=tasks)))
    if draw(st.booleans()):
        items = [replace(item, message=None) for item in items]
    if draw(st.integers(0, 3)) == 0:
        # Now and then so large that an implicit episode is full (R5).
        most = draw(st.sampled_from((300, 300, 5_000)))
        counts = draw(st.lists(st.integers(0, most), min_size=1, max_size=7))
        items = [replace(item, tokens=counts[index % len(counts)]) for index, item in enumerate(items)]
    if draw(st.booleans()):
        stated = draw(st.lists(standing(), min_size=1, max_size=7))
        for index, item in enumerate(items):
            if item.kind is Kind.NOTICE:
                items[index] = replace(item, standing=stated[index % len(stated)])
    if draw(st.booleans()):
        flags = draw(st.lists(result_flags(), min_size=1, max_size=7))
        marks = {item.call_id for item in items if item.tool == "delimiter"}  # Wane itself answers them
        for index, item in enumerate(items):
            if item.kind is Kind.RESULT and item.call_id not in marks:
                items[index] = replace(item, **flags[index % len(flags)])
        withdrawn = draw(st.lists(st.sampled_from(((), (), (), ("a",), ("b",), ("a", "b"))), min_size=1, max_size=7))
        items = [replace(item, withdraws=withdrawn[index % len(withdrawn)]) for index, item in enumerate(items)]
    if coupled is not False and (coupled or draw(st.booleans())):
        couple = draw(st.sampled_from(COUPLINGS))
        for run in assistant_messages(items):
            couple(items, run, draw(st.integers(0, 255)))
    return items


# Policies and budgets


@cache
def policies() -> st.SearchStrategy[Policy]:
    """Policies, the paper's order most often. They leave no index (R20): see `test_evicted.py`."""
    return st.builds(
        Policy,
        order=st.sampled_from(("paper", "paper", "last_use")),
        low_water=st.sampled_from((1.0, 1.0, 0.85, 0.7, 0.5, 0.1)),
        description_share=st.sampled_from((None, None, 1.0, 0.5, 0.2, 0.1, 0.02)),
        evict_when_cold=st.booleans(),
        guard=st.sampled_from((None, 0.0, 0.1, 0.3, 0.6, 1.0)),
        prologue=st.sampled_from(("turns", "whole")),
        overflow=st.sampled_from(("strip", "strip", "surface")),
        index_share=st.just(0.0),
        min_room=st.sampled_from((0.0, 0.0, 0.25, 0.4, 1.0)),
    )


def budgets(items: Sequence[Item], policy: Policy, *, tasks: bool = False) -> st.SearchStrategy[int]:
    """Budgets that strain a history: tiny, below its total, just at it, or just where a pass could stop (R9 to R11)."""
    total = sum(item.tokens for item in items)
    near = st.integers(max(1, total - 2), total + 2)
    below = st.integers(1, max(2, total))
    stops = [step.after / policy.low_water for step in run_pass(items, State(), Rules(0, share=1.0, tasks=tasks)).steps]
    if policy.description_share:
        held = 0
        for episode in read(items, tasks).episodes:
            held += sum(items[index].tokens for index in episode.closing)
            stops.append(held / policy.description_share)
    at = st.sampled_from(sorted({max(1, round(stop)) for stop in (*stops, total)}))
    return often((4, below), (1, st.integers(1, 8)), (1, near), (4, at), (1, at.map(lambda stop: max(1, stop - 1))))


@dataclass(frozen=True)
class Scenario:
    """A history with the budget and policy to run it under, and whether there are tasks (R17)."""

    items: list[Item]
    budget: int
    policy: Policy
    tasks: bool = False
    model_window: int | None = None

    def window(self, **settings: Any) -> ContextWindow:
        """A new window for it."""
        return ContextWindow(self.budget, self.policy, tasks=self.tasks, window=self.model_window, **settings)

    def rules(self, tool_classes: dict[str, str] | None = None) -> Rules:
        """The oracle's words for its settings."""
        return rules_of(self.policy, self.budget, tool_classes, tasks=self.tasks, window=self.model_window)

    def read(self, count: int | None = None) -> Reading:
        """The oracle's reading of its first items, or of all."""
        return read(self.items[:count], self.tasks)


@st.composite
def scenarios(
    draw: st.DrawFn,
    *,
    max_moves: int = 30,
    coupled: bool | None = None,
    shares: Sequence[float | None] = (),
    tasks: bool | None = None,
) -> Scenario:
    """A history, and a budget and a policy for it; `shares` are the description shares to choose from."""
    tasks = draw(st.booleans()) if tasks is None else tasks
    items = draw(histories(max_moves=max_moves, coupled=coupled, tasks=tasks))
    policy = draw(policies())
    if shares:
        policy = replace(policy, description_share=draw(st.sampled_from(shares)))
    budget = draw(budgets(items, policy, tasks=tasks))
    window = draw(st.one_of(st.none(), st.integers(1, 3 * budget)))
    return Scenario(items, budget, policy, tasks, window)


# Branches


class Told(Protocol):
    """Who reads the history so far."""

    @property
    def reading(self) -> Reading:
        """The history with its episodes."""
        ...


@dataclass(frozen=True)
class Branching(Scenario):
    """A scenario with a host's choices, which become marks as the history comes in (R18)."""

    choices: list[int] = field(default_factory=list)

    def stretches(self, told: Told) -> Iterator[tuple[list[HostMark], list[Item]]]:
        """Messages with the marks ahead of each: what is open and what can be described depends on those before."""
        continued = {index for message in assistant_messages(self.items) for index in message[1:]}
        cuts = [index for index in range(len(self.items)) if index not in continued]
        for number, (first, stop) in enumerate(pairwise([*cuts, len(self.items)])):
            choice = self.choices[number % len(self.choices)]
            yield self._marks(told.reading, self.items[first], number, choice), self.items[first:stop]

    def _marks(self, reading: Reading, item: Item, number: int, choice: int) -> list[HostMark]:
        way, pick = choice % 8, choice // 8
        scope = reading.active or reading.task
        if scope is not None and scope.host and item.kind is Kind.NOTICE and not item.standing and pick & 1:
            return [HostMark("describe", str(scope.name), host=True)]
        if way in (5, 6):
            return self._task(reading, f"t{number}", pick) if way == 5 else self._end_task(reading, pick)
        if way == 0:
            return self._start(reading, f"h{number}", pick)
        if way == 1 and reading.active is not None and reading.active.host:
            return [_end(reading, reading.active, pick)]
        if way == 2 and reading.open:
            chosen = reading.open[pick % len(reading.open)]
            return [HostMark("enter", str(chosen.name), host=True)]
        if way == 3:
            return [HostMark("enter", "", host=True)]
        if way == 4 and reading.open:
            chosen = reading.open[pick % len(reading.open)]
            return [HostMark("enter", str(chosen.name), host=True), _end(reading, chosen, pick)]
        return []

    def _start(self, reading: Reading, name: str, pick: int) -> list[HostMark]:
        explored = [str(e.name) for e in reading.episodes if not e.implicit and e.closed and e.type == "expl"]
        needs = tuple(one for place, one in enumerate(reversed(explored)) if pick >> place & 2)
        type_ = EpisodeType.ACT if pick & 1 else EpisodeType.EXPL
        start = HostMark("start", name, type_, needs if pick & 1 else (), host=True)
        return [HostMark("enter", "", host=True), start] if reading.active else [start]

    def _task(self, reading: Reading, name: str, pick: int) -> list[HostMark]:
        start = HostMark("start", name, EpisodeType.TASK, host=True)
        return [HostMark("enter", "", host=True), start] if reading.active or pick & 1 else [start]

    def _end_task(self, reading: Reading, pick: int) -> list[HostMark]:
        inside = {id(one.task) for one in reading.episodes if not one.implicit and not one.closed}
        free = [task for task in open_tasks(reading.episodes) if id(task) not in inside]
        if not free:
            return []
        chosen = free[pick % len(free)]
        end = replace(_end(reading, chosen, pick), abandoned=bool(pick & 4))
        return [HostMark("enter", str(chosen.name), host=True), end]


def _end(reading: Reading, episode: Ep, pick: int) -> HostMark:
    kinds = (Kind.TEXT, Kind.NOTICE, Kind.RESULT)
    said = [i for i in episode.members if reading.items[i].kind in kinds]
    stays = episode.host and episode.type != "act" and (pick & 1 or episode.type == "task")
    closing = said[-1] if said and stays else None
    return HostMark("end", str(episode.name), host=True, closing=closing)


@st.composite
def branchings(draw: st.DrawFn, *, max_moves: int = 30) -> Branching:
    """A scenario with a host's choices."""
    scenario = draw(scenarios(max_moves=max_moves))
    choices = draw(st.lists(st.integers(0, 255), min_size=1, max_size=24))
    return Branching(scenario.items, scenario.budget, scenario.policy, scenario.tasks, scenario.model_window, choices)
