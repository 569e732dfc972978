"""The index of evicted content (R20): what it says, what it costs, and where it stands."""

from __future__ import annotations

import json
import re
import tracemalloc
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import Scenario, scenarios
from wane.core import ContextWindow, EvictedIndex, Item, Kind, Policy, chars
from wane.core.errors import ConfigError
from wane.core.room import share_of
from wane.formats.message_format import Part
from wane.strategies.evicted import Evicted
from wane.strategies.strategy import StrategySettings, Substitute
from wane.strategies.window_strategy import WindowStrategy

NAMES = ("src/alpha.py", "lib/beta_two.c", "read_config", "BetaParser", "docs/gamma.md", "self.window")


def contents(items: Sequence[Item], names: Sequence[str]) -> list[Part]:
    """Content for random items, in which a few names come again and again."""
    parts = []
    for number, item in enumerate(items):
        name, other = names[number % len(names)], names[(number * 7 + 3) % len(names)]
        arguments = item.arguments
        if item.kind is Kind.CALL and item.tool != "delimiter":
            command = ("pytest -q", f"cat {name}", f"sed -i s/a/b/ {other}")[number % 3]
            arguments = json.dumps({"command": command, "path": name})
        text = "" if item.kind is Kind.CALL else f"{name} and {other} and word{number}_{number} exit code: {number % 3}"
        parts.append(Part(item.kind, text, item.call_id, item.tool, arguments, item.needs))
    return parts


SHARES = st.sampled_from((0.05, 0.2, 0.5, 1.0))


class Run:
    """A history taken in item by item, with a view ahead of each answer."""

    def __init__(self, scenario: Scenario, share: float, *, recall: bool = False, packs: bool = False) -> None:
        self.packs = packs
        self.items = scenario.items
        self.parts = contents(self.items, NAMES)
        settings = StrategySettings(scenario.budget, recall=recall)
        policy = replace(scenario.policy, index_share=share)
        self.strategy = WindowStrategy("cwl", settings, policy)
        self.views: list[list[Any]] = []
        self.passes: dict[int, tuple[Any, EvictedIndex | None]] = {}  # by number of items
        self.latest = self.strategy.fit()

    def to(self, stop: int) -> None:
        for number in range(self.strategy.window.item_count, stop):
            self.strategy.add(self.items[number], self.parts[number])
            if self.packs:
                self.strategy.pack()
            if number + 1 == stop or self.items[number + 1].kind is not self.items[number].kind:
                self.fit()

    def fit(self) -> None:
        fitted = self.latest = self.strategy.fit()
        assert fitted.report is not None
        if fitted.report.ran:
            self.passes[self.strategy.window.item_count] = (fitted.report.trace, fitted.report.index)
        self.views.append(list(fitted.view))


@given(scenarios(), SHARES)
def test_packed_content_gives_the_same_index(scenario: Scenario, share: float) -> None:
    runs = [Run(scenario, share, recall=True, packs=packs) for packs in (False, True)]
    for run in runs:
        # So long that content is packed every few items, and with what only some writers of text take.
        padding = "\ud800 é " + "." * 9_000
        run.parts = [replace(part, text=f"{part.text} {padding}" if part.text else "") for part in run.parts]
        run.to(len(run.items))
    assert runs[0].views == runs[1].views
    assert runs[0].passes == runs[1].passes


def test_packed_content_takes_little_memory() -> None:
    sizes = []
    for packs in (False, True):
        strategy = WindowStrategy("cwl", StrategySettings(), Policy())
        tracemalloc.start()
        for number in range(400):
            strategy.add(Item(Kind.TEXT, 250, message=number), Part(Kind.TEXT, f"src/file{number}.py " * 100))
            if packs:
                strategy.pack()
        sizes.append(tracemalloc.get_traced_memory()[0])
        tracemalloc.stop()
    assert sizes[1] < sizes[0] / 4


def split(view: Sequence[Any]) -> tuple[list[int], list[Substitute]]:
    return [slot for slot in view if isinstance(slot, int)], [slot for slot in view if not isinstance(slot, int)]


@given(scenarios(), SHARES)
def test_the_rest_of_the_view_is_a_filter_and_nothing_comes_back(scenario: Scenario, share: float) -> None:
    run = Run(scenario, share)
    run.to(len(run.items))
    before: set[int] = set()
    known = 0
    for view in run.views:
        items, texts = split(view)
        assert items == sorted(set(items))
        assert len(texts) <= 1
        assert {index for index in items if index < known} <= before
        before, known = set(items), max([known, *(index + 1 for index in items)])


