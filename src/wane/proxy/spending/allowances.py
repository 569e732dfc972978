"""The cost of requests, and its limits: reserved in the store before a request is sent, and settled after its reply."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from wane.money import dollars
from wane.prices import bill_of
from wane.proxy.head import Headers, RefusedError
from wane.proxy.http.upstream import streams_in
from wane.proxy.settings import COST_PERIODS, CostPeriod
from wane.proxy.spending.reservations import most
from wane.proxy.store.ledger import LEDGER, Ledger
from wane.proxy.store.stores import MemoryStore, Store, StoreError, finish_work
from wane.proxy.wire.wire import Body, ClientReply, Round, Wire

_LOGGER: Final = logging.getLogger("wane.proxy")
_MILLION: Final = 1_000_000


class Payment:
    """The cost of one request to the provider.

    Attributes:
        cost: micro-dollars: the most that the request can cost, until the provider reports its usage.
    """

    def __init__(self, model: str, amount: int, address: str) -> None:
        self.cost = amount
        self._model, self._address = model, address

    def take_cost(self, round_: Round | None) -> None:
        """Take the cost from the provider's answer, if that can be read and reports a usage with input."""
        if round_ is None or round_.usage is None or round_.usage.input <= 0:
            return
        round_ = round_.with_bill(self._model, self._address)
        bill, usage = round_.bill, round_.usage
        assert bill is not None
        assert usage is not None
        # Fees of unknown amount are not reserved either, but a sampling without a price counts as the most.
        priced = bill.complete or bill_of(replace(usage, further_fees=False), self._model).complete
        known = round(bill.at_least * _MILLION)
        self.cost = known if priced else max(self.cost, known)

    def free(self) -> None:
        """Note that the provider charges nothing: it refused the request, or never got it."""
        self.cost = 0


@asynccontextmanager
async def paying(allowances: Sequence[Allowance], body: Body, size: int, address: str = "") -> AsyncIterator[Payment]:
    """Reserve the most that a request may cost, and settle it afterwards.

    Args:
        allowances: what it counts against.
        body: its body.
        size: the body's size in bytes.
        address: the host of the provider.

    Raises:
        RefusedError: if a limit does not allow it, or cannot be kept because the model's price is unknown or the store
            cannot be reached.
    """
    model = str(body.get("model", ""))
    limited = [allowance for allowance in allowances if allowance.limited]
    amount = most(model, body, size, limited[0].name, address) if limited else 0
    payment = Payment(model, amount, address)
    async with AsyncExitStack() as stack:
        for allowance in allowances:
            await stack.enter_async_context(allowance.reserve(payment))
        try:
            yield payment
        except RefusedError as refusal:
            if refusal.unsent:
                payment.free()
            raise


