"""What parallel branches that share one history do to its view (R18, docs/decisions/branches.md).

    python research/benchmarks/branches.py ../shared/sessions

The recordings do not hold what sub-agents did, but sessions of one repository do hold work on the same files. So each
session is a parent once, and the first calls of the others are branches that start beside it, interleaved by time.
Deterministic: the same sessions give the same figures.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from statistics import fmean, median

from wane.core import EpisodeType, Item, Kind, Policy, chars
from wane.core.errors import WaneError
from wane.core.items import ASSISTANT
from wane.formats.base import Part
from wane.lab.counting import Material, count
from wane.lab.readers import read_session
from wane.strategies.base import Settings
from wane.strategies.host import Scope
from wane.strategies.window import WindowStrategy
from wane.tools.calls import judge_call

GROUPS = {"claude-code": ("entireio", "packmind"), "codex": ("agentv",)}
STARTS = ("Agent", "Task")
BUDGETS = (80_000, 120_000)
ROOM = (160_000, 240_000, 320_000)
FIRST = 10
"""Calls of the parent after which the branches start."""
LENGTH = 40
"""Calls of each branch."""
TAIL = 3
"""Parts of a path that tell a file: the sessions ran in different folders."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """An answer of one session with what follows it up to the next answer.

    Attributes:
        branch: number of the session, 0 for the parent.
        at: seconds since the parent's first call.
        entries: its items with their content.
    """

    branch: int
    at: float
    entries: Sequence[tuple[Item, Part]]


def exchanges(material: Material, branch: int, start: float, most: int | None = None) -> Iterator[Exchange]:
    """Yield the exchanges of a session, so that its first call is made at `start`.

    What is ahead of it comes along, but of a branch only the user's words: the parent has a system prompt already.
    """
    calls = [call for call in material.session.calls if call.stop > call.first][:most]
    begun, at = calls[0].at or 0.0, start
    parts = material.session.parts
    for number, call in enumerate(calls):
        first = 0 if number == 0 else call.first
        stop = calls[number + 1].first if number + 1 < len(calls) else call.stop
        while stop < len(parts) and number + 1 == len(calls) and parts[stop].kind is Kind.RESULT:
            stop += 1
        at = max(at, start + (call.at or begun) - begun)
        entries = zip(material.items[first:stop], parts[first:stop], strict=True)
        ahead = (Kind.SYSTEM, Kind.NOTICE) if branch and not number else ()
        yield Exchange(branch, at, [entry for entry in entries if entry[0].kind not in ahead])


def topics(part: Part) -> set[tuple[str, str]]:
    """The files that a call reads, or the command that it runs."""
    judgement = judge_call(part.tool or "", part.arguments)
    if judgement.reads:
        return {("file", "/".join(PurePosixPath(path).parts[-TAIL:])) for path in judgement.reads}
    if judgement.writes or not judgement.hint:
        return set()
    return {("command", f"{part.tool} {part.arguments}")}


class Shared:
    """One history of several branches, kept within a budget, and what was seen of it.

    Args:
        budget: tokens that a view may hold.
        overhead: tokens that every request carries besides it.

    Attributes:
        broken: calls in view without their result, and results without their call, over all requests.
        over: requests over the budget.
        requests: all requests.
        views: for each call of the parent, its items in view, by their number in its session.
        repeats: results that read again what another branch has read, by where that was at the time.
        tokens: tokens of these results, likewise.
        read: all results of files and commands.
    """

    def __init__(self, budget: int, overhead: int) -> None:
        settings = Settings(budget, overhead=overhead, policy=Policy(), annotate="host")
        self._strategy = WindowStrategy("cwl", settings, settings.policy)
        self._budget = budget
        self.broken = self.over = self.requests = self.read = 0
        self.views: list[set[int]] = []
        self.repeats: Counter[str] = Counter()
        self.tokens: Counter[str] = Counter()
        self._places: list[int | None] = []  # by item, its number in the parent's session
        self._pairs: dict[str, tuple[int, set[tuple[str, str]]]] = {}  # open calls
        self._answered: list[tuple[int, int]] = []
        self._readers: dict[tuple[str, str], tuple[int, int]] = {}  # by topic: who read it last, and the result

    def run(self, history: Sequence[Exchange]) -> Shared:
        """Take in exchanges in order, with a pass before each answer."""
        last = {exchange.branch: number for number, exchange in enumerate(history)}
        scopes = {branch: Scope(f"b{branch}", f"branch-{branch}", EpisodeType.EXPL) for branch in last if branch}
        host, first = self._strategy.host, 0
        assert host is not None
        for number, exchange in enumerate(history):
            branch = exchange.branch
            host.path = (scopes[branch],) if branch else ()
            host.live = {scope.id for other, scope in scopes.items() if last[other] >= number}
            self._take(exchange, number, first)
            first += 0 if branch else len(exchange.entries)
        return self

    def _take(self, exchange: Exchange, number: int, first: int) -> None:
        asked = False
        for place, (item, part) in enumerate(exchange.entries, first):
            if not asked and item.kind in ASSISTANT:
                asked = True
                self._request(exchange.branch)
            call_id = None if item.call_id is None else f"{exchange.branch}:{item.call_id}"
            message = None if item.message is None else number * 10_000 + item.message % 10_000
            added = self._strategy.add(replace(item, call_id=call_id, message=message), part)
            self._places.append(None if exchange.branch else place)
            if item.kind is Kind.CALL and call_id is not None:
                self._pairs[call_id] = (added.index, topics(part))
            elif item.kind is Kind.RESULT and call_id is not None:
                call, read = self._pairs.pop(call_id)
                self._answered.append((call, added.index))
                self._note(read, exchange.branch, added.index, item.tokens)

    def _request(self, branch: int) -> None:
        self._strategy.fit()
        window = self._strategy.window
        self.requests += 1
        self.over += window.tokens > self._budget
        self.broken += sum(window.shows(call) != window.shows(result) for call, result in self._answered)
        if not branch:
            self.views.append({place for index in window.visible if (place := self._places[index]) is not None})

    def _note(self, read: set[tuple[str, str]], branch: int, result: int, tokens: int) -> None:
        if not read:
            return
        self.read += 1
        earlier = [self._readers[topic] for topic in read if topic in self._readers]
        self._readers.update(dict.fromkeys(read, (branch, result)))
        if len(earlier) < len(read) or all(reader == branch for reader, _ in earlier):
            return
        window = self._strategy.window
        index = window.index.text if window.index else ""
        if all(window.shows(earlier_result) for _, earlier_result in earlier):
            where = "in view"
        elif all(_named(topic, index) for topic in read):
            where = "named by the index"
        else:
            where = "gone"
        self.repeats[where] += 1
        self.tokens[where] += tokens


def _named(topic: tuple[str, str], index: str) -> bool:
    kind, name = topic
    return name in index if kind == "file" else str(json.loads(name.partition(" ")[2] or "{}").get("command")) in index


def starts(folder: Path) -> None:
    """Print which sub-agents the recordings of Claude Code started, and what they hold of them."""
    print(
        "| session | starts | in batches | prompts, tokens | reports, tokens | tokens of the sub-agents | their calls |"
    )
    print("|---|" + "--:|" * 6)
    for path in sorted(folder.glob("*.jsonl")):
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        messages = Counter[str]()
        prompts = 0
        for line in lines:
            content = (line.get("message") or {}).get("content")
            for block in content if isinstance(content, list) else ():
                if block.get("type") == "tool_use" and block["name"] in STARTS:
                    messages[line["message"]["id"]] += 1
                    prompts += chars(json.dumps(block["input"]))
        results = [line["toolUseResult"] for line in lines if isinstance(line.get("toolUseResult"), dict)]
        done = [result for result in results if "totalToolUseCount" in result]
        reports = sum(chars(json.dumps(result["content"])) for result in done)
        held, calls = (sum(result[name] for result in done) for name in ("totalTokens", "totalToolUseCount"))
        side = sum(bool(line.get("isSidechain")) for line in lines)
        batches = sum(count for count in messages.values() if count > 1)
        assert not side
        if total := sum(messages.values()):
            figures = (total, batches, prompts, reports, held, calls)
            print(f"| {path.stem.partition('_')[0]} | {' | '.join(f'{figure:,}' for figure in figures)} |")


def histories(materials: Sequence[Material], parent: int) -> tuple[list[Exchange], list[Exchange]]:
    """Return a parent's exchanges alone, and with the others as branches."""
    alone = list(exchanges(materials[parent], 0, 0.0))
    begun = alone[min(FIRST, len(alone) - 1)].at
    others = [material for number, material in enumerate(materials) if number != parent]
    shared = list(alone)
    for branch, material in enumerate(others, 1):
        shared += exchanges(material, branch, begun, LENGTH)
    return alone, sorted(shared, key=lambda exchange: exchange.at)


