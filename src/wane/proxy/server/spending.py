"""What requests cost, and limits of it: reserved in the store before a request is sent, settled after its reply."""

from __future__ import annotations

import asyncio
import logging
import math
import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from typing import Final

from wane.money import dollars
from wane.prices import CacheUse, at_tier, cost_of, prices_of, tier_in
from wane.proxy.http.head import Headers, RefusedError
from wane.proxy.http.upstream import streams_in
from wane.proxy.settings import COST_PERIODS, CostPeriod
from wane.proxy.store.base import MemoryStore, Store, StoreError, uninterrupted
from wane.proxy.store.ledger import LEDGER, Ledger
from wane.proxy.wire.base import Body, Reply, Round, Wire

_LOGGER: Final = logging.getLogger("wane.proxy")
_MILLION: Final = 1_000_000
_OUTPUT: Final = ("max_tokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens")

BYTES_PER_TOKEN: Final = 2
"""The fewest bytes of a request's body that a token is assumed to take; text and code take three to five."""

_CHEAPER: Final = ("flex", "batch")
"""Tiers that a request may ask for and not get, which then costs what the usual one does."""

ASSUMED_OUTPUT: Final = 32_000
"""Tokens that a reply is assumed to have at most where the client sets no limit."""


class Payment:
    """What one request to the provider costs.

    Attributes:
        cost: micro-dollars; at first the most that it can cost, which stays if the provider reports no usage.
    """

    def __init__(self, model: str, amount: int) -> None:
        self.cost = amount
        self._model = model

    def used(self, round_: Round | None) -> None:
        """Note the provider's answer; None if it cannot be read. A report of no input is no report."""
        usage = None if round_ is None else round_.usage
        cost = None if usage is None or usage.input <= 0 else cost_of(usage, self._model)
        if cost is not None:
            self.cost = round(cost * _MILLION)

    def free(self) -> None:
        """Note that the provider charges nothing: it refused the request, or never got it."""
        self.cost = 0


@asynccontextmanager
async def paying(allowances: Sequence[Allowance], body: Body, size: int) -> AsyncIterator[Payment]:
    """Reserve what a request may cost, by its body and the body's size in bytes, and settle it afterwards.

    Raises:
        RefusedError: if a limit does not allow it, or cannot be kept: the model's price is unknown, or the store cannot
            be reached.
    """
    model = str(body.get("model", ""))
    limit = next((allowance.name for allowance in allowances if allowance.limited), None)
    payment = Payment(model, 0 if limit is None else most(model, body, size, limit))
    async with AsyncExitStack() as stack:
        for allowance in allowances:
            await stack.enter_async_context(allowance.reserved(payment))
        try:
            yield payment
        except RefusedError as refusal:
            if refusal.unsent:
                payment.free()
            raise


