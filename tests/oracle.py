"""A naive model of the rules R1 to R18 and R21 to R23, written apart from the core, to hold it against.

It is slow on purpose: every question is answered by reading the whole history again. Nothing is
kept but what a pass decided (`State`), there is no heap, no running total and no incremental
update, and each function stands for one rule, so that it can be checked against the design by eye.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from wane.core.items import Item, Kind, Standing
from wane.core.marks import Mark

Message = Mapping[str, Any]
Marks = Mapping[int, Sequence[Mark]]

BULK = {
    *("grep", "glob", "find", "ls", "web_search"),
    *("list_files", "list_directory", "search_files", "find_files"),
}
DURABLE = {"edit", "write", "write_file", "edit_file", "apply_patch", "multiedit"}
TAGS = ("system-reminder", "task-notification", "local-command-stdout", "local-command-stderr")
IMPLICIT_TOKENS = 8_000
LEVELS = {
    "expl": ("reasoning", "bulk", "artifact", "remove"),
    "act": ("bulk", "artifact", "remove"),
    "task": ("artifact", "remove"),
}
MOST_OPEN_TASKS = 8
ASSISTANT = (Kind.TEXT, Kind.REASONING, Kind.CALL)


# R1: items


def chars(text: str) -> int:
    """Tokens of a text by the `chars` counter."""
    return -(-len(text) // 4)


def is_marked(text: str) -> bool:
    """R15: whether a text is nothing but sections in a notice's tag."""
    left = text.strip()
    while left:
        tag = next((tag for tag in TAGS if left.startswith(f"<{tag}>") and f"</{tag}>" in left), None)
        if tag is None:
            return False
        left = left.split(f"</{tag}>", 1)[1].strip()
    return bool(text.strip())


def items_of(messages: Iterable[Message]) -> list[Item]:
    """R1: take OpenAI chat messages apart, in order; empty parts of an assistant message give none."""
    items: list[Item] = []
    for ordinal, message in enumerate(messages):
        role, content = message["role"], message.get("content")
        if role == "tool":
            items.append(Item(Kind.RESULT, chars(content or ""), call_id=message["tool_call_id"], message=ordinal))
        elif role in ("system", "user"):
            kind = Kind.NOTICE if role == "user" and is_marked(content or "") else Kind(role)
            items.append(Item(kind, chars(content or ""), message=ordinal))
        else:
            parts = ((Kind.REASONING, message.get("reasoning_content")), (Kind.TEXT, content))
            items += [Item(kind, chars(text), message=ordinal) for kind, text in parts if text]
            for call in message.get("tool_calls") or ():
                name, arguments = call["function"]["name"], call["function"]["arguments"]
                tokens = chars(name + arguments)
                items.append(
                    Item(Kind.CALL, tokens, call_id=call["id"], tool=name, arguments=arguments, message=ordinal)
                )
    return items


def assistant_messages(items: Sequence[Item]) -> list[range]:
    """The assistant messages: by ordinal; without one, as many assistant items as stand together."""
    messages: list[range] = []
    for index, item in enumerate(items):
        if item.kind in ASSISTANT:
            if messages and messages[-1].stop == index and items[index - 1].message == item.message:
                messages[-1] = range(messages[-1].start, index + 1)
            else:
                messages.append(range(index, index + 1))
    return messages


# R3: the protocol


def arguments_of(raw: str | None, tasks: bool = False) -> dict[str, Any] | None:
    """The known arguments, stripped, without the absent ones; None if they cannot be read (R3, R17)."""
    try:
        given = json.loads(raw or "", parse_constant=int)  # no JSON: int takes no name
    except (ValueError, RecursionError):
        return None
    if not isinstance(given, dict):
        return None
    known = {key: given.get(key) for key in ("action", "name", "type", "description", "dependencies")}
    arguments: dict[str, Any] = {}
    if tasks and (abandoned := given.get("abandoned")) is not None:
        if abandoned not in (True, False) or not isinstance(abandoned, bool):
            return None
        arguments["abandoned"] = abandoned
    for key, value in known.items():
        if value is None:
            continue
        if key == "dependencies":
            if not isinstance(value, list) or not all(isinstance(entry, str) for entry in value):
                return None
            arguments[key] = list(dict.fromkeys(entry.strip() for entry in value if entry.strip()))
        elif not isinstance(value, str):
            return None
        elif value.strip():
            arguments[key] = value.strip()
    return arguments


def start_is_accepted(arguments: Mapping[str, Any], episodes: Sequence[Ep], tasks: bool = False) -> bool:
    """R3, R17: the start."""
    named = [episode for episode in episodes if not episode.implicit]
    explored = {episode.name for episode in named if episode.type == "expl" and episode.closed}
    if is_hosted(named) or any(not episode.closed for episode in named if episode.type != "task"):
        return False
    if "name" not in arguments or arguments["name"] in {episode.name for episode in named}:
        return False
    if arguments.get("type") == "expl":
        return not arguments.get("dependencies")
    if arguments.get("type") == "act" and "dependencies" in arguments:
        return set(arguments["dependencies"]) <= explored
    return tasks and arguments.get("type") == "task" and len(open_tasks(episodes)) < MOST_OPEN_TASKS