@given(scenarios(), SHARES)
def test_it_counts_and_keeps_its_share(scenario: Scenario, share: float) -> None:
    run = Run(scenario, share)
    for stop in range(1, len(run.items) + 1):
        run.to(stop)
        window, report = run.strategy.window, run.latest.report
        assert report is not None
        _, texts = split(run.views[-1])
        index = window.index
        assert [text.text for text in texts] == ([] if index is None else [index.text])
        tokens = 0 if index is None else index.tokens
        assert window.accounting.estimate == window.accounting.items + tokens
        if report.ran:
            assert tokens <= share_of(report.budget_used, share)
        if index is not None:
            assert chars(index.text) == index.tokens
        if report.ran and report.index is not None:
            assert report.satisfied


@given(scenarios(), SHARES)
def test_it_names_only_what_the_history_holds(scenario: Scenario, share: float) -> None:
    run = Run(scenario, share, recall=True)
    run.to(len(run.items))
    history = [f"{part.text}\n{part.arguments or ''}" for part in run.parts]
    episodes = {episode.name for episode in run.strategy.episodes}
    for view in run.views:
        for text in split(view)[1]:
            _, *lines = text.text.removesuffix("\n</system-reminder>").splitlines()[1:]
            for line in lines:
                heading, _, entries = line.partition(": ")
                assert heading in ("Learned", "Changed", "Read", "Ran", "Names")
                if heading == "Learned":
                    learned = [entry.partition(": ") for entry in entries.split("; ")]
                    assert all(name in episodes and any(text in it for it in history) for name, _, text in learned)
                    continue
                for entry in entries.split("; " if heading == "Ran" else ", "):
                    found = re.fullmatch(r"(.*?)(?: \[(.*)\])?", entry)
                    assert found is not None
                    assert found[2] is None or found[2] in episodes
                    name, _, outcome = found[1].partition(": exit ")
                    assert any(name in content for content in history)
                    assert not outcome or any(f"exit code: {outcome}" in content for content in history)


@given(scenarios(), SHARES)
def test_it_changes_only_when_a_pass_runs(scenario: Scenario, share: float) -> None:
    run = Run(scenario, share)
    earlier: list[Any] = []
    for stop in range(1, len(run.items) + 1):
        run.to(stop)
        report, view = run.latest.report, run.views[-1]
        assert report is not None
        if not report.ran:
            assert view[: len(earlier)] == earlier
        earlier = view


