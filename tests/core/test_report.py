"""What a report says in sentences: what went, in which order and why, and what stays if that is too much."""

from __future__ import annotations

from tests.core.test_window import episode, make_window
from wane import ContextWindow, FitReport, Item, Kind, Policy

PAPER = Policy.paper()
BATCHES = Policy(low_water=0.5, guard=0.0, index_share=0.0)


def fit_window(budget: int, policy: Policy = PAPER, *, cold: bool = False) -> FitReport:
    return make_window(budget, policy).fit(cold=cold)


def test_a_pass_that_was_not_due() -> None:
    report = fit_window(10_000)
    assert report.explain() == "Nothing had to go: the view holds 3,104 tokens, within the budget of 10,000."
    assert report.shortfall == ""


def test_the_smallest_steps() -> None:
    assert fit_window(3_000).explain() == (
        "The view held 3,104 tokens, 104 over the budget of 3,000. A pass evicted 1,005 of them, no more than it had "
        "to: 2,099 stay. It stripped 1 episode, fix. "
        "Tokens that went: 1,005 of reads, commands, other calls and notices."
    )


def test_a_pass_down_to_low_water() -> None:
    assert fit_window(2_000, BATCHES).explain() == (
        "The view held 3,104 tokens, 1,104 over the budget of 2,000. A pass evicts down to low water (1,000), "
        "so that passes are rare. This one evicted 3,060 of them: 44 stay. It stripped 2 episodes, the longest unused "
        "first, from fix to look, and removed 1 of them. Tokens that went: 1,005 of searches and listings, 2,010 of "
        "reads, commands, other calls and notices, 45 of other content of removed episodes."
    )


def test_a_pass_that_stops_above_low_water() -> None:
    told = fit_window(3_000, Policy(low_water=0.4, guard=0.7)).explain()
    assert (
        "so that passes are rare. This one evicted 1,005 of them: 2,099 stay, because the rest is protected or is the "
        "newest work" in told
    )


def test_an_early_pass() -> None:
    told = fit_window(5_000, BATCHES, cold=True).explain()
    assert told.startswith(
        "The view held 3,104 tokens, within the budget of 5,000, but the provider's cache was cold, so that a changed "
        "prefix cost nothing. A pass evicts down to low water (2,500)"
    )


def test_a_budget_that_cannot_be_met_says_what_holds_the_tokens_the_largest_first() -> None:
    window = make_window(2_000)
    window.extend([Item(Kind.USER, 2_500), Item(Kind.TEXT, 90)])
    window.overhead = 11
    report = window.fit()
    assert not report.satisfied
    assert report.shortfall.startswith(f"{report.tokens_after:,} tokens stay, ")
    assert "nothing more may be evicted: user turns 2,503, not yet settled 90, " in report.shortfall
    assert "system prompt and tools 18" in report.shortfall
    assert (
        " of them. It stripped 3 episodes, work before reading, the oldest first, from fix to "
        "unmarked work 2, and removed 3 of them. " in report.explain()
    )
    assert report.explain().endswith(report.shortfall)


def test_a_pass_that_finds_nothing() -> None:
    window = make_window(2_000)
    window.add(Item(Kind.USER, 2_500))
    window.fit()
    told = window.fit().explain()
    assert " over the budget of 2,000. A pass found nothing to evict. 2,5" in told


def test_a_pass_that_has_to_take_of_what_is_not_finished() -> None:
    window = ContextWindow(2_000, Policy(low_water=0.5, index_share=0.0))
    window.add(Item(Kind.USER, 3))
    window.extend(episode("never-ends", [("read", 900), ("read", 900), ("read", 900)])[:-2])
    window.add(Item(Kind.TEXT, 4))
    report = window.fit()
    assert report.satisfied
    assert report.overflowed
    assert report.explain().endswith(
        "It stripped 1 episode, never-ends. That was not enough, so it took the oldest calls and texts of unfinished "
        "work, or of what it needs. Tokens that went: 1,810 of the oldest calls and texts of unfinished work."
    )
