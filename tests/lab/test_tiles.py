"""The three figures of a viewed session: the same as those of its headline, and each with its account."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.lab.tales import AUTOMATIC, Tale, working
from tests.lab.test_headline import beside, simulate_session, with_usage
from wane.lab.recorded_session import CallUsage, Compaction, RecordedEviction
from wane.lab.replaying.studying import Studied
from wane.lab.replaying.verdict import Baselines
from wane.lab.report.tiles import UNKNOWN, tiles_of
from wane.money import dollars, share


@pytest.fixture
def studied() -> Studied:
    return working(40, 100).study_session()


def test_a_simulated_session_has_its_cost_its_share_in_view_and_the_users_messages(studied: Studied) -> None:
    other = simulate_session(studied, 1_500)
    totals, before = other.replay.totals, other.baseline.totals.dollars
    cost, in_view, messages = tiles_of(studied.subject.material, other)
    assert cost.value == f"{dollars(before)} → {dollars(totals.full_cost)}"
    assert cost.then == f"{share(1 - totals.full_cost / before)} less"
    assert ("with Wane, simulated, with fetching again", dollars(totals.full_cost), False) in cost.lines
    assert in_view.value == share(totals.loss.reference_recall)
    assert in_view.then == f"{totals.loss.in_view:,} of {totals.loss.uses:,} times"
    assert (messages.value, messages.beside) == (str(totals.loss.user_turns), f"of {totals.loss.user_turns}")


def test_a_session_that_fits_costs_the_same(studied: Studied) -> None:
    known = with_usage(studied.subject.material, CallUsage(1_000, 10, 0, 0))
    other = beside(simulate_session(studied, 1_000_000), known)
    cost, in_view, _ = tiles_of(known, other)
    spent = Baselines.of(known, AUTOMATIC, other.baseline).recorded.account.at_least
    assert (cost.value, cost.then) == (dollars(spent), "the same with Wane")
    assert (in_view.value, in_view.bound) == ("100%", "All of it was there.")


def test_without_a_price_the_cost_is_not_known(studied: Studied) -> None:
    assert tiles_of(studied.subject.material, simulate_session(studied, 1_000_000))[0].value == UNKNOWN


def test_what_a_compaction_took_is_said_beside_what_wane_keeps(studied: Studied) -> None:
    material = studied.subject.material
    last = material.session.calls[-1].first
    compacted = replace(material.session, compactions=[Compaction(last - 1, "so far", last - 1)])
    changed = replace(material, session=compacted)
    messages = tiles_of(changed, simulate_session(studied, 1_500))[2]
    assert messages.bound == "As recorded, the last call held 0; a summary had replaced them."
    assert messages.then == "kept by Wane"


def test_a_silent_session_has_no_messages_and_needs_none() -> None:
    silent = Tale().system(20).calls("a", 10).result("a", 3_000).says(5).calls("b", 9).result("b", 3_000).says(5)
    messages = tiles_of(silent.study_session().subject.material, simulate_session(silent.study_session(), 3_500))[2]
    assert (messages.value, messages.then) == ("0", "none to keep")


def test_the_figures_of_a_managed_session_add_up(studied: Studied) -> None:
    known = with_usage(studied.subject.material, CallUsage(10, 500, 0, 5))
    known.session.evictions.append(RecordedEviction(20, (4, 5), 1_500, 900))
    cost = tiles_of(known, simulate_session(studied, 1_500, "none"))[0]
    spent, marks, saved, without = (float(it[1].removeprefix("$").replace(",", "")) for it in cost.lines)
    assert saved > 0 == marks
    assert without == pytest.approx(spent - marks + saved)
    assert cost.value == f"{cost.lines[3][1]} → {cost.lines[0][1]}"
    assert cost.bound.endswith("Wane set something aside once.")
