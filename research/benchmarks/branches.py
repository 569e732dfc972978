"""What sub-agents that share one history with their parent do to its view (R18, docs/decisions/branches.md).

    python research/benchmarks/branches.py FOLDER

FOLDER has recordings of Claude Code, at any depth; of a session that was saved several times, the longest counts, up
to 4 MiB. The sub-agents are those that a recording holds, interleaved with their parent by the recorded times.
Deterministic: the same files give the same figures.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from statistics import fmean

from frame import parser, recorded_sessions, table_head, table_row
from wane.core import EpisodeType, Item, Kind, Policy
from wane.formats.base import Part
from wane.lab.counting import Material, count
from wane.lab.rereads import Rereads, rereads
from wane.lab.session import RecordedSession
from wane.strategies.base import Settings
from wane.strategies.host import Scope
from wane.strategies.window import WindowStrategy
from wane.tools.calls import judge_call

BUDGETS = (80_000, 120_000)
ROOM = (120_000, 160_000, 240_000, 480_000, 1_000_000)
"""Shared budgets, against a parent alone at the first of `BUDGETS`."""
LARGEST = 2**22  # bytes of the largest file that counts

COLUMNS = (
    *("budget", "calls, of branches", "pairs broken", "over", "over alone", "parent's view", "the same", "results"),
    *("repeat", "in view", "named", "gone", "tokens in view or named"),
)

_SESSION = re.compile(rb'"sessionId": ?"([^"]+)"')
_WORK = (b'"agent_progress"', b'"isSidechain":true', b'"isSidechain": true')
"""What a file with the work of sub-agents has. Their own files lie elsewhere, and the reader finds them."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """An answer of one session with what follows it up to the next answer."""

    branch: int  # number of the session, 0 for the parent
    at: float  # when it was asked for, in seconds
    until: float  # when its results were there: the time of the next answer
    entries: Sequence[tuple[Item, Part]]  # its items with their content


def exchanges(material: Material, branch: int) -> Iterator[Exchange]:
    """Yield the exchanges of a session. Of what is ahead of a branch only the words of its prompt come along."""
    calls = [call for call in material.session.own_calls if call.stop > call.first]
    parts, at = material.session.parts, 0.0
    stops = [*(call.first for call in calls[1:]), len(parts)]
    for number, (call, stop) in enumerate(zip(calls, stops, strict=True)):
        at = max(at, call.at or at)
        following = calls[number + 1] if number + 1 < len(calls) else call
        first = 0 if number == 0 else call.first
        entries = zip(material.items[first:stop], parts[first:stop], strict=True)
        ahead = (Kind.SYSTEM, Kind.NOTICE) if branch and not number else ()
        yield Exchange(
            branch, at, max(at, following.at or at), [entry for entry in entries if entry[0].kind not in ahead]
        )


def topics(part: Part) -> set[tuple[str, str]]:
    """The files that a call reads, or the command that it runs."""
    judgement = judge_call(part.tool or "", part.arguments)
    if judgement.reads:
        return {("file", path) for path in judgement.reads}
    if judgement.writes or not judgement.hint:
        return set()
    return {("command", f"{part.tool} {part.arguments}")}


class Shared:
    """One history of several branches, kept within a budget, and what was seen of it.

    `budget`: tokens that a view may hold.
    `overhead`: tokens that every request carries besides it.

    Attributes:
        broken: calls in view without their result, and results without their call, over all requests.
        over: requests over the budget.
        requests: all requests.
        views: for each request of the parent, whether it comes after branches that have all ended, and its items in
            view, by their number in its session.
        repeats: results that read again what another branch has read, by where that was at the time.
        tokens: tokens of these results, likewise.
        read: all results of files and commands.
    """

    def __init__(self, budget: int, overhead: int) -> None:
        settings = Settings(budget, overhead=overhead, policy=Policy(), annotate="host")
        self._strategy = WindowStrategy("cwl", settings, settings.policy)
        self._budget = budget
        self.broken = self.over = self.requests = self.read = 0
        self.views: list[tuple[bool, set[int]]] = []
        self.repeats: Counter[str] = Counter()
        self.tokens: Counter[str] = Counter()
        self._places: list[int | None] = []  # by item, its number in the parent's session
        self._own = 0
        self._pairs: dict[str, tuple[int, set[tuple[str, str]]]] = {}  # open calls
        self._answered: list[tuple[int, int]] = []
        self._readers: dict[tuple[str, str], tuple[int, int]] = {}  # by topic: who read it last, and the result

    def run(self, history: Sequence[Exchange]) -> Shared:
        """Make each request at its time, with a pass ahead of it, and take in each exchange when it has its results."""
        # What is done comes ahead of what is asked for at the same moment, unless it was asked for just then.
        steps = [(exchange.at, 1, number) for number, exchange in enumerate(history)]
        steps += [
            (exchange.until, 0 if exchange.until > exchange.at else 2, number)
            for number, exchange in enumerate(history)
        ]
        steps.sort()
        last = {history[number].branch: step for step, (_, _, number) in enumerate(steps)}
        scopes = {branch: Scope(f"b{branch}", f"branch-{branch}", EpisodeType.EXPL) for branch in last if branch}
        host, begun = self._strategy.host, set[int]()
        assert host is not None
        for step, (_, order, number) in enumerate(steps):
            branch = history[number].branch
            open_branches = {other for other in begun if last[other] >= step}
            host.path = (scopes[branch],) if branch else ()
            host.live = {scopes[other].id for other in open_branches}
            if order == 1:
                begun |= {branch} - {0}
                self._request(branch, joined=bool(begun) and not open_branches)
            else:
                self._take(history[number], number)
        return self

    def _take(self, exchange: Exchange, number: int) -> None:
        for item, part in exchange.entries:
            call_id = None if item.call_id is None else f"{exchange.branch}:{item.call_id}"
            message = None if item.message is None else number * 10_000 + item.message % 10_000
            added = self._strategy.add(replace(item, call_id=call_id, message=message), part)
            self._places.append(None if exchange.branch else self._own)
            self._own += not exchange.branch
            if item.kind is Kind.CALL and call_id is not None:
                self._pairs[call_id] = (added.index, topics(part))
            elif item.kind is Kind.RESULT and call_id is not None:
                call, read = self._pairs.pop(call_id)
                self._answered.append((call, added.index))
                self._note(read, exchange.branch, added.index, item.tokens)

    def _request(self, branch: int, *, joined: bool) -> None:
        self._strategy.fit()
        window = self._strategy.window
        self.requests += 1
        self.over += window.tokens > self._budget
        self.broken += sum(window.shows(call) != window.shows(result) for call, result in self._answered)
        if not branch:
            view = {place for index in window.visible if (place := self._places[index]) is not None}
            self.views.append((joined, view))

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


@dataclass(frozen=True, slots=True)
class Family:
    """A parent with its sub-agents."""

    parent: Material
    sides: Sequence[Material]
    parallel: bool  # whether two of the sub-agents worked at the same time

    @classmethod
    def of(cls, session: RecordedSession) -> Family | None:
        """Return a session with its sub-agents that made dated calls; None if there are none."""
        sides = [side for side in session.sidechains if any(call.at for call in side.own_calls)]
        if not sides:
            return None
        spans = sorted((min(times), max(times)) for times in ([c.at for c in side.own_calls if c.at] for side in sides))
        parallel = any(later < end for (_, end), (later, _) in pairwise(spans))
        return cls(count(session), [count(side) for side in sides], parallel)

    def history(self) -> list[Exchange]:
        """The parent's exchanges and those of its branches."""
        shared = list(exchanges(self.parent, 0))
        for branch, side in enumerate(self.sides, 1):
            shared += exchanges(side, branch)
        return shared