def open_tasks(episodes: Iterable[Ep]) -> list[Ep]:
    """R17: the open tasks, the outermost first."""
    return [episode for episode in episodes if episode.type == "task" and not episode.closed]


def find_ended(arguments: Mapping[str, Any], episodes: Sequence[Ep]) -> Ep | None:
    """R3, R17: what an end ends, if it is accepted: the active episode, or the innermost task by its name."""
    open_ones = [episode for episode in episodes if not episode.implicit and not episode.closed]
    active = [episode for episode in open_ones if episode.type != "task"] or open_ones[-1:]
    if not active or is_hosted(episodes):
        return None
    default = None if active[0].type == "task" else active[0].name
    accepted = arguments.get("name", default) == active[0].name and rightly_described(arguments, active[0])
    return active[0] if accepted else None


def is_hosted(episodes: Iterable[Ep]) -> bool:
    """R18: whether the host has something open, so that the model can mark nothing."""
    return any(episode.host and not episode.closed for episode in episodes)


def rightly_described(arguments: Mapping[str, Any], episode: Ep) -> bool:
    """R3: whether an end has a description if, and only if, it needs one."""
    description = arguments.get("description", "")
    if description.startswith("<") and description.endswith(">"):
        return False
    return bool(description) == (episode.type != "act")


# R2, R4, R5: who owns what


@dataclass
class Ep:
    """An episode or a task, as far as the history was read."""

    number: int
    name: str | None
    type: str
    implicit: bool
    dependencies: tuple[str, ...] = ()
    description: str | None = None
    closed: bool = False
    prologue: bool = False
    task: Ep | None = None
    given_up: bool = False
    host: bool = False
    ended: int = 0
    members: list[int] = field(default_factory=list)
    closing: list[int] = field(default_factory=list)


@dataclass
class Reading:
    """A whole history, read once from its first item."""

    items: Sequence[Item]
    tasks: bool = False
    episodes: list[Ep] = field(default_factory=list)
    owner: dict[int, Ep] = field(default_factory=dict)
    partner: dict[int, int] = field(default_factory=dict)
    verdicts: dict[int, bool] = field(default_factory=dict)
    stood: set[int] = field(default_factory=set)
    fixed: set[int] = field(default_factory=set)  # members that nothing takes (R15, R21)
    beside: dict[int, str] = field(default_factory=dict)  # those, and what they need, by what they count as (R22)
    loaded: set[int] = field(default_factory=set)  # those of them that loaded tools
    latest: Ep | None = None
    active: Ep | None = None  # the annotated episode in whose scope the next item stands
    task: Ep | None = None  # the task around it
    describing: Ep | None = None  # what the next item describes (R18)

    @property
    def current(self) -> Ep | None:
        """The episode to which the next item belongs, annotated or implicit; None if it would open one."""
        return self.active or self.unmarked

    @property
    def unmarked(self) -> Ep | None:
        """The implicit episode that is open at the end."""
        return next((episode for episode in self.episodes if episode.implicit and not episode.closed), None)

    @property
    def open(self) -> list[Ep]:
        """The annotated episodes that are open at the end."""
        return [e for e in self.episodes if not e.implicit and not e.closed and e.type != "task"]


def read(items: Sequence[Item], tasks: bool = False, marks: Marks | None = None) -> Reading:
    """Walk the history and give each item its owner: an episode, a task (its own calls), or nobody.

    `marks` are those of a host (R18), by the number of items ahead of them.
    """
    marks = marks or {}
    reading = Reading(items, tasks)
    open_calls: list[int] = []
    stood_in: dict[int, Ep] = {}
    starts = [message.start for message in assistant_messages(items)]
    for index, item in enumerate(items):
        _mark(reading, marks.get(index, ()), index)
        described, reading.describing = reading.describing, None
        if index in starts:
            _cut(reading)
        if item.kind is Kind.RESULT:
            call = next(call for call in open_calls if items[call].call_id == item.call_id)
            open_calls.remove(call)
            reading.partner[call], reading.partner[index] = index, call
            reading.owner[index] = reading.owner[call]
            reading.owner[call].members.append(index)
            if call in reading.owner[call].closing:
                reading.owner[call].closing.append(index)
            if item.person:  # R21
                reading.fixed |= {call, index}
            elif item.loads and is_offered(items, index):  # R15
                reading.fixed |= {call, index}
                reading.loaded |= {call, index}
            if item.person or item.loads:
                owner = reading.owner[call]
                owner.closing = [one for one in owner.closing if one not in (call, index)]
        elif item.kind is Kind.USER:
            if reading.unmarked:
                reading.unmarked.closed = True  # R5
        elif item.kind is Kind.NOTICE:
            if item.standing and starts and index > starts[0]:
                latest = reading.current or reading.latest
                assert latest is not None
                stood_in[index] = latest
            elif (starts and index > starts[0]) or (reading.active and not item.standing):  # R15, R18
                _give(reading, index, described or reading.current or _open_implicit(reading))
        elif item.kind in ASSISTANT:
            accepted = item.tool == "delimiter" and _delimit(reading, index, item)
            if not accepted:
                _give(reading, index, described or reading.current or _open_implicit(reading))
            if item.kind is Kind.CALL:
                open_calls.append(index)
    _mark(reading, marks.get(len(items), ()), len(items))
    for index in stood_in:
        if not in_force(items, index):
            _give(reading, index, stood_in[index])
            reading.stood.add(index)
    reading.beside = dict.fromkeys(find_demanded(reading, reading.loaded), "loaded")
    said = {index for index, item in enumerate(items) if item.kind is Kind.USER}
    reading.beside |= dict.fromkeys(find_demanded(reading, said | reading.fixed - reading.loaded), "user")
    return reading


