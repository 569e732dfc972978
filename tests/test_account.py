"""The account of model calls: what counts, and what it says when something is not known."""

from __future__ import annotations

import pytest

from wane.account import Account
from wane.journal import NoteRecord, Record, UsageRecord
from wane.journal.records import FORK_NOTE, SPENT_NOTE
from wane.prices import TokenUsage

USAGE = TokenUsage(10, 2, 4, 1)


def call(cost: float | None = 0.5) -> UsageRecord:
    return UsageRecord(
        items=1, input_tokens=10, output_tokens=2, cache_read_tokens=4, cache_write_tokens=1, cost=cost, model="a:b"
    )


def test_every_call_counts_once_and_those_for_summaries_too() -> None:
    summary = {"input_tokens": 100, "output_tokens": 20, "cost": 0.25, "model": "a:b"}
    records: list[Record] = [call(), NoteRecord(SPENT_NOTE, summary), call()]
    account = Account.of(records)
    assert account == Account(3, 3, 0, 120, 24, 8, 2, 1.25)
    assert account.cost == 1.25
    assert account.describe() == account.brief == "$1.25"


def test_the_calls_of_the_session_that_it_branches_off_from_count_there() -> None:
    assert Account.of([call(), call(), NoteRecord(FORK_NOTE, {}), call()]).calls == 1


def test_what_is_not_known_makes_the_cost_a_bound() -> None:
    account = Account.of([call(), call(None), call()])
    assert account.cost is None
    assert (account.describe(), account.brief) == ("at least $1.00 (2 of 3 calls)", "≥$1.00")
    assert account.input_tokens == 30
    unreported = Account().plus(USAGE, 0.5).plus(None, None)
    assert unreported.describe() == "at least $0.50 (1 of 2 calls)"
    nothing = Account.of([call(None)])
    assert (nothing.describe(), nothing.brief) == ("cost unknown", "cost unknown")
    assert nothing.to_dict()["cost_usd"] is None


def test_accounts_add_up_and_leave_differences() -> None:
    one, two = Account.of([call()]), Account.of([call(), call(None)])
    assert one + two == Account.of([call(), call(), call(None)])
    assert (one + two).minus(one) == two


def test_as_data_a_bound_is_never_the_cost() -> None:
    data = Account.of([call(), call(None)]).to_dict()
    assert (data["cost_usd"], data["cost_at_least_usd"], data["priced_calls"]) == (None, pytest.approx(0.5), 1)
    whole = Account.of([call()]).to_dict()
    assert whole["cost_usd"] == whole["cost_at_least_usd"] == pytest.approx(0.5)
    assert Account().to_dict()["cost_usd"] == 0


def test_whose_prices_stand_in_is_in_words_and_data() -> None:
    usage = TokenUsage(100, 10)
    account = Account().plus(usage, 0.25, assumed="openai:gpt-5.2")
    assert account.describe() == "$0.25 at the prices of openai:gpt-5.2"
    account = account.plus(usage, 0.25).plus(usage, None, at_least=0.1)
    assert account.describe("spent") == (
        "at least $0.60 spent, 1 of its calls at the prices of openai:gpt-5.2 (2 of 3 calls)"
    )
    assert account.to_dict()["assumed_prices"] == {"openai:gpt-5.2": 1}
    assert Account().plus(usage, None, at_least=0.1).describe() == "at least $0.10"


def test_output_that_was_not_reported_is_beside_the_bound_and_no_part_of_it() -> None:
    account = Account().plus(USAGE, 0.5, guessed=0.2).plus(USAGE, 0.25)
    assert (account.cost, account.at_least, account.guessed, account.estimated) == (None, 0.75, 0.2, 1)
    assert (account.describe(), account.brief) == ("at least $0.75 (without the output of 1 call)", "≥$0.75")
    assert account.to_dict()["cost_usd"] is None