def table(groups: Sequence[tuple[str, Sequence[Material]]], budget: int) -> None:
    """Print what each parent's history looks like with and without branches."""
    print(f"\n### {budget:,} tokens\n")
    print(
        "| parent | calls, of branches | pairs broken | over | over alone | parent's view | results | repeat |"
        " in view | named | gone | tokens in view or named |"
    )
    print("|---|" + "--:|" * 11)
    shares, sums = list[float](), Counter[str]()
    for _, materials in groups:
        for parent, material in enumerate(materials):
            alone, mixed = histories(materials, parent)
            without = Shared(budget, material.overhead).run(alone)
            shared = Shared(budget, material.overhead).run(mixed)
            pairs = zip(without.views, shared.views, strict=True)
            share = fmean(len(own & other) / len(own) for own, other in pairs if own)
            shares.append(share)
            repeats, tokens = shared.repeats, shared.tokens
            figures = {
                "calls": shared.requests,
                "of branches": shared.requests - without.requests,
                "broken": shared.broken,
                "over": shared.over,
                "alone": without.over,
                "read": shared.read,
                "repeats": repeats.total(),
                **{where: repeats[where] for where in ("in view", "named by the index", "gone")},
                "tokens": tokens.total() - tokens["gone"],
            }
            sums.update(figures)
            print(row(material.session.name, figures, f"{share:.3f}"))
    print(row("all", sums, f"{fmean(shares):.3f}, median {median(shares):.3f}"), flush=True)