def needs_of(items: Sequence[Item]) -> list[set[int]]:
    """R12: what each item needs, by its own word or by that of the other one."""
    needs = [{index + offset for offset in item.needs} for index, item in enumerate(items)]
    for index, item in enumerate(items):
        for offset in item.needed_by:
            needs[index + offset].add(index)
    return needs


def find_demanded(reading: Reading, indexes: Iterable[int]) -> set[int]:
    """R12: members with all that must stay as long as they do."""
    out: set[int] = set()
    more = set(indexes)
    all_needs = needs_of(reading.items)
    while more:
        out |= more
        needs = set().union(*(all_needs[index] for index in more))
        needs |= {reading.partner[index] for index in more if index in reading.partner}
        more = {index for index in needs if index < len(reading.items)} - out
    return out


def in_force(items: Sequence[Item], index: int) -> bool:
    """R15: whether a standing notice is the latest of a kind, or adds to the latest."""
    later = [one for item in items[index + 1 :] for one in item.standing]
    return any(Standing(one.kind) not in later for one in items[index].standing)


def is_offered(items: Sequence[Item], index: int) -> bool:
    """R15: whether a tool that an item loaded has not been withdrawn since."""
    withdrawn = {tool for item in items[index + 1 :] for tool in item.withdraws}
    return not withdrawn.issuperset(items[index].loads)


def _give(reading: Reading, index: int, owner: Ep) -> None:
    reading.owner[index] = owner
    owner.members.append(index)
    if reading.items[index].kind is not Kind.RESULT:
        reading.latest = owner


def _mark(reading: Reading, marks: Sequence[Mark], index: int) -> None:
    """R18: start, end and enter episodes for the host."""
    for mark in marks:
        if mark.action == "start":
            if reading.unmarked:
                reading.unmarked.closed = True  # R5
            number, needs = len(reading.episodes), mark.dependencies
            episode = Ep(number, mark.name, mark.type.value, False, dependencies=needs, host=True)
            episode.task = reading.task
            reading.episodes.append(episode)
            reading.latest = episode
            _enter(reading, episode)
        elif mark.action == "enter":
            _enter(reading, next((e for e in reading.episodes if mark.name and e.name == mark.name), None))
        elif mark.action == "describe":
            reading.describing = reading.active or reading.task
        elif (episode := reading.active or reading.task) is not None:
            if episode is reading.task and reading.unmarked:
                reading.unmarked.closed = True  # R17
            episode.closed, episode.ended, episode.description = True, index, mark.description
            stays = [] if mark.closing is None or _was_fixed(reading, mark.closing, index) else [mark.closing]
            episode.closing = sorted({*stays, *(reading.partner[one] for one in stays if one in reading.partner)})
            episode.given_up = mark.abandoned
            reading.active, reading.task = None, episode.task


def _was_fixed(reading: Reading, result: int, index: int) -> bool:
    """R15, R21: whether nothing took a result when the history held so many items."""
    items = reading.items[:index]
    return items[result].person or (bool(items[result].loads) and is_offered(items, result))


def _enter(reading: Reading, scope: Ep | None) -> None:
    """R18: go on in the scope of an episode, a task, or nothing of the host's."""
    if scope is None:
        mine = [task for task in open_tasks(reading.episodes) if not task.host]
        reading.active, reading.task = None, next(reversed(mine), None)
    elif scope.type == "task":
        reading.active, reading.task = None, scope
    else:
        reading.active, reading.task = scope, scope.task


def _open_implicit(reading: Reading) -> Ep:
    """R5: an implicit episode; R2: it is prologue if nothing was started yet."""
    ahead = all(episode.implicit for episode in reading.episodes)
    reading.episodes.append(Ep(len(reading.episodes), None, "expl", implicit=True, prologue=ahead))
    reading.episodes[-1].task = innermost(reading)
    return reading.episodes[-1]


def innermost(reading: Reading) -> Ep | None:
    """R17: the innermost open task."""
    return reading.task