@given(scenarios(), SHARES)
def test_repeated_or_at_once_it_is_the_same(scenario: Scenario, share: float) -> None:
    run, again = Run(scenario, share), Run(scenario, share)
    run.to(len(run.items))
    followed = again.strategy
    for number in range(len(run.items) + 1):
        if number in run.passes:
            followed.redo(*run.passes[number])
        if number < len(run.items):
            followed.add(run.items[number], run.parts[number])
    run.fit()
    followed.fit()
    assert list(followed.view) == run.views[-1]
    # And so is the next one, even in a window that was saved and restored.
    restored = Run(scenario, share).strategy
    for item, part in zip(run.items, run.parts, strict=True):
        restored.add(item, part)
    restored.adopt(ContextWindow.restore(json.loads(json.dumps(run.strategy.window.export()))))
    assert list(restored.view) == run.views[-1]
    more = [(Item(Kind.USER, 5), Part(Kind.USER, "go on")), (Item(Kind.TEXT, 3), Part(Kind.TEXT, "src/alpha.py"))]
    views = []
    for strategy in (run.strategy, followed, restored):
        for item, part in more:
            strategy.add(item, part)
        strategy.window.budget = max(1, scenario.budget // 2)
        views.append(list(strategy.fit().view))
    assert views[0] == views[1] == views[2]


def session(*, recall: bool = False, marked: bool = True, counter: Any = chars) -> WindowStrategy:
    """A session whose exploration and act have left the view."""
    policy = Policy(index_share=0.4, low_water=0.6, description_share=0.0)
    strategy = WindowStrategy("cwl", StrategySettings(300, recall=recall), policy, counter=counter)
    calls = 0

    def take(kind: Kind, text: str = "", tokens: int = 40, **call: Any) -> None:
        part = Part(kind, text, **call)
        strategy.add(Item(kind, tokens, part.call_id, part.tool, part.arguments), part)

    def call(tool: str, arguments: dict[str, Any], result: str) -> None:
        nonlocal calls
        calls += 1
        take(Kind.CALL, call_id=f"c{calls}", tool=tool, arguments=json.dumps(arguments))
        take(Kind.RESULT, result, call_id=f"c{calls}")
        strategy.fit()

    take(Kind.USER, "Mend src/parser.py")
    if marked:
        call("delimiter", {"action": "start", "name": "find-bug", "type": "expl"}, "ok")
    call("read", {"path": "src/parser.py"}, "def parse_line(): return OldParser()")
    call("bash", {"command": "pytest -q tests\necho done"}, "2 failed\nProcess exited with code 1")
    if marked:
        call("delimiter", {"action": "end", "description": "parse_line is wrong"}, "ok")
        call("delimiter", {"action": "start", "name": "fix-bug", "type": "act", "dependencies": ["find-bug"]}, "ok")
    call("edit", {"path": "src/lexer.py", "old": "OldParser", "new": "NewParser"}, "edited")
    if marked:
        call("delimiter", {"action": "end"}, "ok")
    take(Kind.TEXT, "All is done with word_of_end.")
    take(Kind.USER, "Thanks")
    take(Kind.TEXT, "You are welcome, dear_user.")
    strategy.fit()
    return strategy


def test_it_lists_files_commands_and_names() -> None:
    index = session().window.index
    assert index is not None
    assert index.text == (
        "<system-reminder>\nThis has left your context window.\n"
        "Learned: find-bug: parse_line is wrong\n"
        "Changed: src/lexer.py\n"
        "Read: src/parser.py\n"
        "Ran: pytest -q tests: exit 1\n"
        "Names: word_of_end, OldParser, NewParser, parse_line\n</system-reminder>"
    )


def test_with_recall_it_gives_the_handle_of_each() -> None:
    index = session(recall=True).window.index
    assert index is not None
    assert "`recall` brings it back" in index.text
    assert "Changed: src/lexer.py [fix-bug]\nRead: src/parser.py [find-bug]\n" in index.text


def test_what_is_still_in_view_is_not_listed() -> None:
    index = session().window.index
    assert index is not None
    # The user said src/parser.py, which stays; but that it was read has left.
    assert "dear_user" not in index.text
    assert "Read: src/parser.py" in index.text


@pytest.mark.parametrize("tag", ["</system-reminder>", "<system-reminder>"])
def test_no_path_command_or_description_ends_it(tag: str) -> None:
    evicted = Evicted()
    calls = [
        ("edit", {"path": f"src/{tag}/a.py", "old": "x", "new": "y"}),
        ("edit", {"path": "src/other.py", "old": "x", "new": "y"}),
        ("bash", {"command": f"pytest -k '{tag}' tests"}),
    ]
    window = ContextWindow(1_000)
    for number, (tool, arguments) in enumerate(calls):
        part = Part(Kind.CALL, call_id=f"c{number}", tool=tool, arguments=json.dumps(arguments))
        item = Item(Kind.CALL, 10, part.call_id, tool, part.arguments)
        evicted.add(part, window.add(item))
        answer = Part(Kind.RESULT, "ok", call_id=part.call_id)
        evicted.add(answer, window.add(Item(Kind.RESULT, 1, part.call_id)))
    evicted.leave(range(6))
    written = evicted.write(1_000)
    assert written is not None
    assert (
        written[0] == "<system-reminder>\nThis has left your context window.\nChanged: src/other.py\n</system-reminder>"
    )


def test_it_is_counted_by_the_counter_of_the_conversation() -> None:
    index = session(counter=lambda text: len(text) // 2).window.index
    assert index is not None
    assert index.tokens == len(index.text) // 2 <= 120


@pytest.mark.parametrize("share", [-0.1, 1.5, "0.5", None, True])
def test_a_share_that_cannot_be_is_refused(share: Any) -> None:
    with pytest.raises(ConfigError, match=r"index_share is .*; it must be from 0 to 1, where 0 is no index"):
        Policy(index_share=share)


def test_the_paper_has_none() -> None:
    assert Policy.paper().index_share == 0


def places(kinds: str) -> list[int]:
    """Where the index would stand after each item: u user, r reasoning, t text, c call, o its result, n notice."""
    strategy = WindowStrategy("cwl", StrategySettings(), Policy())
    by_letter = {
        "u": Kind.USER,
        "r": Kind.REASONING,
        "t": Kind.TEXT,
        "c": Kind.CALL,
        "o": Kind.RESULT,
        "n": Kind.NOTICE,
    }
    out = []
    message = 0
    for number, letter in enumerate(kinds.replace(" ", "|")):
        if letter == "|":
            message += 1
            continue
        kind = by_letter[letter]
        fields = {"call_id": "c", "tool": "read"} if kind is Kind.CALL else {"call_id": "c"} if letter == "o" else {}
        strategy.add(Item(kind, 1, message=message, **fields), Part(kind, f"{number}", **fields))
        out.append(strategy._turn.place)
    return out


@pytest.mark.parametrize(
    ("kinds", "place"),
    [
        ("u tc o tc o", 4),  # ahead of the latest answer
        ("u rtc o rc o", 5),
        ("u rtc o c o", 0),  # which must not begin a turn here, as its first one reasoned
        ("u rt u tc o", 4),
        ("u tc o rt u", 4),
        ("u rtc ou c o", 0),  # a turn that stands with results begins none
        ("u rtc uo c o", 0),
        ("u rtc o nu rt c o", 5),  # ahead of the whole message
    ],
)
def test_it_stands_where_every_provider_accepts_it(kinds: str, place: int) -> None:
    assert places(kinds)[-1] == place
