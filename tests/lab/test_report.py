"""Reports: what they hold, what they must not let loose, how large they get, and how they behave in a browser."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest

from tests.cli.conftest import Run, plain_surroundings, run
from tests.journal.support import begin, user_record
from tests.lab.browser import Browser, needs_chromium
from tests.lab.readers.test_journal import HISTORY
from tests.lab.tales import AUTOMATIC, Tale
from wane.core import Kind, Level, Mark, Policy, Step
from wane.formats.message_format import Part
from wane.journal import ChoiceRecord, MessageRecord
from wane.lab.counting import Material
from wane.lab.recorded_session import CallUsage, Compaction, RecordedSession
from wane.lab.replaying.compare import Comparison, compare
from wane.lab.replaying.jobs import InProcess, Job
from wane.lab.report import TEXT_LIMIT, Simulated, write_report, write_sweep_report, write_view
from wane.lab.report.page import LEAST, Texts, render, shorten, size_of, texts_within, to_json
from wane.lab.report.sessions import outline_of
from wane.lab.report.simulating import simulate_sessions
from wane.lab.sweep import sweep
from wane.money import dollars
from wane.strategies.registry import STRATEGY_NAMES
from wane.strategies.strategy import StrategySettings

__all__ = ["plain_surroundings", "run"]  # fixtures

HOSTILE = "</script><script>window.hurt=1</script><!--<script> <img src=x onerror='window.hurt=1'> &amp; \u2028 \ud800 "


def tale(rounds: int = 12, text: str = "", name: str = "tale") -> Tale:
    """A session that explores and acts in turn."""
    told = Tale(name).system(50).user(100, f"Make it work. {text}")
    for number in range(rounds):
        path = f"src/module_{number}.py"
        told.calls(f"r{number}", 20, "read", path=path).result(f"r{number}", 400, f"{text} code of {path}")
        told.calls(f"e{number}", 30, "edit", path=path, old="a", new=text).result(f"e{number}", 10, "edited")
        if number % 4 == 3:
            told.says(25, f"Done with {path}").user(40, f"And now the next: {number}")
    told.says(10, "All done.")
    return told


def comparison(
    *tales: Tale, names: tuple[str, ...] = STRATEGY_NAMES, trace: bool = True, policy: Policy | None = None
) -> Comparison:
    studied = [told.study_session(overhead=100) for told in tales]
    return compare(studied, names, StrategySettings(budget=2_000, policy=policy or Policy()), InProcess(), trace=trace)


class Page(HTMLParser):
    """A page taken apart; every element that is opened must be closed, by itself."""

    VOID = ("meta", "link", "br", "img", "input")

    def __init__(self, path: Path) -> None:
        super().__init__(convert_charrefs=True)
        self.text = path.read_text(encoding="utf-8")
        self.open: list[str] = []
        self.scripts: list[dict[str, str | None]] = []
        self.addresses: list[str] = []
        self.bodies: list[str] = []
        self.feed(self.text)
        self.close()
        assert not self.open, "elements that are not closed"
        self.data: dict[str, Any] = json.loads(self.bodies[0])

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        assert not [name for name in given if name.startswith("on")]
        self.addresses += [value for name, value in attrs if name in ("src", "href") and value]
        if tag == "script":
            self.scripts.append(given)
            self.bodies.append("")
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.bodies[-1] += data


@pytest.fixture(scope="module")
def tale_comparison() -> Comparison:
    return comparison(tale())


@pytest.fixture
def page(tale_comparison: Comparison, tmp_path: Path) -> Page:
    write_report(tmp_path / "report.html", tale_comparison)
    return Page(tmp_path / "report.html")


# What is in it


def test_the_figures_of_all_strategies_are_in_it(page: Page, tale_comparison: Comparison) -> None:
    recorded, *rows = page.data["strategies"]
    assert recorded["name"] == "as recorded"
    assert [row["name"] for row in rows] == list(STRATEGY_NAMES)
    for row in rows:
        figures = tale_comparison.totals(row["name"]).to_dict(tale_comparison.totals("none"))
        assert row["values"] == {key: figures[key] for key in row["values"]}
        assert row["what"]
    assert page.data["verdict"] == tale_comparison.verdict()


def test_a_comparison_begins_with_three_figures_of_wane(
    page: Page, tale_comparison: Comparison, tmp_path: Path
) -> None:
    cost, in_view, messages = page.data["tiles"]
    totals, before = tale_comparison.totals("cwl"), tale_comparison.baselines().lowest()
    assert before is not None
    lines = {label: figure for label, figure, _ in cost["lines"]}
    assert lines[before.label] == dollars(before.cost)
    assert lines["with Wane, simulated, with fetching again"] == dollars(before.with_wane(totals)[0])
    assert cost["bound"].endswith(f"{tale_comparison.cheaper()}." if tale_comparison.cheaper() else "simulated.")
    assert in_view["then"] == f"{totals.loss.in_view:,} of {totals.loss.uses:,} times"
    assert (messages["value"], messages["beside"]) == (f"{totals.loss.user_turns:,}", f"of {totals.loss.user_turns:,}")
    only = compare([tale().study_session()], ("none", "truncate"), StrategySettings(), InProcess())
    write_report(tmp_path / "without.html", only)
    assert Page(tmp_path / "without.html").data["tiles"] == []


@pytest.mark.full
@needs_chromium
def test_the_plot_of_a_comparison_comes_right_below_its_figures(tale_comparison: Comparison, tmp_path: Path) -> None:
    write_report(tmp_path / "report.html", tale_comparison)
    with Browser() as browser:
        browser.open(tmp_path / "report.html")
        order = browser.run(
            "[...document.querySelectorAll('.head, .tiles, .card')].slice(0, 3).map(it => it.className)"
        )
        assert order == ["head", "tiles", "card"]
        assert browser.run("document.querySelectorAll('.tile').length") == 3
        assert browser.run("document.querySelector('.outcome')") is None
        assert tale_comparison.verdict() in browser.text("#about")


def test_best_values_are_marked_among_those_within_the_budget(page: Page) -> None:
    rows = {row["name"]: row for row in page.data["strategies"]}
    rivals = [row for row in rows.values() if row["kept"]]
    assert "best" not in rows["none"]
    cheapest = min(rivals, key=lambda row: row["values"]["total_usd"])
    assert "total_usd" in cheapest["best"]


def test_items_calls_and_episodes_of_a_session_are_in_it(page: Page, tale_comparison: Comparison) -> None:
    (session,) = page.data["sessions"]
    material = tale_comparison.studied[0].subject.material
    assert session["tokens"] == [item.tokens for item in material.items]
    assert session["first"] == [call.first for call in material.session.calls]
    assert len(session["kinds"]) == len(session["owner"]) == len(session["tool"]) == len(material.items)
    texts = page.data["contents_of"][0]
    assert texts[session["text"] + 1].startswith("Make it work.")
    assert {bar["type"] for bar in session["bars"]} >= {"expl", "act"}
    assert session["inferred"]


def test_a_strategy_that_saw_other_episodes_has_its_own(page: Page, tale_comparison: Comparison) -> None:
    (session,) = page.data["sessions"]
    for made in session["runs"]:
        trace = tale_comparison.replays[made["name"]][0].trace
        assert trace is not None
        if trace.episodes:
            assert [bar["number"] for bar in made.get("bars", session["bars"])] == sorted(trace.episodes)
            owner = made.get("owner", session["owner"])
            assert {index: number for index, number in enumerate(owner) if number >= 0} == trace.owners


@pytest.mark.parametrize("name", STRATEGY_NAMES)
def test_changes_lead_from_view_to_view(page: Page, tale_comparison: Comparison, name: str) -> None:
    (session,) = page.data["sessions"]
    made = next(it for it in session["runs"] if it["name"] == name)
    for call, size in enumerate(made["sizes"]):
        gone, placed = replay_changes(made, call)
        shown = sum(
            tokens for index, tokens in enumerate(session["tokens"][: session["first"][call]]) if index not in gone
        )
        assert session["overhead"] + shown + sum(placed) == size


def replay_changes(made: dict[str, Any], call: int) -> tuple[set[int], list[int]]:
    """The items that are gone at a call, and the tokens of the texts that stand in the view."""
    gone: set[int] = set()
    placed: list[int] = []
    for change in made["changes"]:
        if change["call"] <= call:
            gone |= set(indexes(change.get("left", [])))
            gone -= set(indexes(change.get("back", [])))
            placed += [tokens for _, tokens, _ in change.get("placed", [])]
            for _, tokens, _ in change.get("taken", []):
                placed.remove(tokens)
    return gone, placed


def indexes(ranges: list[int]) -> Iterator[int]:
    for first, count in zip(ranges[::2], ranges[1::2], strict=True):
        yield from range(first, first + count)


def test_steps_tell_what_became_of_an_episode(page: Page) -> None:
    (session,) = page.data["sessions"]
    made = next(it for it in session["runs"] if it["name"] == "paper")
    assert made["steps"]
    owner = made.get("owner", session["owner"])
    for call, number, level, tokens, removed in made["steps"]:
        assert page.data["levels"][level] in ("reasoning", "bulk", "artifact", "remove", "description")
        assert {owner[index] for index in indexes(removed)} == {number}
        assert tokens == sum(session["tokens"][index] for index in indexes(removed))
        assert call in [change["call"] for change in made["changes"]]


def test_a_programs_marks_are_drawn_where_they_count_alone() -> None:
    material = Tale().user(10).says(5).material()
    material.session.marks[1] = (Mark("start", "look", host=True),)
    assert [episode.name for episode in outline_of(material, "model").episodes] == [None]
    assert [episode.name for episode in outline_of(material, "host").episodes] == ["look"]


def test_without_traces_there_are_sizes_alone(tmp_path: Path) -> None:
    write_report(tmp_path / "r.html", comparison(tale(), trace=False))
    (session,) = Page(tmp_path / "r.html").data["sessions"]
    assert all("changes" not in made and made["sizes"] for made in session["runs"])
    assert session["bars"], "they are found all the same"


# What must not get out


def test_no_script_of_a_page_takes_the_name_of_another() -> None:
    names = re.findall(r"^(?:async )?(?:function\*?|class|const|let) (\w+)", render("", ""), re.MULTILINE)
    assert len(names) > 100
    assert [name for name, count in Counter(names).items() if count > 1] == []


def test_nothing_is_fetched_and_nothing_foreign_may_run(page: Page) -> None:
    assert page.addresses == ["data:,", "#main"]
    assert [it.get("src") for it in page.scripts] == [None, None]
    frame = page.text.replace(page.bodies[0], "")
    assert set(re.findall(r"https?://[^\"' )]+", frame)) <= {"http://www.w3.org/2000/svg"}, "a name, not an address"
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', page.text)
    assert policy
    assert policy[1].startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy[1]


def test_hostile_contents_stay_contents(tmp_path: Path) -> None:
    file = tmp_path / "r.html"
    write_report(file, comparison(tale(4, HOSTILE, name=HOSTILE)))
    page = Page(file)
    assert len(page.scripts) == 2
    assert not set("<>&\u2028") & set(page.bodies[0]), "nothing in the data looks like markup"
    assert HOSTILE in page.data["contents_of"][0][page.data["sessions"][0]["text"] + 1]
    assert page.data["sessions"][0]["name"] == HOSTILE


def test_contents_can_be_left_out(tmp_path: Path) -> None:
    secret = "sesame-open-4711"
    told = tale(6, secret)
    told.session.title = secret
    write_report(tmp_path / "r.html", comparison(told), contents=False)
    write_view(tmp_path / "v.html", [told.material()], contents=False)
    for name in ("r.html", "v.html"):
        text = (tmp_path / name).read_text()
        assert secret not in text
        assert "module_" not in text, "names of episodes tell what was worked on"
        assert Page(tmp_path / name).data["contents_of"] is None


@pytest.mark.parametrize("text", [HOSTILE, "\x00\x7f\u2029", "]]>", "\\u003c/script>", '"\\'])
def test_json_in_a_page_is_json(text: str) -> None:
    assert json.loads(to_json({"a": text})) == {"a": text}
    assert not set("<>&") & set(to_json(text))
    to_json(text).encode()


# How large it gets


def test_a_page_keeps_its_bound(tmp_path: Path) -> None:
    told = comparison(tale(60, "x" * 5_000), names=("none", "cwl"))
    bare, whole, small = (tmp_path / f"{name}.html" for name in ("bare", "whole", "small"))
    write_report(bare, told, contents=False)
    write_report(whole, told)
    limit = bare.stat().st_size + 40_000
    write_report(small, told, size_limit=limit)
    assert small.stat().st_size <= limit < whole.stat().st_size
    texts = Page(small).data["contents_of"][0]
    assert max(len(it[0]) + len(it[2]) for it in texts if isinstance(it, list)) >= LEAST


def test_sessions_that_do_not_fit_are_named(tmp_path: Path) -> None:
    told = comparison(*(tale(40, name=f"tale {number}") for number in range(5)), names=("none", "cwl"))
    write_report(tmp_path / "r.html", told, size_limit=120_000)
    data = Page(tmp_path / "r.html").data
    assert data["sessions"][0]["name"] == "tale 0"
    assert data["left_out"][-1] == "tale 4"
    assert len(data["strategies"]) == 3


def test_a_long_text_keeps_both_ends() -> None:
    assert shorten("abc", 3) == "abc"
    assert shorten("a" * 75 + "b" * 900 + "c" * 25, 100) == ["a" * 75, 900, "c" * 25]
    texts = Texts()
    texts.take("é" * 3 * TEXT_LIMIT)
    ((head, left_out, tail),) = texts.shorten_texts(10 * TEXT_LIMIT)
    assert (len(head) + len(tail), left_out) == (TEXT_LIMIT, 2 * TEXT_LIMIT)
    found = texts_within([texts], 900)
    assert found is not None
    assert size_of(found[0]) <= 900
    assert texts_within([texts], LEAST) is None


def test_the_same_comparison_gives_the_same_page(tale_comparison: Comparison, tmp_path: Path) -> None:
    for name in ("one.html", "two.html"):
        write_report(tmp_path / name, tale_comparison)
    assert (tmp_path / "one.html").read_bytes() == (tmp_path / "two.html").read_bytes()


# Sweeps, and what happened


def test_a_sweep_has_a_point_for_each_strategy_and_budget(tmp_path: Path) -> None:
    names = ("none", "compact", "cwl")
    swept = sweep([tale().study_session()], names, (1_500, 3_000), StrategySettings(), InProcess())
    write_sweep_report(tmp_path / "s.html", swept)
    points = Page(tmp_path / "s.html").data["points"]
    found = [(it["strategy"], it["budget"]) for it in points]
    assert found == [("none", None), ("compact", 1_500), ("compact", 3_000), ("cwl", 1_500), ("cwl", 3_000)]
    assert any(it["best"] for it in points)


def test_a_sweep_begins_with_a_budget_its_cost_and_what_stays_in_view(tmp_path: Path) -> None:
    budgets = (1_200, 1_500, 2_000, 3_000)
    swept = sweep([tale().study_session()], ("none", "compact", "cwl"), budgets, StrategySettings(), InProcess())
    write_sweep_report(tmp_path / "s.html", swept)
    data = Page(tmp_path / "s.html").data
    budget, cost, in_view = data["tiles"]
    chosen, before = swept.recommended, swept.baselines.lowest()
    assert chosen is not None
    assert before is not None
    assert chosen.strategy == "cwl"
    own = [point for point in swept.points if point.strategy == "cwl"]
    cheapest = min(own, key=lambda point: point.totals.full_cost)
    assert chosen.totals.kept >= cheapest.totals.kept
    assert budget["value"] == f"{chosen.budget:,}"
    assert [label for label, *_ in budget["lines"]] == [f"{tokens:,} tokens" for tokens in budgets]
    assert [label for label, _, is_chosen in budget["lines"] if is_chosen] == [f"{chosen.budget:,} tokens"]
    assert dict(line[:2] for line in cost["lines"])["with Wane, simulated, with fetching again"] == dollars(
        before.with_wane(chosen.totals)[0]
    )
    loss = chosen.totals.loss
    assert in_view["then"] == f"{loss.in_view:,} of {loss.uses:,} times"
    assert [it["budget"] for it in data["points"] if it["chosen"]] == [chosen.budget]
    alone = sweep([tale().study_session()], ("truncate",), (1_500, 3_000), StrategySettings(), InProcess())
    write_sweep_report(tmp_path / "without.html", alone)
    assert Page(tmp_path / "without.html").data["tiles"] == []


@needs_chromium
def test_on_a_phone_tables_need_no_scrolling_sideways(shown: Browser, tmp_path: Path) -> None:
    narrower = "[...document.querySelectorAll('.wide')].map(it => it.scrollWidth - it.clientWidth)"
    shown.look(390, 844)
    assert shown.run(narrower) == [0]
    swept = sweep([tale().study_session()], STRATEGY_NAMES, (1_500, 3_000), StrategySettings(), InProcess())
    write_sweep_report(tmp_path / "s.html", swept)
    shown.open(tmp_path / "s.html")
    assert shown.run(narrower) == [0]
    assert "1.5k" in shown.run("document.querySelector('#points tr[class] .below, #points .below').innerText")
    shown.look(1280, 900)
    assert shown.run("getComputedStyle(document.querySelector('#points .below')).display") == "none"


@needs_chromium
def test_the_heading_is_that_of_the_session_that_is_looked_at(tmp_path: Path) -> None:
    names = ("the first", "the second")
    materials = [tale(name=name).study_session().subject.material for name in names]
    for material, name in zip(materials, names, strict=True):
        material.session.title = f"Title of {name}"
    write_view(tmp_path / "v.html", materials)
    with Browser() as browser:
        browser.open(tmp_path / "v.html")
        assert browser.text("h1") == "Title of the first"
        browser.run(
            "(it => { it.value = '1'; it.dispatchEvent(new Event('change')); })(document.querySelector('#session'))"
        )
        assert browser.text("h1") == browser.run("document.title") == "Title of the second"


@needs_chromium
def test_a_sweep_says_first_what_it_shows_and_names_its_budgets(tmp_path: Path) -> None:
    swept = sweep([tale().study_session()], ("none", "compact", "cwl"), (1_500, 3_000), StrategySettings(), InProcess())
    write_sweep_report(tmp_path / "s.html", swept)
    best = {point.strategy for point in swept.frontier}
    with Browser() as browser:
        browser.open(tmp_path / "s.html")
        assert browser.text("#tile-0 .value").startswith(f"{swept.recommended.budget:,} ")
        assert re.match(r"Cheapest(, and nothing keeps more)?: ", browser.text(".extremes"))
        assert ("Wane at " in browser.text(".extremes")) == ("cwl" in best)
        labels = browser.run("[...document.querySelectorAll('.pointlabel')].map(it => it.textContent)")
        assert any(label.startswith("recommended: ") for label in labels)
        assert {"Wane 3k", "3k", "1.5k"} & set(labels)


def recorded_material() -> Material:
    told = tale(6)
    session: RecordedSession = told.session
    session.compactions.append(Compaction(12, "What was said before.", 8, 2_000))
    session.calls[0] = type(session.calls[0])(session.calls[0].first, session.calls[0].stop, CallUsage(70, 80, 5, 9))
    return told.material(overhead=100)


def test_a_view_shows_what_was_recorded(tmp_path: Path) -> None:
    write_view(tmp_path / "v.html", [recorded_material()])
    data = Page(tmp_path / "v.html").data
    (made,) = data["sessions"][0]["runs"]
    assert not data["sessions"][0]["managed"]
    assert made["sizes"][0] == 155, "as it was reported"
    assert made["reported"][:2] == [1, 0]
    (change,) = made["changes"]
    assert list(indexes(change["left"])) == list(range(1, 8)), "system messages stay"
    assert change["how"] == "summary"
    assert change["before"] == 2_000
    assert data["contents_of"][0][change["placed"][0][2]] == "What was said before."


def test_a_journal_tells_its_passes_by_level(run: Run, tmp_path: Path) -> None:
    journal, file = begin(tmp_path, HISTORY), tmp_path / "v.html"
    outcome = run("view", journal, "--output", file)
    assert (outcome.code, outcome.out) == (0, f"{file}\n")
    data = Page(file).data
    told = outcome.err.splitlines()
    assert told[0].startswith("wane: Wane ran one pass")
    assert told[-1] == "wane: budget auto: 80,000 tokens, the default"
    assert ["Budget auto", "80,000 tokens, the default"] in data["facts"]
    made, other = data["sessions"][0]["runs"]
    assert (made["name"], other["name"]) == ("recorded", "none"), "what it would have cost without"
    assert data["sessions"][0]["managed"], "what was recorded is Wane's, and is drawn so"
    assert [page_change["call"] for page_change in made["changes"]] == [2]
    assert made["budget"] == 700
    assert ["Budget", "700 tokens"] in data["facts"]


def test_a_view_can_leave_contents_out(run: Run, tmp_path: Path) -> None:
    journal = begin(tmp_path, [HISTORY[0], user_record("open sesame"), *HISTORY[2:]])
    run("view", journal, "--output", tmp_path / "v.html", "--redact")
    page = Page(tmp_path / "v.html")
    assert "sesame" not in page.text
    assert journal.stem not in page.text
    assert page.data["title"] == "A session"
    assert [it["name"] for it in page.data["sessions"]] == ["session 1"]
    assert page.data["sessions"][0]["tools"] == [f"tool {n + 1}" for n in range(len(page.data["sessions"][0]["tools"]))]


def chat_of(tmp_path: Path, *first: dict[str, Any]) -> Path:
    """A chat of thirty reads."""
    rounds = [*first, {"role": "user", "content": "Make it work."}]
    for number in range(30):
        call = {"id": f"c{number}", "type": "function", "function": {"name": "read", "arguments": "{}"}}
        rounds += [{"role": "assistant", "content": None, "tool_calls": [call]}]
        rounds += [{"role": "tool", "tool_call_id": f"c{number}", "content": f"line {number} of code\n" * 60}]
    path = tmp_path / "chat.json"
    path.write_text(json.dumps([*rounds, {"role": "assistant", "content": "Done."}]))
    return path


def test_a_session_of_another_agent_stands_beside_what_wane_would_have_shown(run: Run, tmp_path: Path) -> None:
    chat = chat_of(tmp_path)
    outcome = run("view", chat, "--budget", "4k", "--output", tmp_path / "v.html")
    assert outcome.code == 0, outcome.err
    (session,) = Page(tmp_path / "v.html").data["sessions"]
    assert [it["name"] for it in session["runs"]] == ["recorded", "cwl"]
    assert session["runs"][1]["budget"] == 4_000
    assert max(session["runs"][1]["sizes"]) <= 4_000 < max(session["runs"][0]["sizes"])
    assert session["runs"][1]["changes"]
    assert " with Wane at 4,000 tokens, simulated: " in outcome.err
    assert run("view", chat, "--budget", "none", "--output", tmp_path / "v.html").code == 2


def test_page_and_terminal_say_that_a_budget_leaves_too_little_room(run: Run, tmp_path: Path) -> None:
    chat = chat_of(tmp_path, {"role": "system", "content": "Be good. " * 1_200})
    outcome = run("view", chat, "--budget", "4k", "--output", tmp_path / "v.html")
    assert "Budget 4,000; 2,70" in outcome.err
    (session,) = Page(tmp_path / "v.html").data["sessions"]
    assert " of it always stay (" in session["tight"]
    assert "; working with 5,10" in session["tight"]


def test_what_cannot_be_viewed_is_said(run: Run, tmp_path: Path) -> None:
    assert run("view", "nosuch", "--output", tmp_path / "v.html").code == 2
    empty = tmp_path / "empty.json"
    empty.write_text('[{"role": "user", "content": "hello?"}]')
    outcome = run("view", empty, "--output", tmp_path / "v.html")
    assert outcome.code == 2
    assert "no model was called" in outcome.err
    assert run("view", empty, "--output", tmp_path / "no" / "v.html").code == 2
    assert not (tmp_path / "v.html").exists()


# In a browser

SLIDE = (
    "(() => {{ const it = document.getElementById('slider'); it.value = {}; it.dispatchEvent(new Event('input')); }})()"
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as it:
        yield it


@pytest.fixture
def shown(browser: Browser, tale_comparison: Comparison, tmp_path: Path) -> Browser:
    write_report(tmp_path / "report.html", tale_comparison)
    browser.look(1280, 900)
    browser.open(tmp_path / "report.html", "#strategy=cwl&call=1")
    return browser


@needs_chromium
def test_the_scrubber_shows_what_was_visible_and_why_not(shown: Browser, page: Page) -> None:
    (session,) = page.data["sessions"]
    made = next(it for it in session["runs"] if it["name"] == "cwl")
    change = made["changes"][0]
    assert shown.run("document.querySelectorAll('.states button.st-just').length") == 0
    shown.run(SLIDE.format(change["call"] + 1))
    shown.settle()
    assert shown.run("document.getElementById('number').value") == str(change["call"] + 1)
    assert f"{made['sizes'][change['call']]:,} of 2,000 tokens" in shown.text(".status")
    gone = len(list(indexes(change["left"])))
    assert shown.text(".states .st-just b") == str(gone)
    shown.click(".row.st-just")
    why = shown.text(".why")
    assert why.startswith("Removed with ")
    assert why.endswith(f"as the view was {change['before']:,} of 2,000 tokens.")
    assert f"before call {change['call'] + 1}" in why


@needs_chromium
@pytest.mark.parametrize("width", [390, 1280])
def test_pieces_of_work_have_their_names_inside_the_picture(shown: Browser, width: int) -> None:
    shown.run("""
        const write = CanvasRenderingContext2D.prototype.fillText;
        window.written = [];
        CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
            written.push([text, x, x + this.measureText(text).width]);
            write.call(this, text, x, y);
        }; 0
    """)
    shown.look(800, 900)
    shown.settle()
    shown.run("written.length = 0")
    shown.look(width, 900)
    shown.settle()
    shown.settle()
    room = shown.run("document.querySelector('#episodes .bars').clientWidth")
    names = [text for text in shown.run("written") if text[0].startswith("\N{LEFT SINGLE QUOTATION MARK}")]
    assert names
    assert all(start >= 0 and end <= room for _, start, end in names)
    assert not [text for text, *_ in names if text.startswith(("reading-", "work-"), 1)]


@needs_chromium
def test_notices_are_told_and_what_holds_a_view_that_is_over_its_budget(browser: Browser, tmp_path: Path) -> None:
    told = Tale().system(50).notice(300, "the rules").user(1_900, "all of this")
    told.calls("r0", 20, "read").result("r0", 400).notice(70, "a reminder").says(10)
    strict = Policy(min_room=0.0)
    write_report(tmp_path / "report.html", comparison(told, names=("cwl",), policy=strict))
    page = Page(tmp_path / "report.html")
    assert page.data["sessions"][0]["kinds"] == "snucont"
    assert page.data["strategies"][1]["values"]["over"] == 2
    browser.look(1280, 900)
    browser.open(tmp_path / "report.html", "#strategy=cwl&call=1")
    assert browser.text(".kind-n") == "notice"
    held = "user turns 1,900, opening notices 300, system prompt and tools 150."
    assert browser.text(".status .over") == f"350 over the budget. It held: {held}"


@needs_chromium
def test_what_wane_managed_is_a_line_over_the_area_of_the_whole_history(
    run: Run, browser: Browser, tmp_path: Path
) -> None:
    for name, pages in (("managed", begin(tmp_path, HISTORY)), ("recorded", None)):
        file = tmp_path / f"{name}.html"
        if pages is None:
            write_view(file, [recorded_material()])
        else:
            run("view", pages, "--output", file)
        browser.look(1280, 900)
        browser.open(file)
        areas = browser.run("[...document.querySelectorAll('#views .plot svg path')].map(it => it.className.baseVal)")
        assert ("historyarea" in areas, "recordedarea" in areas) == (name == "managed", name == "recorded")
        stroke = browser.run("document.querySelector('#views [data-strategy=recorded].series').style.stroke")
        assert stroke == ("var(--s-cwl)" if name == "managed" else "var(--s-recorded)")


@needs_chromium
def test_a_persons_choices_are_told_as_theirs(run: Run, browser: Browser, tmp_path: Path) -> None:
    look = {"action": "start", "name": "look", "type": "expl"}
    marks = [{"id": "m1", "type": "function", "function": {"name": "delimiter", "arguments": json.dumps(look)}}]
    records = [
        *HISTORY[:2],
        MessageRecord(message={"role": "assistant", "content": None, "tool_calls": marks}),
        MessageRecord(message={"role": "tool", "tool_call_id": "m1", "content": "Started."}),
        ChoiceRecord(1, "keep"),
        *HISTORY[3:9],
        ChoiceRecord(1, "drop"),
        replace(HISTORY[9], items=9, trace=(Step("look", 1, Level.BULK, 900, 600, (5,)),)),
        *HISTORY[10:],
    ]
    file = tmp_path / "v.html"
    assert run("view", begin(tmp_path, records), "--output", file).code == 0
    browser.look(1280, 900)
    browser.open(file)
    page = Page(file).data["sessions"][0]
    assert page["choices"] == [[1, 1, "keep"], [3, 1, "drop"]]
    assert "go: this left before call 4." in browser.text(".item-detail")


@needs_chromium
@pytest.mark.parametrize("width", [390, 1280])
def test_the_budget_is_at_the_axis_and_in_the_legend_where_no_line_passes(shown: Browser, width: int) -> None:
    shown.look(width, 900)
    shown.settle()
    shown.settle()
    box = "document.querySelector('#views {}').getBoundingClientRect()"
    assert shown.run(f"{box.format('.budget text')}.right < {box.format('.budget line')}.left")
    others = "[...document.querySelectorAll('#views .grid text')].map(it => it.getBoundingClientRect())"
    own = shown.run(f"(it => [it.top, it.bottom])({box.format('.budget text')})")
    assert not shown.run(f"{others}.filter(it => it.top < {own[1]} - 2 && it.bottom > {own[0]} + 2).length")
    assert shown.text("#views .legend .entry") == "budget 2,000"


@needs_chromium
def test_a_line_above_the_budget_has_its_reason_beside_the_budget(browser: Browser, tmp_path: Path) -> None:
    studied = [tale().study_session()]
    simulated = simulate_sessions(studied, 400)
    assert simulated is not None
    raised = simulated[0].replay.totals.raised_to
    assert raised > 400
    write_view(tmp_path / "v.html", [studied[0].subject.material], simulated=simulated)
    browser.look(1280, 900)
    browser.open(tmp_path / "v.html")
    browser.settle()
    why = f"budget 400; Wane worked with up to {raised:,}, as what never leaves left too little room"
    assert browser.text("#views .legend .entry") == why


@needs_chromium
def test_it_can_be_used_from_the_keyboard(shown: Browser) -> None:
    shown.run("document.body.focus()")
    shown.press("ArrowRight")
    assert shown.run("document.getElementById('number').value") == "2"
    shown.run("document.getElementById('slider').focus()")
    shown.press("End")
    last = shown.run("document.getElementById('slider').max")
    assert shown.run("document.getElementById('number').value") == last
    shown.run("document.querySelector('.list').focus()")
    shown.press("ArrowDown")
    assert shown.run("document.querySelectorAll('.row.chosen').length") == 1
    shown.run("document.querySelector('.bars').focus()")
    shown.press("ArrowDown")
    assert "reading" in shown.text("#episodes .detail")
    shown.run("document.querySelector('#views .plot').focus()")
    shown.press("Home")
    assert shown.text("#views .tiphead") == "Call 1"


@needs_chromium
def test_a_view_says_what_it_comes_to_and_saves_its_picture(browser: Browser, tmp_path: Path) -> None:
    studied = tale(12).study_session(overhead=100)
    settings = StrategySettings(budget=2_000, annotate=studied.annotate)
    replay, baseline = (Job(0, name, settings, AUTOMATIC, trace=True).run(studied.subject) for name in ("cwl", "none"))
    simulation = Simulated(replay, baseline, AUTOMATIC, "There is little room.")
    write_view(tmp_path / "v.html", [studied.subject.material], simulated=[simulation])
    browser.errors.clear()
    browser.look(1280, 900)
    browser.open(tmp_path / "v.html")
    tiles = [browser.text(f"#tile-{number}") for number in range(3)]
    assert "23.6% less" in tiles[0]
    assert "100%" in tiles[1]
    assert "kept by Wane" in tiles[2]
    assert browser.text("main > .note") == "There is little room."
    # On a phone the plot stands on the first screen, as far as its time axis; what is remarked comes below.
    browser.look(390, 844, mobile=True)
    browser.settle()
    bottom = "document.querySelector('#views .plot').getBoundingClientRect().bottom"
    assert browser.run(bottom) <= 844
    assert browser.run(f"document.querySelector('main > .note').getBoundingClientRect().top >= {bottom}")
    browser.look(1280, 900)
    browser.settle()
    browser.click("#tile-0 .how")
    assert "if nothing is evicted, simulated" in browser.text("#tile-0-how")
    assert browser.run("[...document.querySelectorAll('#views .legend button')].map(it => it.textContent)") == [
        "as recorded",
        "with Wane",
    ]
    assert browser.run("document.querySelectorAll('#views path.series').length") == 2
    assert browser.text(".item-detail h3"), "something is chosen from the start"
    browser.run("HTMLAnchorElement.prototype.click = function () { window.saved = [this.download, this.href]; }")
    browser.click("[data-save=svg]")
    name, address = browser.run("window.saved")
    assert name == "tale-window.svg"
    picture = unquote(address.removeprefix("data:image/svg+xml;charset=utf-8,"))
    assert "var(" not in picture, "no style sheet is needed"
    lines = [node for node in ElementTree.fromstring(picture).iter() if node.get("d") and node.get("fill") == "none"]
    assert len({line.get("stroke") for line in lines}) >= 2
    browser.click("[data-save=png]")
    saved = browser.run(
        "new Promise(done => {"
        " const wait = () => (saved[0].endsWith('png') ? done(saved) : setTimeout(wait, 20)); wait(); })"
    )
    assert saved[0] == "tale-window.png"
    assert b64decode(saved[1].removeprefix("data:image/png;base64,")).startswith(b"\x89PNG")
    assert not browser.errors


@needs_chromium
def test_a_sweep_draws_what_it_calls_cheapest_and_says_that_its_table_scrolls(browser: Browser, tmp_path: Path) -> None:
    names = ("none", "truncate", "compact", "clear-tools", "fold", "cwl")
    swept = sweep([tale().study_session()], names, (1_000, 1_500, 3_000), StrategySettings(), InProcess())
    write_sweep_report(tmp_path / "s.html", swept)
    browser.look(1280, 900)
    browser.open(tmp_path / "s.html")
    pressed = (
        "[...document.querySelectorAll('#sweep .legend button[aria-pressed=true]')].map(it => it.dataset.strategy)"
    )
    drawn = set(browser.run(pressed))
    assert {point.strategy for point in swept.frontier} <= drawn < set(names)
    for width in range(390, 1_281, 45):
        browser.look(width, 900)
        browser.settle()
        boxes = "[...document.querySelectorAll('.pointlabel')].map(it => it.getBoundingClientRect())"
        sides = sorted(browser.run(f"{boxes}.map(it => [Math.round(it.top), it.left, it.right])"))
        gaps = [other[1] - one[2] for one, other in pairwise(sides) if one[0] == other[0]]
        assert all(gap > 4 for gap in gaps), f"at {width} labels read as one"
    assert browser.text("#points .scrolls") == "16 rows: scroll in the table for all of them."
    box = "document.querySelector('#points .tall')"
    assert browser.run(f"{box}.scrollHeight > {box}.clientHeight")


@needs_chromium
def test_the_frontier_is_a_staircase(browser: Browser, tmp_path: Path) -> None:
    # What was read first is needed last, so that a larger budget recalls more.
    told = Tale("far").system(50).user(100, "Make it work.")
    for number in range(12):
        told.calls(f"r{number}", 20, "read", path=f"m{number}.py").result(f"r{number}", 400, f"value_of_{number} = 1")
    # Much work in between makes a large view dear, even with what is fetched again.
    for number in range(40):
        told.calls(f"w{number}", 20, "bash", command="make").result(f"w{number}", 30, "done")
    for number in range(4):
        new = f"value_of_{number} = 2"
        told.calls(f"e{number}", 30, "edit", path=f"m{number}.py", new=new).result(f"e{number}", 10, "edited")
    names = ("none", "truncate", "compact", "cwl")
    swept = sweep([told.study_session()], names, (1_000, 1_500, 3_000), StrategySettings(), InProcess())
    write_sweep_report(tmp_path / "s.html", swept)
    browser.look(1280, 900)
    browser.open(tmp_path / "s.html")
    drawn = browser.run("document.querySelector('path.frontier').getAttribute('d')")
    across = [float(value) for value in re.findall(r"[MH]([\d.]+)", drawn)]
    up = [float(value) for value in re.findall(r"[V ]([\d.]+)", drawn)]
    assert len(across) > 1
    assert across == sorted(across)
    assert up == sorted(up, reverse=True)


@needs_chromium
def test_strategies_are_switched_by_the_legend(shown: Browser) -> None:
    lines = "document.querySelectorAll('#views path.series').length"
    before = shown.run(lines)
    shown.click("#views .legend [data-strategy=none]")
    assert shown.run(lines) == before - 1
    assert (
        shown.run("document.querySelector('#views .legend [data-strategy=none]').getAttribute('aria-pressed')")
        == "false"
    )


@needs_chromium
def test_a_comparison_is_drawn_by_total_cost_and_its_table_shows_all_on_demand(shown: Browser, page: Page) -> None:
    dots = "[...document.querySelectorAll('#plot .dotmark')].map(it => it.getAttribute('aria-label'))"
    rows = [row for row in page.data["strategies"] if row["values"]["recall"] is not None and "recall_at_best" in row]
    labels = shown.run(dots)
    assert len(labels) == len(rows) > 5
    wane = next(row for row in rows if row["name"] == "cwl")["values"]
    assert any(it.startswith("Wane: ") and f"${wane['total_usd']:,.2f}" in it for it in labels), labels
    heads = "[...document.querySelectorAll('#strategies thead th')].filter(it => it.offsetWidth > 0).length"
    few = shown.run(heads)
    assert few <= 6
    shown.click("#strategies [data-value=all]")
    assert shown.run(heads) > few


@needs_chromium
def test_the_theme_can_be_chosen(shown: Browser) -> None:
    colour = "getComputedStyle(document.body).backgroundColor"
    light = shown.run(colour)
    shown.click("#theme")
    shown.click("#theme")
    assert shown.text("#theme") == "Theme: dark"
    assert shown.run(colour) != light
    shown.run("localStorage.clear()")


@needs_chromium
@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("kind", ["comparison", "view", "sweep"])
def test_no_page_scrolls_sideways_or_complains(browser: Browser, tmp_path: Path, kind: str, width: int) -> None:
    file = tmp_path / "p.html"
    if kind == "comparison":
        write_report(file, comparison(tale(30, HOSTILE), tale(3, name="other")))
    elif kind == "view":
        write_view(file, [recorded_material()])
    else:
        write_sweep_report(
            file, sweep([tale().study_session()], STRATEGY_NAMES, (1_500, 3_000), StrategySettings(), InProcess())
        )
    browser.errors.clear()
    browser.requested.clear()
    browser.look(width, 844, dark=True, mobile=width < 500)
    browser.open(file)
    assert browser.run("document.documentElement.scrollWidth") <= width
    assert browser.run("document.querySelectorAll('h2').length") >= 2
    assert browser.run("window.hurt === undefined")
    assert not browser.errors
    assert {address.partition(":")[0] for address in browser.requested} <= {"file", "about", "data"}


@needs_chromium
def test_hostile_contents_are_shown_and_do_nothing(browser: Browser, tmp_path: Path) -> None:
    told = (
        Tale(HOSTILE).user(10, HOSTILE).calls("c1", 5, HOSTILE, path=HOSTILE).result("c1", 9, HOSTILE).says(3, HOSTILE)
    )
    told.session.title = HOSTILE
    told.session.parts.append(Part(Kind.USER, HOSTILE))
    told.session.messages.append(99)
    told.tokens.append(3)
    write_view(tmp_path / "v.html", [told.material()])
    browser.errors.clear()
    browser.look(1280, 900)
    browser.open(tmp_path / "v.html")
    browser.click(".row.item")
    assert browser.text("pre").startswith("</script><script>window.hurt=1")
    assert browser.run("document.querySelectorAll('main img, main script').length") == 0
    assert browser.run("window.hurt === undefined")
    assert not browser.errors