def around(episode: Ep) -> list[Ep]:
    """R17: the tasks that an episode or a task is in, the innermost first."""
    return [] if episode.task is None else [episode.task, *around(episode.task)]


def is_abandoned(episode: Ep) -> bool:
    """R17: whether it is an abandoned task, or in one."""
    return any(one.given_up for one in (episode, *around(episode)))


def _cut(reading: Reading) -> None:
    """R5: an implicit episode that is full closes ahead of an assistant message."""
    current = reading.unmarked
    if current:
        current.closed = sum(reading.items[index].tokens for index in current.members) >= IMPLICIT_TOKENS


def _delimit(reading: Reading, index: int, item: Item) -> bool:
    """Take a `delimiter` call: open or close an episode if it is accepted, and say whether it was."""
    arguments = arguments_of(item.arguments, reading.tasks) or {}
    action, accepted = arguments.get("action"), False
    if action == "start":
        accepted = start_is_accepted(arguments, reading.episodes, reading.tasks)
        if accepted:
            if reading.unmarked:
                reading.unmarked.closed = True  # R5
            needs = tuple(arguments.get("dependencies", ())) if arguments["type"] == "act" else ()
            episode = Ep(len(reading.episodes), arguments["name"], arguments["type"], False, dependencies=needs)
            episode.task = innermost(reading)
            reading.episodes.append(episode)
            reading.active = None if episode.type == "task" else episode
            reading.task = episode if episode.type == "task" else reading.task
            _give(reading, index, episode)
    elif action == "end":
        ending = find_ended(arguments, reading.episodes)
        accepted = ending is not None
        if ending is not None:
            if ending.type == "task" and reading.unmarked:
                reading.unmarked.closed = True  # R17
            if ending.type == "task":
                reading.task = ending.task
            else:
                reading.active = None
            ending.closed, ending.closing = True, [index]
            ending.description = arguments.get("description")
            ending.given_up = ending.type == "task" and bool(arguments.get("abandoned"))
            _give(reading, index, ending)
    reading.verdicts[index] = accepted
    return accepted


# R6, R7, R8: what may go


@dataclass(frozen=True)
class State:
    """All that passes leave behind.

    What is gone, how far each episode was stripped, whose description was dropped, and what stood when its episode was
    stripped of its like (R15).
    """

    gone: frozenset[int] = frozenset()
    reached: Mapping[int, str] = field(default_factory=dict)
    dropped: frozenset[int] = frozenset()
    skipped: frozenset[int] = frozenset()

    def is_removed(self, episode: Ep) -> bool:
        """Whether the episode has reached the last level."""
        return self.reached.get(episode.number) == "remove"


def latest_message(items: Sequence[Item]) -> int:
    """Index of the first item of the latest assistant message, or 0."""
    messages = assistant_messages(items)
    return messages[-1].start if messages else 0


def is_settled(reading: Reading, episode: Ep) -> bool:
    """R6."""
    calls = [index for index in episode.members if reading.items[index].kind is Kind.CALL]
    answered = all(call in reading.partner for call in calls)
    latest = latest_message(reading.items)
    ended = episode.ended <= latest and bool(assistant_messages(reading.items))
    return episode.closed and answered and ended and max(episode.members, default=-1) < latest


def protected_start(reading: Reading, episode: Ep) -> int:
    """R13, R16, R18: where the latest assistant message begins; for an open episode, the latest with a part in it."""
    within = [m.start for m in assistant_messages(reading.items) if not set(m).isdisjoint(episode.members)]
    return within[-1] if within and not episode.closed else latest_message(reading.items)


def is_needed(reading: Reading, state: State, episode: Ep) -> bool:
    """Whether an act that declares it has not been removed (R7, R11, R16) nor given up with its task (R17)."""
    dependents = [other for other in reading.episodes if not episode.implicit and episode.name in other.dependencies]
    return not all(state.is_removed(other) or is_abandoned(other) for other in dependents)


def exempt(episode: Ep, rules: Rules) -> bool:
    """R7: whether it belongs to a prologue that is protected whole."""
    return episode.prologue and rules.prologue == "whole"


def is_kept(rules: Rules, episode: Ep) -> bool:
    """R23: whether a person keeps it."""
    return rules.choices.get(episode.number) == "keep"


def eligible(reading: Reading, state: State, rules: Rules, episode: Ep) -> bool:
    """R7, R23."""
    free = episode.type != "task" and not state.is_removed(episode) and not is_needed(reading, state, episode)
    return free and is_settled(reading, episode) and not exempt(episode, rules) and not is_kept(rules, episode)


def let_go(reading: Reading, state: State, rules: Rules) -> list[Ep]:
    """R23: what a person lets go and may leave, in order of start."""
    dropped = [episode for episode in reading.episodes if rules.choices.get(episode.number) == "drop"]
    return [episode for episode in dropped if eligible(reading, state, rules, episode)]


def last_use(reading: Reading, episode: Ep) -> int:
    """R8, `last_use`: the number of the latest episode that used it."""
    users = [other.number for other in reading.episodes if episode.name and episode.name in other.dependencies]
    return max([episode.number, *users])