def alike(alone: Shared, shared: Shared) -> list[float]:
    """The share of the parent's view alone that is in the shared one, at each request after branches have ended."""
    pairs = zip(alone.views, shared.views, strict=True)
    return [len(own & view) / len(own) for (_, own), (joined, view) in pairs if joined and own]


def longest_files(folder: Path) -> Iterator[Path]:
    """Yield the files with sub-agents; of those of one session the longest."""
    longest: dict[bytes, Path] = {}
    for path in sorted(folder.rglob("*.jsonl")):
        if "subagents" in path.parts or path.stat().st_size > LARGEST:
            continue
        data = path.read_bytes()
        session = _SESSION.search(data)
        if session is None or not (
            any(mark in data for mark in _WORK) or (path.with_suffix("") / "subagents").is_dir()
        ):
            continue
        known = longest.get(session[1])
        if known is None or known.stat().st_size < len(data):
            longest[session[1]] = path
    yield from longest.values()


def tables(families: Sequence[Family]) -> None:
    """Print what sharing one history does to the parents' views."""
    histories = [family.history() for family in families]
    runs = {budget: _runs(families, histories, budget) for budget in {*BUDGETS, *ROOM}}
    own = [[one for one in history if not one.branch] for history in histories]
    alone = {budget: _runs(families, own, budget) for budget in BUDGETS}
    print("", table_head(COLUMNS, words=0), sep="\n")
    for budget in BUDGETS:
        shares = [share for pair in zip(alone[budget], runs[budget], strict=True) for share in alike(*pair)]
        print(row(budget, alone[budget], runs[budget], shares), flush=True)
    mean_column = f"parent's view at {BUDGETS[0]:,} alone that is in it, mean"
    print("", table_head(["shared budget", mean_column, "least", "whole, of requests"], words=0), sep="\n")
    for budget in ROOM:
        shares = [share for pair in zip(alone[BUDGETS[0]], runs[budget], strict=True) for share in alike(*pair)]
        whole = sum(share == 1 for share in shares)
        cells = [f"{budget:,}", f"{fmean(shares):.3f}", f"{min(shares):.3f}", f"{whole:,} of {len(shares):,}"]
        print(table_row(cells), flush=True)


