"""What was spent in a day, in a month and in all, and what open requests may still cost."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from wane.proxy.store.ledger import LAPSE, Ledger
from wane.proxy.store.stores import StoreError

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


def test_days_and_months_begin_anew_and_the_total_stays() -> None:
    ledger = Ledger().on(NOON).with_reservation("a", 50).settle_cost("a", 30)
    assert (ledger.sum_spending("day"), ledger.sum_spending("month"), ledger.sum_spending("total")) == (30, 30, 30)
    assert ledger.on(NOON + timedelta(hours=11, minutes=59)).sum_spending("day") == 30
    following = ledger.on(NOON + timedelta(hours=12))
    assert (following.sum_spending("day"), following.sum_spending("month"), following.sum_spending("total")) == (
        0,
        0,
        30,
    )
    # A clock that is behind opens no old day.
    assert following.on(NOON) == following


def test_a_request_counts_for_the_day_on_which_it_began() -> None:
    late = datetime(2026, 11, 28, 23, 59, tzinfo=UTC)
    ledger = Ledger().on(late).with_reservation("a", 50).on(late + timedelta(minutes=2))
    assert (ledger.sum_spending("day"), ledger.reserved) == (0, 50)
    ledger = ledger.settle_cost("a", 40)
    assert (
        ledger.sum_spending("day"),
        ledger.sum_spending("month"),
        ledger.sum_spending("total"),
        ledger.reserved,
    ) == (0, 40, 40, 0)


def test_an_open_request_of_a_process_that_died_counts_as_spent() -> None:
    ledger = Ledger().on(NOON).with_reservation("a", 50)
    assert ledger.on(NOON + LAPSE).reserved == 50
    lapsed = ledger.on(NOON + LAPSE + timedelta(seconds=1))
    assert (lapsed.reserved, lapsed.total) == (0, 50)
    # Whoever settles it later changes nothing.
    assert lapsed.settle_cost("a", 10) == lapsed


def test_a_ledger_is_read_as_it_was_written() -> None:
    ledger = Ledger().on(NOON).with_reservation("a", 50).with_reservation("b", 7).settle_cost("b", 3)
    assert Ledger.read(ledger.write()) == ledger
    assert Ledger.read(None) == Ledger()
    for document in ("", "[]", "{}", ledger.write().replace("+00:00", "")):
        with pytest.raises(StoreError, match="the record of the spend cannot be read"):
            Ledger.read(document)