def choose(reading: Reading, state: State, rules: Rules, spared: Iterable[int] = ()) -> Ep | None:
    """R8; R17: what was abandoned goes first, spared or not."""
    candidates = [episode for episode in reading.episodes if eligible(reading, state, rules, episode)]
    candidates = [episode for episode in candidates if episode.number not in spared or is_abandoned(episode)]
    candidates = [episode for episode in candidates if is_abandoned(episode)] or candidates
    if rules.order == "paper":
        candidates.sort(key=lambda episode: (episode.type != "act", episode.number))
    else:
        candidates.sort(key=lambda episode: (last_use(reading, episode), episode.number))
    return candidates[0] if candidates else None


def fixed_items(reading: Reading, state: State, rules: Rules) -> dict[int, str]:
    """R22: the items in view that no pass may ever take, with what they are."""
    fixed: dict[int, str] = {}
    for index, item in enumerate(reading.items):
        owner = reading.owner.get(index)
        if index in state.gone:
            continue
        if index in reading.beside:
            fixed[index] = reading.beside[index]
        elif owner is None:
            fixed[index] = item.kind.value
        elif exempt(owner, rules):
            fixed[index] = "prologue"
    return fixed


def fixed_tokens(reading: Reading, state: State, rules: Rules, meter: Meter) -> int:
    """R22: what no pass may ever take; each kind of it is counted by itself."""
    by_kind: dict[str, int] = {}
    for index, kind in fixed_items(reading, state, rules).items():
        by_kind[kind] = by_kind.get(kind, 0) + reading.items[index].tokens
    system = meter.total(0) + meter.scale_tokens(by_kind.pop("system", 0))
    return max(0, system) + sum(meter.scale_tokens(tokens) for tokens in by_kind.values())


def share_of(budget: int, share: float) -> Fraction:
    """A share of a budget: the share is the decimal that people write."""
    return budget * Fraction(str(share))


def budget_used(rules: Rules, fixed: int) -> int:
    """R22."""
    room = share_of(rules.budget, rules.min_room)
    if rules.min_room == 0 or rules.budget - fixed >= room:
        return rules.budget
    wanted = fixed + int(room)
    return max(rules.budget, wanted if rules.window is None else min(wanted, rules.window))


def guarded_episodes(reading: Reading, state: State, rules: Rules, meter: Meter, fixed: int) -> set[int]:
    """R10: the newest episodes, for as long as all of them that may leave fits into the guard.

    The budget of `rules` is the one that is used.
    """
    tokens = {index: item.tokens for index, item in enumerate(reading.items) if index not in state.gone}
    index_tokens = int(share_of(rules.budget, rules.index_share))
    of_room = rules.guard * (rules.budget - fixed - index_tokens)
    of_low_water = rules.budget * rules.low_water - index_tokens - fixed
    spared = min(of_room, of_low_water) / meter.ratio
    out: set[int] = set()
    shown = 0
    for episode in reversed(reading.episodes):
        if state.is_removed(episode) or episode.type == "task" or is_abandoned(episode):
            continue
        shown += sum(tokens[one] for one in episode.members if one in tokens and one not in reading.beside)
        if shown > spared or spared <= 0:
            break
        out.add(episode.number)
    return out


# R9, R12: levels


def tool_class(reading: Reading, index: int, overrides: Mapping[str, str]) -> str:
    """The class of a call: what the user says, else what its name says; delimiters by their verdict (R3)."""
    if index in reading.verdicts:
        return "durable" if reading.verdicts[index] else "bulk"
    name = (reading.items[index].tool or "").lower()
    for key, value in overrides.items():
        if key.lower() == name:
            return value
    if name in BULK:
        return "bulk"
    return "durable" if name in DURABLE else "artifact"


def level_of(reading: Reading, index: int, overrides: Mapping[str, str]) -> str:
    """R9: the level at which a member goes, if nothing needs it longer."""
    episode, item = reading.owner[index], reading.items[index]
    if item.kind is Kind.REASONING and episode.type == "expl":
        return "reasoning"
    if item.kind is Kind.NOTICE:
        return "artifact"
    if item.kind in (Kind.CALL, Kind.RESULT):
        call = index if item.kind is Kind.CALL else reading.partner[index]
        found = tool_class(reading, call, overrides)
        return "remove" if found == "durable" else found
    return "remove"


def due(reading: Reading, state: State, overrides: Mapping[str, str]) -> set[int]:
    """Every item that the levels reached, and the descriptions dropped, cover."""
    # R15: what stood when a task began or ended last, and has been replaced, has no episode to wait for.
    out = {index for index in reading.stood if reading.owner[index].type == "task"}
    for number, reached in state.reached.items():
        episode = reading.episodes[number]
        covered = LEVELS[episode.type][: LEVELS[episode.type].index(reached) + 1]
        for index in episode.members:
            keeps = episode.type != "act" and index in episode.closing and number not in state.dropped
            left = index in episode.closing and number in state.dropped
            if left or (not keeps and level_of(reading, index, overrides) in covered):
                out.add(index)
    return out - reading.fixed


