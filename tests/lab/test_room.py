"""Sessions whose budget leaves too little room: which these are, and what replays say of the advised budget."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from tests.lab.readers.promises import SESSIONS, needs_sessions
from tests.lab.tales import AUTOMATIC, Tale, working
from tests.lab.test_headline import simulate_session
from wane.cli.lab.tune import reasons
from wane.core import Policy, Room
from wane.lab.readers import gather
from wane.lab.replaying.compare import compare
from wane.lab.replaying.jobs import InProcess, Job
from wane.lab.replaying.over import ROOM
from wane.lab.replaying.strategy_replay import Pricing
from wane.lab.replaying.studying import Studied, study
from wane.lab.replaying.tight_sessions import room_of, tight_lines, tight_sessions
from wane.lab.report import write_report
from wane.lab.report.headline import headline_of
from wane.lab.tuning import tune
from wane.strategies.strategy import StrategySettings

STRICT = Policy(min_room=0.0)
OVERHEAD = 950
BUDGET = 1_500


def heavy(name: str = "heavy", turns: int = 60) -> Studied:
    """A session whose tools hold more than half of BUDGET."""
    studied = working(turns, 100, name).study_session()
    material = replace(studied.subject.material, overhead=OVERHEAD)
    return replace(studied, subject=replace(studied.subject, material=material))


def with_window(studied: Studied, window: int) -> Studied:
    session = replace(studied.recording.session, window=window)
    material = replace(studied.subject.material, session=session)
    return replace(studied, subject=replace(studied.subject, material=material))


def test_a_session_that_fits_into_the_budget_has_room_enough() -> None:
    material = Tale().system(60).user(10).says(5).material()
    assert room_of(material, StrategySettings(100, policy=STRICT)) is None
    assert room_of(material, StrategySettings(69, policy=STRICT)) == Room(69, system=60, user=10)


def test_all_strategies_are_judged_by_the_budget_that_was_set_and_it_is_said_which_one_was_held_to_more(
    tmp_path: Path,
) -> None:
    """Beside strategies held to 1,500 tokens, one that works with more is over these, and nothing is best."""
    studied = [heavy()]
    done = compare(studied, ["cwl", "truncate"], StrategySettings(BUDGET), InProcess(), trace=True)
    ours, truncated = done.totals("cwl"), done.totals("truncate")
    assert ours.raised_to > BUDGET == truncated.budget_used
    assert (truncated.raised, ours.over_used) == (0, 0)
    (replay,) = done.replays["cwl"]
    assert ours.over == {ROOM: sum(call.tokens > BUDGET for call in replay.calls)}
    assert ours.over[ROOM] > 0
    data = ours.to_dict()
    assert (data["over"], data["over_used"], data["budget_used"]) == (ours.over[ROOM], 0, ours.raised_to)
    up_to = f"Wane at 1,500 tokens (up to {ours.raised_to:,} where that leaves too little room)"
    assert up_to in done.verdict()
    assert up_to in headline_of(studied[0].subject.material, simulate_session(studied[0], BUDGET)).text
    page = tmp_path / "page.html"
    write_report(page, done)
    data = json.loads(page.read_text().partition('id="data">')[2].partition("</script>")[0])
    assert not any(row.get("best") for row in data["strategies"])
    assert {row["name"]: row.get("raised_to") for row in data["strategies"]}["cwl"] == ours.raised_to
    strict = compare(studied, ["cwl", "truncate"], StrategySettings(BUDGET, policy=STRICT), InProcess())
    assert (strict.totals("cwl").raised, strict.totals("cwl").budget_used) == (0, BUDGET)


def test_what_came_after_the_last_call_does_not_count() -> None:
    material = Tale().user(10).says(5).user(50).material()
    assert room_of(material, StrategySettings(9, policy=STRICT)) == Room(9, system=0, user=10)


def test_it_is_replayed_at_both_budgets() -> None:
    studied = heavy()
    (tight,) = tight_sessions(
        [working(3).study_session(), studied], StrategySettings(BUDGET, policy=STRICT), InProcess()
    )
    assert tight.name == "heavy"
    assert tight.room.tight
    assert tight.room.advised > BUDGET
    for totals, budget in ((tight.totals, BUDGET), (tight.advised, tight.room.advised)):
        settings = StrategySettings(budget, policy=STRICT, annotate=studied.annotate)
        alone = Job(0, "cwl", settings, AUTOMATIC).run(studied.subject).totals
        assert totals is not None
        assert replace(totals, seconds=0) == replace(alone, seconds=0)
    assert str(tight).startswith(tight.room.warning)
    assert f" Replayed at {tight.room.advised:,} tokens, " in str(tight)


def test_a_budget_beyond_the_models_window_is_not_replayed() -> None:
    (tight,) = tight_sessions([with_window(heavy(), 2_000)], StrategySettings(BUDGET, policy=STRICT), InProcess())
    assert tight.totals is tight.advised is None
    assert str(tight).endswith("but the model's window holds 2,000: load fewer tools.")


def test_several_sessions_are_named_the_tightest_first() -> None:
    every = [heavy(f"heavy-{number}", turns) for number, turns in enumerate([40, 42, 44, 46, 48, 50])]
    assert tight_lines([], 7) == []
    tight = tight_sessions(every, StrategySettings(BUDGET, policy=STRICT))
    lines = tight_lines(tight, 7)
    assert lines[0] == "6 of 7 sessions have too little room for the work:"
    assert lines[1].startswith("  heavy-5: The budget of 1,500 tokens leaves too little room: ")
    assert lines[-1] == "  and 1 more; --json names all of them"
    assert tight_lines(tight[:1], 7)[0] == "1 of 7 sessions has too little room for the work:"
    assert tight_lines(tight[:1], 1) == [tight[0].room.warning]


def test_a_session_is_named_by_its_title_and_two_of_one_title_by_their_names_too() -> None:
    tight = tight_sessions([heavy("first", 42), heavy("second", 40)], StrategySettings(BUDGET, policy=STRICT))
    titled = [replace(session, title="Mend the parser") for session in tight]
    lines = tight_lines(titled, 2)
    assert lines[1].startswith('  "Mend the parser" (first): The budget of 1,500 tokens')
    assert lines[2].startswith('  "Mend the parser" (second): The budget')
    assert tight_lines([replace(tight[0], title="Mend " + "x" * 80)], 2)[1].startswith(
        '  "Mend ' + "x" * 54 + '…": The '
    )


def test_a_comparison_tells_it_of_cwl() -> None:
    done = compare([heavy()], ["cwl"], StrategySettings(BUDGET, policy=STRICT), InProcess())
    (told,) = done.to_dict()["tight"]
    assert told["tight"]
    assert told["at_advised"]["recall"] >= told["at_budget"]["recall"]
    assert compare([heavy()], ["truncate"], StrategySettings(BUDGET, policy=STRICT), InProcess()).tight == ()
    assert compare([heavy()], ["cwl"], StrategySettings(5_000), InProcess()).to_dict()["tight"] == []


@pytest.mark.full
def test_a_tuning_tells_with_which_budget_the_recommended_one_works() -> None:
    done = tune([heavy()], StrategySettings(), InProcess(), [BUDGET])
    (told,) = done.to_dict()["tight"]
    assert (told["budget"], told["tight"], told["at_budget"]) == (BUDGET, False, None)
    assert BUDGET < done.chosen.totals.peak <= told["used"]
    assert not done.chosen.totals.over_used
    assert f"working with {told['used']:,}" in " ".join(reasons(done))


@pytest.mark.full
def test_a_tuning_tells_it_of_the_recommended_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wane.lab.tuning.Policy", partial(Policy, min_room=0.0))
    done = tune([heavy()], StrategySettings(), InProcess(), [BUDGET])
    (told,) = done.to_dict()["tight"]
    assert told["budget"] == BUDGET
    figures = {"cost_usd", "recall", "passes"}
    chosen = done.chosen.totals.to_dict()
    assert {key: told["at_budget"][key] for key in figures} == {key: chosen[key] for key in figures}


def test_a_headline_ends_with_it() -> None:
    studied = heavy()
    other = simulate_session(studied, BUDGET)
    detail = headline_of(studied.subject.material, other).detail
    told = headline_of(studied.subject.material, replace(other, tight="Little room.")).detail
    assert told == f"{detail} Little room."


def test_the_page_of_a_comparison_tells_it_without_names_if_these_are_private(tmp_path: Path) -> None:
    done = compare(
        [heavy("secret"), heavy("hidden", 40)],
        ["cwl"],
        StrategySettings(BUDGET, policy=STRICT),
        InProcess(),
        trace=True,
    )
    for contents in (True, False):
        write_report(tmp_path / "page.html", done, contents=contents)
        page = (tmp_path / "page.html").read_text()
        assert "2 of 2 sessions have too little room for the work:" in page
        assert ("secret" in page) is contents


@needs_sessions
@pytest.mark.wide
def test_on_real_sessions_it_tells_those_that_keep_less_than_compaction() -> None:
    folders = [SESSIONS / name for name in ("claude-code", "codex", "pi", "copilot-cli")]
    studied = study(gather(folders).recordings, Pricing.of("anthropic:claude-sonnet-4-5"))
    # By what is kept: an index says more of what has left than a summary without names does.
    done = compare(studied, ["cwl", "compact"], StrategySettings(policy=Policy(index_share=0)), InProcess())
    tight = {it.name for it in done.tight}
    assert len(tight) == 4
    for ours, theirs in zip(done.replays["cwl"], done.replays["compact"], strict=True):
        behind = theirs.totals.loss.reference_recall - ours.totals.loss.reference_recall
        assert behind > 0.005 if ours.session in tight else behind < 0.003
    for it in done.tight:
        assert it.totals is not None
        assert it.advised is not None
        assert it.advised.loss.reference_recall > it.totals.loss.reference_recall + 0.03