class Allowance:
    """What model requests have cost in all processes with one store, and a limit of it in dollars.

    They are those of one member of a team (`owner`), or all of them.
    """

    def __init__(self, store: Store, limit: float | None, period: CostPeriod, owner: str = "") -> None:
        self._store, self._owner = store, owner
        self._lock = asyncio.Lock()
        self._late: dict[str, int] = {}  # costs that the store could not be told
        self.allow(limit, period)

    def allow(self, limit: float | None, period: CostPeriod) -> None:
        """Set the limit in dollars; None for no limit."""
        self._limit, self._period = None if limit is None else round(limit * _MILLION), period

    @property
    def limited(self) -> bool:
        """Whether there is a limit."""
        return self._limit is not None

    @property
    def name(self) -> str:
        """Name of the limit in errors."""
        return f"the cost limit of {self._owner}" if self._owner else "--max-cost"

    @asynccontextmanager
    async def reserved(self, payment: Payment) -> AsyncIterator[None]:
        """Reserve what a request may cost, and settle it afterwards.

        Raises:
            RefusedError: if the limit does not allow it, or the store cannot be reached to keep it.
        """
        name, amount = secrets.token_hex(8), payment.cost
        await uninterrupted(self._reserve(name, amount), undo=lambda _: self._late.update({name: 0}))
        try:
            yield
        finally:
            self._late[name] = payment.cost
            await uninterrupted(self._settle())

    async def _reserve(self, name: str, amount: int) -> None:
        def reserved(ledger: Ledger) -> Ledger:
            if name not in ledger.open:
                self._check(ledger, amount)
            return ledger.with_reservation(name, amount)

        try:
            await self._change(reserved)
        except StoreError as error:
            self._late[name] = 0  # it may be recorded, if only the answer was lost
            if self.limited:
                raise RefusedError(503, f"the spend is not known, so {self.name} cannot be kept: {error}") from error
            _LOGGER.warning("the cost of a request is not recorded: %s", error)

    def _check(self, ledger: Ledger, amount: int) -> None:
        spent = ledger.spent(self._period)
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

    async def _settle(self) -> None:
        try:
            await self._change(lambda ledger: ledger)
        except StoreError as error:
            _LOGGER.warning("the cost of a request is recorded later: %s", error)

    async def _change(self, change: Callable[[Ledger], Ledger]) -> None:
        """Change the ledger, and settle what could not be settled before."""
        async with self._lock:
            late = dict(self._late)

            def changed(document: str | None) -> str:
                ledger = Ledger.read(document).on(datetime.now(UTC))
                for name, cost in late.items():
                    ledger = ledger.settled(name, cost)
                return change(ledger).write()

            await self._store.change_document(LEDGER, self._owner, changed, "the record of the spend")
            for name in late:
                del self._late[name]


def most(model: str, body: Body, size: int, limit: str = "--max-cost") -> int:
    """Return the most that a request is assumed to cost, in micro-dollars.

    The input is at most half as many tokens as the body has bytes, all at the price of writing the cache; the output as
    many as the client allows, or `ASSUMED_OUTPUT`.

    Raises:
        RefusedError: if the model's price is unknown; it names the limit.
    """
    served = at_tier(model, ", ".join(word for word in tier_in(body).split(", ") if word not in _CHEAPER))
    prices = prices_of(served)
    if prices is None:
        raise RefusedError(402, f"the price of the model {served!r:.80} is unknown, so {limit} cannot be kept")
    config = body.get("generationConfig")  # Gemini's
    places = (body, config if isinstance(config, dict) else {})
    named = (place.get(name) for place in places for name in _OUTPUT)
    allowed = [value for value in named if isinstance(value, int) and value > 0]
    output = max(allowed, default=ASSUMED_OUTPUT)
    answers = body.get("n")
    output *= answers if isinstance(answers, int) and answers > 0 else 1
    tokens = math.ceil(size / BYTES_PER_TOKEN)
    uses = (CacheUse(0, tokens, 0), CacheUse(0, tokens, 0, tokens), CacheUse(0, 0, tokens))
    return math.ceil(max(prices.cost(use, output).total for use in uses) * _MILLION)


class ReplyReader:
    """Reads a reply that the client gets unchanged, by the request's body and the reply's headers."""

    def __init__(self, wire: Wire, body: Body, headers: Headers) -> None:
        self._wire, self._body, self._headers = wire, body, headers
        self._reply: Reply | None = None
        self._readable = True

    def feed(self, piece: bytes) -> None:
        """Take in the next piece of the reply."""
        if self._reply is None:
            streams = streams_in(piece, self._headers)
            self._reply = self._wire.reply({**self._body, "stream": bool(streams)}, frozenset())
        try:
            self._reply.feed(piece)
        except Exception:
            # Whatever it is, the client gets it.
            self._readable = False

    def end(self) -> Round | None:
        """Return the reply at its end; None if it cannot be read."""
        try:
            return self._reply.end() if self._reply is not None and self._readable else None
        except Exception:
            return None


def _dollars(amount: int) -> str:
    return dollars(amount / _MILLION)


def allowance_of(store: Store, max_cost: float | None, period: CostPeriod) -> Allowance | None:
    """Return the allowance of a proxy; None if it has no limit. That of one run needs no store."""
    if max_cost is None:
        return None
    return Allowance(MemoryStore() if period == "run" else store, max_cost, period)