def leaving(
    reading: Reading,
    state: State,
    overrides: Mapping[str, str],
    episode: Ep,
    also: Iterable[int] = (),
    waiting: Iterable[int] = (),
) -> set[int]:
    """What of the due items can go, in a step of an episode; those that are `waiting` for their own step stay.

    R12: all but what something that stays needs, or is paired with. R9: with them the episode's reasoning, where a
    message loses something and nothing but reasoning would be left of it.
    """
    shown = [index for index in range(len(reading.items)) if index not in state.gone]
    wanted = (due(reading, state, overrides) | set(also)) - state.gone - set(waiting)
    reasoning = {index for index in shown if reading.items[index].kind is Kind.REASONING}
    along = {index for index in reasoning - wanted if reading.owner[index] is episode}
    out = wanted | along
    needs = needs_of(reading.items)
    while True:
        staying = set(shown) - out
        held = set().union(*(needs[index] for index in staying))
        held |= {reading.partner[index] for index in staying if index in reading.partner}
        for message in assistant_messages(reading.items):
            bare = staying & set(message) <= reasoning
            if not (bare and (out - along) & set(message)):
                held |= along & set(message)
        if not held & out:
            return out
        out -= held


def exchange(reading: Reading, state: State, rules: Rules, index: int, clause: str) -> set[int]:
    """R16: an item that overflow may take in (b), (c) or (d) with all that must leave with it; none if it must stay."""
    episode = reading.owner[index]
    latest = protected_start(reading, episode)
    held = due(reading, state, rules.tool_classes)

    def loose(one: int) -> str | None:
        """The clause of R16 by which an item may leave by itself, or with its result."""
        item = reading.items[one]
        if reading.owner.get(one) is not episode or one >= latest or one in episode.closing or one in reading.fixed:
            return None
        if item.kind is Kind.TEXT:
            return "d"
        if item.kind in (Kind.REASONING, Kind.NOTICE):
            return None if is_settled(reading, episode) else "b"
        if item.kind is not Kind.CALL or reading.verdicts.get(one) or reading.partner.get(one, latest) >= latest:
            return None
        if tool_class(reading, one, rules.tool_classes) == "durable":
            return "c"
        return None if is_settled(reading, episode) else "b"

    if loose(index) != clause:
        return set()
    unit: set[int] = set()
    more = {index}
    all_needs = needs_of(reading.items)
    while more:
        unit |= more
        more = {reading.partner[one] for one in unit if one in reading.partner} - unit
        for one, needs in enumerate(all_needs):
            if one not in state.gone and one not in unit and needs & unit:
                more.add(one)
    clauses = "bcd"[: "bcd".index(clause) + 1]
    for one in unit - held:
        own = reading.partner[one] if reading.items[one].kind is Kind.RESULT else one
        if (loose(own) or "none") not in clauses:
            return set()
    return unit


# R10, R11, R13: the pass


@dataclass(frozen=True)
class Rules:
    """The policy."""

    budget: int
    low_water: float = 1.0
    share: float | None = None
    evict_when_cold: bool = False
    tool_classes: Mapping[str, str] = field(default_factory=dict)
    order: str = "paper"
    guard: float = 0.0
    prologue: str = "whole"
    overflow: str = "surface"
    tasks: bool = False
    index_share: float = 0.0
    min_room: float = 0.0
    window: int | None = None
    choices: Mapping[int, str] = field(default_factory=dict)  # of a person, by the number of the episode (R23)


@dataclass(frozen=True)
class Meter:
    """How estimated tokens are counted, by what the provider last reported."""

    overhead: int = 0
    ratio: float = 1.0
    drift: float = 0.0

    def total(self, tokens: int) -> int:
        """What a request with items of so many tokens holds."""
        return round((tokens + self.overhead) * self.ratio + self.drift)

    def scale_tokens(self, tokens: int) -> int:
        """What items of so many tokens hold."""
        return round(tokens * self.ratio)


@dataclass(frozen=True)
class Line:
    """One step that removed something."""

    episode: str | None
    number: int
    level: str
    before: int
    after: int
    removed: tuple[int, ...]


@dataclass(frozen=True)
class Outcome:
    """What a pass did."""

    ran: bool
    satisfied: bool
    before: int
    after: int
    steps: tuple[Line, ...]
    state: State
    used: int
    fixed: int
    index: int