def _runs(families: Sequence[Family], histories: Sequence[Sequence[Exchange]], budget: int) -> list[Shared]:
    pairs = zip(families, histories, strict=True)
    return [Shared(budget, family.parent.overhead).run(history) for family, history in pairs]


def row(budget: int, alone: Collection[Shared], shared: Collection[Shared], shares: Sequence[float]) -> str:
    repeats, tokens = Counter[str](), Counter[str]()
    for run in shared:
        repeats += run.repeats
        tokens += run.tokens
    requests, of_parents = sum(run.requests for run in shared), sum(run.requests for run in alone)
    whole = sum(share == 1 for share in shares)
    counts = [sum(run.broken for run in shared), sum(run.over for run in shared), sum(run.over for run in alone)]
    wheres = [repeats[where] for where in ("in view", "named by the index", "gone")]
    cells = [f"{budget:,}", f"{requests:,}, {requests - of_parents:,}", *(f"{figure:,}" for figure in counts)]
    cells += [f"{fmean(shares):.3f} ({min(shares):.3f})", f"{whole:,} of {len(shares):,}"]
    cells += [f"{figure:,}" for figure in (sum(run.read for run in shared), repeats.total(), *wheres)]
    return table_row([*cells, f"{tokens.total() - tokens['gone']:,}"])


def main() -> None:
    command = parser(__doc__)
    command.add_argument("folder", type=Path, help="a folder with recordings of Claude Code")
    sessions = recorded_sessions(longest_files(command.parse_args().folder))
    read_again = sum((rereads(session) for session in sessions), Rereads())
    families = [family for session in sessions if (family := Family.of(session))]
    for name, chosen in (("all", families), ("with parallel sub-agents", [one for one in families if one.parallel])):
        print(f"\n## {name}: {len(chosen)} sessions, {sum(len(family.sides) for family in chosen)} sub-agents")
        if chosen:
            tables(chosen)
    print(f"\n{read_again.describe()}")


if __name__ == "__main__":
    main()