def room(groups: Sequence[tuple[str, Sequence[Material]]], least: int, budgets: Sequence[int]) -> None:
    """Print which part of a parent's view alone is also in a view that it shares, if that may hold more."""
    print(f"\n| shared budget | parent's view at {least:,} alone that is in it, mean | least |")
    print("|--:|--:|--:|")
    for budget in budgets:
        shares = list[float]()
        for _, materials in groups:
            for parent, material in enumerate(materials):
                alone, mixed = histories(materials, parent)
                without = Shared(least, material.overhead).run(alone)
                shared = Shared(budget, material.overhead).run(mixed)
                pairs = zip(without.views, shared.views, strict=True)
                shares.append(fmean(len(own & other) / len(own) for own, other in pairs if own))
        print(f"| {budget:,} | {fmean(shares):.3f} | {min(shares):.3f} |", flush=True)


def row(name: str, figures: Mapping[str, int], share: str) -> str:
    """Return a row of the table."""
    cells = [f"{figures['calls']:,}, {figures['of branches']:,}"]
    cells += [f"{figures[column]:,}" for column in ("broken", "over", "alone")] + [share]
    cells += [
        f"{figures[column]:,}" for column in ("read", "repeats", "in view", "named by the index", "gone", "tokens")
    ]
    return f"| {name} | {' | '.join(cells)} |"


def main() -> None:
    """Read the sessions and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sessions", type=Path, help="the folder of recorded sessions")
    options = parser.parse_args()
    groups = list[tuple[str, Sequence[Material]]]()
    try:
        for agent, repositories in GROUPS.items():
            for repository in repositories:
                paths = sorted((options.sessions / agent).glob(f"{repository}-*.jsonl"))
                groups.append((repository, [count(session) for path in paths for session in read_session(path)]))
    except WaneError as error:
        parser.error(str(error))
    starts(options.sessions / "claude-code")
    for budget in BUDGETS:
        table(groups, budget)
    room(groups, BUDGETS[0], ROOM)


if __name__ == "__main__":
    main()
