"""The money spent, and what open requests may still cost: small documents in a store, shared by all its processes.

Amounts are whole micro-dollars. A store replaces a document only if it is still the one that was read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Final, Self

from wane.proxy.settings import CostPeriod
from wane.proxy.store.stores import StoreError

LEDGER: Final = "ledger"
"""Kind of these documents: one with an empty name for everyone, and one for each member of a team."""

LAPSE: Final = timedelta(hours=1)
"""After this time the most that an open request could cost counts as spent: its process has probably died."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """An open request."""

    amount: int
    at: datetime


@dataclass(frozen=True, slots=True)
class Ledger:
    """The spend of a store: in all, in the month and on the day of its last change, and its open requests by id."""

    total: int = 0
    month: int = 0
    day: int = 0
    at: datetime = datetime(1, 1, 1, tzinfo=UTC)
    open: Mapping[str, Reservation] = field(default_factory=dict)

    def sum_spending(self, period: CostPeriod) -> int:
        """Return what was spent in a period, up to `at`."""
        if period == "day":
            return self.day
        return self.month if period == "month" else self.total

    @property
    def reserved(self) -> int:
        """The most that the open requests may cost."""
        return sum(reservation.amount for reservation in self.open.values())

    def on(self, now: datetime) -> Self:
        """Return the ledger at a later time: a new day or month starts at 0, and lapsed reservations are spent."""
        ledger = self
        if now > self.at:
            month = self.month if _is_same_month(now, self.at) else 0
            day = self.day if _is_same_day(now, self.at) else 0
            ledger = replace(self, at=now, month=month, day=day)
        for name, reservation in self.open.items():
            if now - reservation.at > LAPSE:
                ledger = ledger.settle_cost(name, reservation.amount)
        return ledger

    def with_reservation(self, name: str, amount: int) -> Self:
        """Return the ledger with another open request."""
        return replace(self, open={**self.open, name: Reservation(amount, self.at)})

    def settle_cost(self, name: str, cost: int) -> Self:
        """Return the ledger with the cost of an open request, which counts for the day on which it began."""
        if name not in self.open:
            return self
        still_open = dict(self.open)
        began = still_open.pop(name).at
        month = self.month + cost if _is_same_month(began, self.at) else self.month
        day = self.day + cost if _is_same_day(began, self.at) else self.day
        return replace(self, open=still_open, total=self.total + cost, month=month, day=day)

    @classmethod
    def read(cls, document: str | None) -> Self:
        """Return the ledger in a document, or an empty one for None.

        Raises:
            StoreError: if `write` did not make the document.
        """
        if document is None:
            return cls()
        try:
            data = json.loads(document)
            requests = {name: Reservation(row[0], _time(row[1])) for name, row in data["open"].items()}
            return cls(data["total"], data["month"], data["day"], _time(data["at"]), requests)
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise StoreError(f"the record of the spend cannot be read: {error!r}") from error

    def write(self) -> str:
        """Return the ledger as a document."""
        requests = {name: [request.amount, request.at.isoformat()] for name, request in self.open.items()}
        data = {"total": self.total, "month": self.month, "day": self.day, "at": self.at.isoformat(), "open": requests}
        return json.dumps(data, separators=(",", ":"))


def _is_same_month(one: datetime, other: datetime) -> bool:
    return (one.year, one.month) == (other.year, other.month)


def _is_same_day(one: datetime, other: datetime) -> bool:
    return one.date() == other.date()


def _time(text: str) -> datetime:
    time = datetime.fromisoformat(text)
    if time.tzinfo is None:
        raise ValueError(f"{text} has no time zone")
    return time