class Pass:
    """One run of the policy over the whole history."""

    def __init__(
        self, items: Sequence[Item], state: State, rules: Rules, meter: Meter, marks: Marks | None = None
    ) -> None:
        self.reading, self.state, self.meter = read(items, rules.tasks, marks), state, meter
        self.steps: list[Line] = []
        self.fixed = fixed_tokens(self.reading, state, rules, meter)
        self.rules = replace(rules, budget=budget_used(rules, self.fixed))
        self.spared = guarded_episodes(self.reading, state, self.rules, meter, self.fixed)

    def total(self, evicted: int = 0) -> int:
        """Tokens of the view, with what is sent besides it: an index of evicted content may hold some (R20)."""
        visible = (item.tokens for index, item in enumerate(self.reading.items) if index not in self.state.gone)
        return self.meter.total(sum(visible) + evicted)

    def index_after(self, index: int, write_index: Callable[[int], int] | None) -> int:
        """R20: what the index holds after the pass. It is within its share and the budget, by both counts."""
        share = int(share_of(self.rules.budget, self.rules.index_share))
        left = min(share, self.rules.budget - self.total())
        most = min(share, int(left / self.meter.ratio))
        if self.steps and write_index is not None:
            index = write_index(most) if most > 0 else 0
        return index if index <= most else 0

    def within_budget(self) -> bool:
        """Whether the view is at or under the budget that is used."""
        return self.total() <= self.rules.budget

    def at_target(self) -> bool:
        """Whether the view is at or under low water, less what an index may hold (R10)."""
        index = int(share_of(self.rules.budget, self.rules.index_share))
        return self.total() <= self.rules.budget * self.rules.low_water - index

    def move(self, episode: Ep, level: str, state: State) -> None:
        """Go to a state that wants more gone, and report it if something left."""
        before = self.total()
        gone = leaving(self.reading, state, self.rules.tool_classes, episode, waiting=self.late())
        self.state = replace(state, gone=state.gone | gone)
        if gone:
            self.steps.append(Line(episode.name, episode.number, level, before, self.total(), tuple(sorted(gone))))

    def late(self) -> set[int]:
        """R15: what no longer stands, but whose episode had passed the level at which it goes."""
        notices = self.reading.stood & due(self.reading, self.state, self.rules.tool_classes)
        return notices | (self.state.skipped - self.reading.fixed)

    def strip(self, episode: Ep, level: str) -> None:
        """R9: one level of one episode."""
        self.move(episode, level, replace(self.state, reached={**self.state.reached, episode.number: level}))
        covered = due(replace(self.reading, fixed=set()), self.state, self.rules.tool_classes)
        self.state = replace(self.state, skipped=self.state.skipped | covered & self.reading.loaded)

    def described_episodes(self) -> list[Ep]:
        """R11: the removed that keep their closing pair, oldest first; R17: explorations, inner tasks, outer ones."""
        keeping = [
            episode
            for episode in self.reading.episodes
            if self.state.is_removed(episode) and episode.closing and episode.type != "act"
            if episode.number not in self.state.dropped
        ]
        return sorted(keeping, key=lambda one: (one.type == "task", -len(around(one)) if one.type == "task" else 0))

    def close_tasks(self, among: Sequence[Ep] | None = None) -> None:
        """R17 (b): of a task whose episodes are removed, only its own closing pair stays."""
        among = self.reading.episodes if among is None else among
        while emptied := [episode for episode in among if self.is_empty(episode)]:
            task = emptied[0]
            self.strip(task, "remove")
            described = [one for one in self.described_episodes() if self.heir(one) is task]
            for one in sorted(described, key=lambda one: one.number):
                self.move(one, "description", replace(self.state, dropped=self.state.dropped | {one.number}))

    def heir(self, episode: Ep) -> Ep | None:
        """R17 (b): the task whose closing pair stays in place of an episode's: not one that a host left without any."""
        task = episode.task
        while task is not None and self.state.is_removed(task) and not task.closing:
            task = task.task
        return task

    def is_empty(self, task: Ep) -> bool:
        """R17 (b): whether a task has ended, and nothing of what was in it is left but what no act needs."""
        if task.type != "task" or self.state.is_removed(task) or not is_settled(self.reading, task):
            return False
        inside = [one for one in self.reading.episodes if one.task is task]
        needs = [
            one
            for one in self.described_episodes()
            if self.heir(one) is task and is_needed(self.reading, self.state, one)
        ]
        return all(self.state.is_removed(one) for one in inside) and not needs

    def drop_while(self, excess: Callable[[], bool]) -> None:
        """R11: drop descriptions that no act needs, oldest first, for as long as there is an excess."""
        while self.rules.share is not None and excess():
            free = [
                episode for episode in self.described_episodes() if not is_needed(self.reading, self.state, episode)
            ]
            if not free:
                break
            dropped = self.state.dropped | {free[0].number}
            self.move(free[0], "description", replace(self.state, dropped=dropped))

    def too_much_described(self) -> bool:
        """R11: whether the closing pairs hold more than their share."""
        held = sum(
            self.reading.items[index].tokens for episode in self.described_episodes() for index in episode.closing
        )
        return self.meter.scale_tokens(held) > self.rules.budget * (self.rules.share or 0.0)

    def overdue(self, episode: Ep, level: str) -> set[int]:
        """R15: what stood in view while its episode passed the level at which it goes."""
        late = self.late() - self.state.gone & set(episode.members)
        return {index for index in late if level_of(self.reading, index, self.rules.tool_classes) == level}

    def take_overdue(self) -> None:
        """R15."""
        for episode in self.reading.episodes:
            for level in LEVELS["expl"]:
                if not self.at_target() and (overdue := self.overdue(episode, level)):
                    before, waiting = self.total(), self.late() - overdue
                    gone = leaving(self.reading, self.state, self.rules.tool_classes, episode, waiting=waiting)
                    skipped = self.state.skipped - overdue
                    self.state = replace(self.state, gone=self.state.gone | gone, skipped=skipped)
                    if gone:
                        line = Line(episode.name, episode.number, level, before, self.total(), tuple(sorted(gone)))
                        self.steps.append(line)

    def run(self, *, due: bool) -> None:
        """R10; R23: what a person lets go leaves ahead of all others, and alone where no pass is due."""
        while leaving := let_go(self.reading, self.state, self.rules):
            self.remove(leaving[0])
        if not due:
            return
        self.take_overdue()
        self.close_tasks()
        self.evict_until(self.at_target, self.spared)
        self.evict_until(self.within_budget)
        self.drop_while(lambda: not self.within_budget())
        if self.rules.overflow == "strip" and not self.within_budget():
            self.overflow()

    def remove(self, episode: Ep) -> None:
        """R23: all of an episode, level by level, whatever the target is."""
        released = [episode, *(one for one in self.reading.episodes if one.name in episode.dependencies)]
        tasks = [task for one in released for task in around(one)]
        levels, reached = LEVELS[episode.type], self.state.reached.get(episode.number)
        for level in levels[levels.index(reached) + 1 if reached else 0 :]:
            self.strip(episode, level)
        self.close_tasks(tasks)
        self.drop_while(self.too_much_described)

    def overflow(self) -> None:
        """R16."""
        reading, state = self.reading, self.state
        alive = [one for one in reading.episodes if not state.is_removed(one) and one.type != "task"]
        alive = [one for one in alive if not is_kept(self.rules, one)]
        wanted = [e for e in alive if is_settled(reading, e) and is_needed(reading, state, e)]
        unfinished = [e for e in alive if not is_settled(reading, e) and not exempt(e, self.rules)]
        for episode in wanted:
            reached = self.state.reached.get(episode.number)
            for level in LEVELS["expl"][LEVELS["expl"].index(reached) + 1 if reached else 0 : -1]:
                if not self.at_target():
                    self.strip(episode, level)
        for episode in unfinished:
            self.take_exchanges(episode, "b")
        for clause in "cd":
            for episode in alive:
                if episode in wanted or episode in unfinished:
                    self.take_exchanges(episode, clause)

    def take_exchanges(self, episode: Ep, clause: str) -> None:
        """R16, (b), (c) or (d), in one episode."""
        before, first = self.total(), self.state.gone
        for index in sorted(episode.members):
            if self.at_target():
                break
            if index in self.state.gone:
                continue
            unit = exchange(self.reading, self.state, self.rules, index, clause)
            if unit:
                out = leaving(self.reading, self.state, self.rules.tool_classes, episode, unit)
                self.state = replace(self.state, gone=self.state.gone | out)
        if gone := tuple(sorted(self.state.gone - first)):
            self.steps.append(Line(episode.name, episode.number, "overflow", before, self.total(), gone))

    def evict_until(self, is_met: Callable[[], bool], spared: Iterable[int] = ()) -> None:
        """Evict until a target is met, or nothing but the spared is eligible."""
        while not is_met() and (episode := choose(self.reading, self.state, self.rules, spared)):
            levels = LEVELS[episode.type]
            reached = self.state.reached.get(episode.number)
            for level in levels[levels.index(reached) + 1 if reached else 0 :]:
                self.strip(episode, level)
                if level == "remove":
                    self.close_tasks()
                    self.drop_while(self.too_much_described)
                if is_met():
                    break


def run_pass(
    items: Sequence[Item],
    state: State,
    rules: Rules,
    *,
    meter: Meter | None = None,
    cold: bool = False,
    marks: Marks | None = None,
    index: int = 0,
    write_index: Callable[[int], int] | None = None,
) -> Outcome:
    """Run one pass if one is due (R10).

    `index` is what the index of evicted content holds by now (R20), and `write_index` says what a new one holds of the
    tokens that it may hold.
    """
    work = Pass(items, state, rules, meter or Meter(), marks)
    budget, before = work.rules.budget, work.total(index)
    due_now = before > budget or (cold and rules.evict_when_cold and before > budget * rules.low_water)
    ran = due_now or bool(let_go(work.reading, state, work.rules))
    if ran:
        work.run(due=due_now)
        index = work.index_after(index, write_index)
    after, steps = work.total(index), tuple(work.steps)
    return Outcome(ran, after <= budget, before, after, steps, work.state, budget, work.fixed, index)


def visible(items: Sequence[Item], state: State) -> list[int]:
    """The view."""
    return [index for index in range(len(items)) if index not in state.gone]