class Allowance:
    """The cost of model requests in all processes that share a store, and its limit in dollars.

    It covers the requests of one member of a team (`owner`), or all of them.
    """

    def __init__(self, store: Store, limit: float | None, period: CostPeriod, owner: str = "") -> None:
        self._store = store
        self._owner = owner
        self._lock = asyncio.Lock()
        self._late: dict[str, int] = {}  # costs that are not in the store yet, because it failed
        self.allow(limit, period)

    def allow(self, limit: float | None, period: CostPeriod) -> None:
        """Set the limit in dollars; None for no limit."""
        self._limit = None if limit is None else round(limit * _MILLION)
        self._period = period

    @property
    def limited(self) -> bool:
        """Whether there is a limit."""
        return self._limit is not None

    @property
    def name(self) -> str:
        """Name of the limit in errors."""
        return f"the cost limit of {self._owner}" if self._owner else "--max-cost"

    @asynccontextmanager
    async def reserve(self, payment: Payment) -> AsyncIterator[None]:
        """Reserve the most that a request may cost, and settle it afterwards.

        Raises:
            RefusedError: if the limit does not allow it, or cannot be kept because the store cannot be reached.
        """
        name = secrets.token_hex(8)
        amount = payment.cost
        await finish_work(self._reserve(name, amount), undo=lambda _: self._late.update({name: 0}))
        try:
            yield
        finally:
            self._late[name] = payment.cost
            try:
                await finish_work(self._change(lambda ledger: ledger))
            except StoreError as error:
                _LOGGER.warning("the cost of a request is recorded later: %s", error)

    async def _reserve(self, name: str, amount: int) -> None:
        def reserve_cost(ledger: Ledger) -> Ledger:
            if name not in ledger.open:
                self._check(ledger, amount)
            return ledger.with_reservation(name, amount)

        try:
            await self._change(reserve_cost)
        except StoreError as error:
            self._late[name] = 0  # the reservation may be stored, if only the answer was lost
            if self.limited:
                raise RefusedError(503, f"the spend is not known, so {self.name} cannot be kept: {error}") from error
            _LOGGER.warning("the cost of a request is not recorded: %s", error)

    def _check(self, ledger: Ledger, amount: int) -> None:
        spent = ledger.sum_spending(self._period)
        if self._limit is None or spent + ledger.reserved + amount <= self._limit:
            return
        allows = f"{self.name} allows {_dollars(self._limit)} {COST_PERIODS[self._period]}"
        if spent >= self._limit:
            advice = ""
            if self._owner:
                until = {"day": "Wait until 00:00 UTC, or ask", "month": "Wait until next month, or ask"}
                command = f"wane proxy tokens limit {self._owner} --max-cost DOLLARS"
                advice = f". {until.get(self._period, 'Ask')} whoever runs this proxy for a higher one: {command}"
            raise RefusedError(402, f"{_dollars(spent)} has been spent, and {allows}{advice}")
        if spent + amount > self._limit:
            raise RefusedError(
                402,
                f"{_dollars(spent)} has been spent, and this request may cost {_dollars(amount)}, but {allows}. A"
                " smaller output limit (max_tokens) lowers what a request may cost",
            )
        raise RefusedError(
            429,
            f"{_dollars(spent)} has been spent, open requests may cost {_dollars(ledger.reserved)}, and this one"
            f" {_dollars(amount)}, but {allows}. Try again when one of them has ended",
        )

    async def _change(self, change: Callable[[Ledger], Ledger]) -> None:
        """Change the ledger, and settle what could not be settled before."""
        async with self._lock:
            late = dict(self._late)

            def change_ledger(document: str | None) -> str:
                ledger = Ledger.read(document).on(datetime.now(UTC))
                for name, cost in late.items():
                    ledger = ledger.settle_cost(name, cost)
                return change(ledger).write()

            await self._store.change_document(LEDGER, self._owner, change_ledger, "the record of the spend")
            for name in late:
                del self._late[name]


class ReplyReader:
    """Reads a reply that the client gets unchanged, by the request's body and the reply's headers."""

    def __init__(self, wire: Wire, body: Body, headers: Headers) -> None:
        self._wire = wire
        self._body = body
        self._headers = headers
        self._reply: ClientReply | None = None
        self._readable = True

    def feed(self, piece: bytes) -> None:
        """Take in the next piece of the reply."""
        if self._reply is None:
            streams = streams_in(piece, self._headers)
            self._reply = self._wire.reply({**self._body, "stream": bool(streams)}, frozenset())
        try:
            self._reply.feed(piece)
        except Exception:
            # The client gets the reply even if it cannot be read here.
            self._readable = False

    def end(self) -> Round | None:
        """Return the reply at its end; None if it cannot be read."""
        if self._reply is None or not self._readable:
            return None
        try:
            return self._reply.end()
        except Exception:
            return None


def _dollars(amount: int) -> str:
    return dollars(amount / _MILLION)


def allowance_of(store: Store, max_cost: float | None, period: CostPeriod) -> Allowance | None:
    """Return the allowance of a proxy; None if it has no limit. A limit of one run needs no store."""
    if max_cost is None:
        return None
    return Allowance(MemoryStore() if period == "run" else store, max_cost, period)
