"""A managed request, from the client's body to the end of its reply: one exchange, one machine.

A client sends its whole history with every request. Wane finds the session that this history continues, lets the
session take in what is new, and sends the provider the view that the session decides on. The provider's reply is
streamed to the client as it arrives. If the model has called nothing but tools of Wane's own, nobody can answer but
Wane, so it does, and asks again: one reply of the client is made of one or more *rounds*.

Two classes share the work. `Exchange` is the machine: it knows the session and the protocol, but no connection, so that
tests and a watching proxy (`watched.py`) can drive it too. `ManagedRequest` drives it over the connections to the
client and the provider. An exchange is in one of these states:

    RECEIVED    The client's body has been read, and nothing else has happened.
    LOCATED     Its session is held: no other request can change it, and it is up to date with the store.
    VIEWED      The session has taken in the request and has decided on a view. There is a body to send (`body`), and
                what the session has taken in is recorded.
    ASKED       The body is on its way to the provider, and is recorded byte by byte if the session is stored.
    STREAMING   The provider has accepted it, and its reply arrives.
    ANSWERED    A round is complete, with its usage and its price. What it means is being recorded.
    OVER        The client's reply is complete and recorded, or there is none. Nothing more happens.

What may follow (`_FOLLOWS`), and why:

    RECEIVED  -> LOCATED     `locate` has found or begun a session.
    RECEIVED  -> OVER        The request is none to manage, is refused, or only counts its tokens.
    LOCATED   -> RECEIVED    Another process has added to the session meanwhile, or its records do not fit: find again.
    LOCATED   -> VIEWED      `locate` goes on: the session is extended, and a pass has run if one was due.
    VIEWED    -> ASKED       `send_body`.
    ASKED     -> VIEWED      The provider refuses reasoning in a known way, or the view as too long: send another.
    ASKED     -> STREAMING   `feed`: the first piece of the reply.
    STREAMING -> VIEWED      OpenAI's Responses say only in their stream that the view is too long.
    STREAMING -> ANSWERED    `end_round`.
    ANSWERED  -> VIEWED      `record`: the model called own tools alone. Their results follow the view in the next body.
    ANSWERED  -> OVER        `record`: the client has a complete reply.
    any       -> OVER        The client disconnects, the reply breaks, or the request is passed on as it is.

The session is held only in LOCATED and while records are appended, never while the provider answers: another request
of the client may continue it meanwhile (a sub-agent, or a request sent again). So whatever is recorded afterwards asks
whether the history is still the one of this request (`_is_latest`).

The client can be told of an error by its status only until its reply has begun (`Client.started`), which it may in any
round: from then on a second provider cannot be asked any more, and a broken reply breaks the connection.
"""

from __future__ import annotations

import asyncio
import copy
import logging
import traceback
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import Enum
from functools import partial
from typing import Final, NoReturn

from wane.core import DELIMITER, RECALL, Kind, chars
from wane.core.errors import FormatError, HistoryError, JournalError, WaneError
from wane.formats.message_format import repeated_call
from wane.journal import Record
from wane.prices import NO_USAGE
from wane.proxy import head, jsons
from wane.proxy.head import RefusedError
from wane.proxy.http.client import Client, ClientGoneError, dump_body
from wane.proxy.http.failover import Failover
from wane.proxy.http.upstream import (
    BrokenBodyError,
    BrokenOffError,
    Upstream,
    UpstreamResponse,
    from_first,
    relay,
    streams_in,
)
from wane.proxy.sessions.bodies import LARGE, ReadBody
from wane.proxy.sessions.caching import AnsweredPrefix, RewrittenPrefix, SentPrefix, lifetime_of
from wane.proxy.sessions.client_messages import (
    Arrival,
    Entry,
    RequestAlignment,
    client_note,
    root_of_request,
    sent_messages,
)
from wane.proxy.sessions.managed_session import FullHistory, RequestView, Session
from wane.proxy.sessions.memory import CachedSession, Facts
from wane.proxy.sessions.sender import NOBODY, Sender, prompts_of, sender_of
from wane.proxy.sessions.session_index import Continue, IncomingRequest, SessionIndex
from wane.proxy.settings import ReportedUsage
from wane.proxy.spending.allowances import Allowance, ReplyReader, paying
from wane.proxy.store.stores import SessionChangedError, StoreError, finish_work, in_thread_if
from wane.proxy.wire.wire import (
    MAX_ROUNDS,
    AnsweredRound,
    Body,
    BrokenReplyError,
    ClientReply,
    Correction,
    Equipped,
    Message,
    OwnCall,
    Round,
    Wire,
)
from wane.refusals import SHRINKS, TOO_LONG, fitting_budget, message_of

_LOGGER: Final = logging.getLogger("wane.proxy")

TRIES: Final = 10
"""Attempts to add to a session while other processes do so too."""

_UNREADABLE: Final = 3  # attempts with sessions whose records do not fit, until a new one takes in the whole history

MOST_RECALLS: Final = 4
"""The most calls of `recall` that are answered in one reply, because a page may take a tenth of the budget."""

TOO_MANY: Final = (
    f"Error: `recall` was called {MOST_RECALLS} times in a row, as often as it can be. Work with what these brought: "
    "it answers again after your next call of a tool other than `delimiter`."
)
"""The result of any further call."""

ENCODINGS: Final = frozenset({b"accept-encoding"})
"""Headers to leave out of a request, so that its reply can be read as it passes."""

_RETRIES: Final = 2  # how often a request that was refused for its reasoning is corrected and sent again
_TOO_LONG: Final = (400, 413, 422)  # statuses of a refusal of a prompt that is too long
_LONGEST_ERROR: Final = 1024 * 1024  # bytes of a provider's error to read; the rest is passed on unread
_MANY: Final = 10_000  # messages that are digested in a thread
_LONGEST_KEPT: Final = 32 * 1024 * 1024  # bytes of a request above which only its digest is recorded
_REMADE: Final = head.REWRITTEN | {b"accept-encoding"}
_STORED: Final = (
    *("previous_response_id", "conversation", "thread"),
    *("cachedContent", "cached_content", "continuationToken", "continuation_token"),
)
"""Fields of a body that refer to something that only its provider has."""

_READABLE: Final = (b"", b"gzip", b"deflate")  # encodings of replies that can be decoded, although none is asked for


class State(Enum):
    """Where an exchange stands; the head of this module says what each state means."""

    RECEIVED = "received"
    LOCATED = "located"
    VIEWED = "viewed"
    ASKED = "asked"
    STREAMING = "streaming"
    ANSWERED = "answered"
    OVER = "over"


_FOLLOWS: Final[Mapping[State, frozenset[State]]] = {
    State.RECEIVED: frozenset({State.LOCATED, State.OVER}),
    State.LOCATED: frozenset({State.RECEIVED, State.VIEWED, State.OVER}),
    State.VIEWED: frozenset({State.ASKED, State.OVER}),
    State.ASKED: frozenset({State.VIEWED, State.STREAMING, State.ANSWERED, State.OVER}),
    State.STREAMING: frozenset({State.VIEWED, State.ANSWERED, State.OVER}),
    State.ANSWERED: frozenset({State.VIEWED, State.OVER}),
    State.OVER: frozenset(),
}


class _UnreadableError(WaneError):
    """A session cannot be continued: its records are inconsistent, or do not fit the request."""


class Exchange:
    """One request of a client and the reply to it, as a machine of the states above. It has no connections.

    Args:
        sessions: all sessions.
        wire: the request's protocol.
        body: the client's body; its protocol must say that it can be managed.
        read: how it was read, with the messages that it shares with an earlier one; None if it shares none.
        size: its size in bytes; a large body is processed outside the event loop.
        sender: who sent it, as far as the client says.
        owner: the member of a team who sent it; empty for none.
        sums: whether to report the usage of all rounds to the client, and not that of the last one.
        watches: whether the provider gets the client's own body, whatever the view is.

    Attributes:
        state: where it stands.
        cached: the session; like all that follows, it exists from VIEWED on.
        own: names of the proxy's own tools in the request; empty if the strategy needs none.
        view: the view that the request shows.
        body: the next body to send, or the last one sent.
        facts: figures of the view.
        reply: makes the client's reply.
        rewritten: what the latest round paid again although it was cached; None for nothing.
    """

    def __init__(
        self,
        sessions: SessionIndex,
        wire: Wire,
        body: Body,
        read: ReadBody | None = None,
        *,
        size: int = 0,
        sender: Sender = NOBODY,
        owner: str = "",
        sums: bool = True,
        watches: bool = False,
    ) -> None:
        self.state = State.RECEIVED
        self.rewritten: RewrittenPrefix | None = None
        self.cached: CachedSession
        self.own: frozenset[str]
        self.view: RequestView
        self.body: Body
        self.facts: Facts
        self.reply: ClientReply
        self._sessions, self._wire, self._client_body, self._read = sessions, wire, body, read or ReadBody(body)
        self._size, self._sender, self._owner, self._sums, self._watches = size, sender, owner, sums, watches
        self._model = str(body.get("model", ""))
        self._finder = sessions.finder_of(owner)
        self._equipped: Equipped  # the client's body with the proxy's own tools
        self._history: FullHistory  # the whole history, for recall
        self._arrivals: Sequence[Arrival] = ()  # the client's messages
        self._number = 0  # of the client's message for the reply
        self._rounds: list[Round] = []
        self._answered: list[AnsweredRound] = []
        self._marks: list[str] = []  # arguments of the `delimiter` calls so far
        self._recalls = self._shrinks = 0

    def _enter(self, state: State) -> None:
        if state not in _FOLLOWS[self.state]:
            raise RuntimeError(f"an exchange cannot go from {self.state.value} to {state.value}")
        self.state = state
        if state is State.OVER and hasattr(self, "cached"):  # it has one from VIEWED on
            self.cached.exchanges.discard(self)

    def close(self) -> None:
        """End the exchange wherever it stands: its client has all that it gets."""
        if self.state is not State.OVER:
            self._enter(State.OVER)

    # RECEIVED -> LOCATED -> VIEWED

    async def locate(self) -> None:
        """Find the session that the request continues, take in what is new, and decide on the view.

        Raises:
            FormatError: if the body's messages violate the protocol.
            WaneError: if Wane cannot manage the request for any other reason.
        """
        await self._find_and_extend()
        self.reply = self._wire.reply(self._client_body, self.own, sums=self._sums)

    async def _find_and_extend(self) -> None:
        wire, body, sessions = self._wire, self._client_body, self._sessions
        self._arrivals = arrivals = self._read.take_messages(wire, body)
        if self._size > 2_000_000:
            # What is new would block the event loop.
            await finish_work(asyncio.to_thread(lambda: [arrival.digest for arrival in arrivals]))
        request = IncomingRequest(wire, body, arrivals, root_of_request(wire, arrivals, self._owner), self._sender)
        async with sessions.gate_of(request.root):
            problem = "other processes keep changing the session"
            unreadable = 0
            for _ in range(TRIES):
                try:
                    if await self._try_to_locate(request):
                        return
                except _UnreadableError as error:
                    problem = str(error)
                    unreadable += 1
                    if unreadable == _UNREADABLE:
                        break
                if self.state is State.LOCATED:
                    self._enter(State.RECEIVED)
            if sessions.strict:
                raise StoreError(problem)
            # A new session takes in the whole history.
            cached = await self._finder.fresh(request)
            cached.remark = f"{problem}; it starts over as {cached.id}"
            _LOGGER.warning("%s", cached.remark)
            async with cached.hold():
                self._enter(State.LOCATED)
                await self._extend(cached, request, RequestAlignment(0))

    async def _try_to_locate(self, request: IncomingRequest) -> bool:
        """Add the request to its session; return False if another process has added to the session in the meantime.

        Raises:
            _UnreadableError: if the session's records are inconsistent, or do not fit the request.
            WaneError: if the request cannot be managed in any session.
        """
        cached: CachedSession | None = None
        is_empty = False
        try:
            async with AsyncExitStack() as holds:
                decision = await self._finder.find(request, holds)
                if isinstance(decision, Continue):
                    cached, alignment = decision.cached, decision.alignment
                else:
                    cached = await self._finder.begin(decision, request)
                    await holds.enter_async_context(cached.hold())
                    alignment = cached.session.align(request.arrivals)
                self._enter(State.LOCATED)
                entry_count = len(cached.session.entries)
                is_empty = entry_count == 0
                if alignment.common == entry_count:
                    await self._extend(cached, request, alignment)
                    return True
        except SessionChangedError:
            return False
        except (FormatError, StoreError):
            raise
        except Exception as error:
            if cached is not None:
                await self._finder.forget(cached)
            if is_empty:
                raise  # the fault is the request's own
            expected = isinstance(error, WaneError)
            name = "the session" if cached is None else f"session {cached.id}"
            reason = str(error) if expected else type(error).__name__
            problem = f"{name} could not be continued: {reason}"
            _LOGGER.warning("%s", problem, exc_info=not expected)
            raise _UnreadableError(problem) from error
        return False

    async def _extend(self, cached: CachedSession, request: IncomingRequest, alignment: RequestAlignment) -> None:
        """Let the held session take in what is new of the request, and decide on the view."""
        session, arrivals, body = cached.session, request.arrivals, self._client_body
        now = datetime.now(UTC)
        if self._sender not in (NOBODY, cached.sender):
            cached.sender = self._sender
            await self._finder.parentage.note_session(self._sender, cached.id)
        self.own = self._sessions.own_tools(session.wire, body)
        self._equipped = self._sessions.equip(session.wire, body, self.own)
        is_cold = False
        if alignment.common:  # a new session has no cache yet that could have expired
            is_cold = (now - cached.last).total_seconds() > (cached.caching.lifetime or lifetime_of(self._wire, body))
        try:
            # Ahead of taking them in, which drops their parts.
            repeated = next(
                filter(None, (repeated_call(arrival.parts) for arrival in arrivals[alignment.common :])), None
            )
            records, self._history = await _take_in(
                session, self._equipped, arrivals, alignment, self._model, self._sender.client
            )
            reminds = not self._sender.compacts
            self.view = session.fit(self._history, self._equipped.body, cold=is_cold, reminds=reminds)
        except BaseException:
            # The session in memory has only part of the request; the stored one is consistent.
            await self._finder.forget(cached)
            raise
        await cached.append([*records, *self.view.records])
        if repeated is not None:
            # Some servers take that. Each result answers the first of the calls that is open, so both pairs stay whole.
            cached.remark = f"several calls of one answer have the id {repeated!r}, which most providers refuse"
            _LOGGER.warning("session %s: %s", cached.id, cached.remark)
        cached.last = now
        cached.requests += 1
        if not cached.titled:
            cached.take_title(arrivals)
        self.cached = cached
        self.facts = cached.note_view(self.view, self._model, self._owner)
        if self.view.changed:
            cached.caching.passes += 1
        self._number = len(session.entries)
        self._place_view()
        cached.exchanges.add(self)

    # RECEIVED -> OVER

    async def count_body(self) -> Body:
        """Return what would be sent, to count its tokens; no session changes.

        A body that continues no known session is returned unchanged: the client wants to count a fragment by itself.

        Raises:
            WaneError: as `locate` does.
        """
        preview = await self._preview()
        self.close()
        if preview is None:
            return self._client_body
        cached, equipped, view = preview
        return cached.place_view(equipped, view, preview=True)

    async def shorten_body(self) -> Body | None:
        """Return an unmanaged request with the view of its session in place of its history.

        A client that asks for a summary sends all it has, which may be more than the model's window holds.

        Returns:
            The body, without own tools; None if it continues no known session, or one without evictions.

        Raises:
            WaneError: as `locate` does.
        """
        preview = await self._preview()
        self.close()
        if preview is None:
            return None
        cached, _, view = preview
        return cached.place_view(Equipped(self._client_body), view, preview=True) if view.evicted else None

    async def _preview(self) -> tuple[CachedSession, Equipped, RequestView] | None:
        """Return the session in memory that the request continues, and the tools and the view it would get."""
        wire, body, sessions = self._wire, self._client_body, self._sessions
        arrivals = self._read.take_messages(wire, body)
        root = root_of_request(wire, arrivals, self._owner)
        if not self._finder.memory.has_root(root):
            return None
        for cached, alignment in self._finder.alike(root, arrivals):
            if 0 < len(cached.session.entries) == alignment.common:
                equipped = sessions.equip(wire, body, sessions.own_tools(wire, body))
                session = copy.deepcopy(cached.session, {id(wire): wire})
                _, history = await _take_in(session, equipped, arrivals, alignment, self._model)
                return cached, equipped, session.fit(history, body)
        return None

    # VIEWED -> ASKED

    def _place_view(self) -> None:
        """Make the next body: the view, and behind it the rounds so far, in the client's frame."""
        if self._watches:
            self.body = self._client_body
            self._enter(State.VIEWED)
            return
        last = len(self._rounds) == MAX_ROUNDS - 1
        equipped = self._wire.equip(self._client_body, [], "") if last else self._equipped
        body = self.cached.place_view(equipped, self.view, self._hidden_messages())
        if not self._rounds and self.view.reminder is not None and DELIMITER in self.own:
            body = self._wire.add_note(body, self.view.reminder)
        self.body = body
        self._enter(State.VIEWED)

    def _hidden_messages(self) -> list[Message]:
        """Return the messages of the rounds so far, which are not in the history yet."""
        messages: list[Message] = []
        for answered in self._answered:
            messages += [answered.message, *answered.results]
        return messages

    async def send_body(self, content: bytes, url: str) -> None:
        """Note that a request is about to be sent, and record it byte by byte.

        It may be sent more than once, such as to a second provider; and if Wane fails, the client's own goes after it.

        Raises:
            StoreError: in strict mode, if it cannot be stored.
        """
        if self.state is State.VIEWED:
            self._enter(State.ASKED)
        cached = self.cached
        if cached.receipts is None:
            return
        keep = cached.keeps_requests and len(content) <= _LONGEST_KEPT

        async def make_receipt() -> Sequence[Record]:
            assert cached.receipts is not None
            return [await in_thread_if(self._size > LARGE, partial(cached.receipts.of, content, url, keep=keep))]

        await self._append(make_receipt, "a request")

    # ASKED -> VIEWED: the provider has refused the body

    def correct(self, correction: Correction, *, elsewhere: bool = False) -> None:
        """Apply a correction to this and all later requests, because the provider has refused reasoning without it.

        A correction for the second provider (`elsewhere`) applies to requests for that one alone.
        """
        corrections = self.cached.elsewhere if elsewhere else self.cached.corrections
        corrections.append(correction)
        self.body = correction(self.body, self._client_body)
        self._enter(State.VIEWED)

    def correct_elsewhere(self, content: bytes) -> bytes:
        """Return a request corrected for the second provider, as its refusals in this session require."""
        corrections = self.cached.elsewhere
        if not corrections:
            return content
        body = jsons.loads(content)
        for correction in corrections:
            body = correction(body, self._client_body)
        return jsons.dumps(body)

    async def shrink(self, message: str) -> bool:
        """Make a smaller body in place of one that the provider refused as too long; return False if there is none.

        The provider's count and limit calibrate the session's budget, which stays lowered.

        Args:
            message: the provider's words.
        """
        session = self.cached.session
        if self._shrinks == SHRINKS or not TOO_LONG.search(message) or not session.engine.traits.bounded:
            return False
        before = session.engine.tokens
        hidden = 0
        for hidden_message in self._hidden_messages():
            hidden += sum(part.item(chars, 0).tokens for part in self._wire.format.parts(hidden_message))
        budget = fitting_budget(message, before + hidden)
        if budget is None or budget < 1:
            _LOGGER.warning(
                "session %s: the provider refuses a view of %s tokens as too long (%s): what fills its window is not "
                "counted in the view. The budget stays",
                self.facts.session,
                f"{before:,}",
                message,
            )
            return False
        self._shrinks += 1
        if not await self._make_room(budget) or session.engine.tokens >= before:
            return False
        tokens, evicted = session.engine.tokens, self.view.evicted
        note = f"the provider takes no view of {before:,} tokens; from here on it holds at most {session.budget:,}"
        _LOGGER.warning("session %s: %s", self.facts.session, note)
        self.facts = self.cached.facts = replace(
            self.facts,
            view=tokens,
            budget=session.budget,
            history=tokens + evicted,
            evicted=evicted,
            evicted_now=self.facts.evicted_now + before - tokens,
            satisfied=tokens <= session.budget,
            room=session.room(self.facts.model),
            note=note,
        )
        self._place_view()
        return True

    async def _make_room(self, budget: int | None = None) -> bool:
        """Run a pass if the rounds so far take the request over its budget; return whether the view has changed.

        Args:
            budget: what the budget is lowered to before; None to leave it.
        """
        cached = self.cached
        try:
            async with cached.hold():
                if self._is_latest:
                    session = cached.session
                    records = [] if budget is None else session.shrink(budget)
                    hidden = self._hidden_messages()
                    view = session.fit(self._history, self._equipped.body, extra_messages=hidden)
                    await cached.append([*records, *view.records])
                    if view.changed:
                        cached.caching.passes += 1
                    self.view = view
                    return view.changed
        except (JournalError, HistoryError, SessionChangedError) as error:
            # Another process has continued the session: the view stays as it is.
            _LOGGER.warning("session %s: %s", self.facts.session, error)
        return False

    @property
    def _is_latest(self) -> bool:
        """Whether no other request has added to the session since this one did."""
        return self.cached.session.engine.item_count == self._history.items

    # ASKED -> STREAMING -> ANSWERED

    def begin_reply(self, streams: bool) -> None:
        """Begin the client's reply anew in a form, streamed or whole: the provider's own, whatever was asked for."""
        self.reply = self._wire.reply({**self._client_body, "stream": streams}, self.own, sums=self._sums)

    def feed(self, piece: bytes) -> bytes:
        """Take in a piece of the provider's reply, and return what the client gets now."""
        if self.state is not State.STREAMING:
            self._enter(State.STREAMING)
        return self.reply.feed(piece)

    def end_round(self, address: str = "") -> Round:
        """Return the complete round with its cost, at the end of the reply of the provider at a host.

        Raises:
            BrokenReplyError: if it stopped before its end, was an error event, or violated the protocol.
        """
        return self.reply.end().with_bill(self._model, address)

    # ANSWERED -> VIEWED or OVER

    async def record(self, round_: Round, upstream: str = "") -> Body | None:
        """Take in and record a round.

        Args:
            round_: the round.
            upstream: the second provider's address if that one answered, which has a cache of its own; else empty.

        Returns:
            The next body to send, if the model called only own tools; None if the client's reply is complete and
            recorded, so that the server may end it.
        """
        self._enter(State.ANSWERED)
        self._rounds.append(round_)
        results = self._wire.results(self._answer_own(round_.own)) if round_.own else ()
        self._answered.append(AnsweredRound(round_.message, results))
        self.rewritten = await self._explain_payment(round_, upstream)
        is_last = not round_.alone or len(self._rounds) >= MAX_ROUNDS

        async def make_records() -> Sequence[Record]:
            return self._reply_records(is_last=is_last)

        try:
            await self._append(make_records, "a reply")
        finally:
            if is_last:
                self._sessions.sync_later(self.cached)
        if is_last:
            prompts: list[str] = []  # of calls that start sub-agents
            for part in self._wire.format.parts(round_.message):
                if part.kind is Kind.CALL:
                    prompts += prompts_of(part.tool or "", part.arguments)
            await self._finder.parentage.handed_over(self.cached.sender, self.cached.id, prompts)
            self.close()
            return None
        await self._make_room()
        self._place_view()
        return self.body

    def _answer_own(self, calls: Sequence[OwnCall]) -> list[tuple[OwnCall, str]]:
        """Return the own calls of the latest round with their results, in order."""
        session = self.cached.session
        first_mark = len(self._marks)
        self._marks += [call.arguments for call in calls if call.tool == DELIMITER]
        verdicts = iter(session.engine.window.foresee(self._marks)[first_mark:])
        answers = []
        for call in calls:
            if call.tool != RECALL:
                result = next(verdicts).answer(recall=RECALL in self.own)
            elif self._recalls >= MOST_RECALLS:
                result = TOO_MANY
            else:
                self._recalls += 1
                result = session.recall(call, self._history)
            answers.append((call, result))
        return answers

    async def _explain_payment(self, round_: Round, upstream: str) -> RewrittenPrefix | None:
        """Return what the round paid again although it was cached, by comparing its request with the one before."""
        messages = self._wire.messages(self.body)
        sent = await in_thread_if(len(messages) > _MANY, lambda: sent_messages(self._wire, messages, self._arrivals))
        prefix = SentPrefix.of(self._wire, self.body, sent, messages[0])
        usage = (round_.usage or NO_USAGE).of_request
        answer = AnsweredPrefix(prefix, usage, datetime.now(UTC), upstream, round_.cache_miss)
        return self.cached.caching.take_answer(answer)

    def _reply_records(self, *, is_last: bool) -> Sequence[Record]:
        session = self.cached.session
        usage, bill = self._rounds[-1].usage or NO_USAGE, self._rounds[-1].bill
        records: list[Record] = []
        if self.rewritten is not None:
            records.append(self.rewritten.note())
        # Once another request has added to the session, this usage no longer tells the size of the view.
        if self._is_latest:
            records += session.observe(usage, self.facts.model, bill)
        else:
            records += session.pay_late(usage, self.facts.model, bill)
        if is_last:
            records += session.keep(self._rounds, self._answered, self._number, self._arrivals[-1])
        return records

    async def _append(self, make: Callable[[], Awaitable[Sequence[Record]]], what: str) -> None:
        """Append records to the session, and make them again if another process has added to it in the meantime."""
        try:
            for tries_left in reversed(range(TRIES)):
                try:
                    async with self.cached.hold():
                        await self.cached.append(await make())
                    return
                except SessionChangedError:
                    if not tries_left:
                        raise
        except (JournalError, HistoryError, SessionChangedError) as error:
            # Another process has continued the session differently. The client still gets its reply.
            _LOGGER.warning("session %s: %s was not recorded: %s", self.facts.session, what, error)


async def _take_in(
    session: Session,
    equipped: Equipped,
    arrivals: Sequence[Arrival],
    alignment: RequestAlignment,
    model: str,
    agent: str = "",
) -> tuple[list[Record], FullHistory]:
    """Let a session take in a request; return the records of it, and the whole history."""
    is_first = not session.entries
    records = [*session.setup(equipped, model), *session.amend(session.edits(arrivals, alignment))]
    entries: list[Entry] = []
    message_records: list[Record] = []
    for arrival in arrivals[len(session.entries) :]:
        entry, new_records = session.take(arrival)
        arrival.forget_parts()
        entries.append(entry)
        message_records += new_records
        if len(entries) % 200 == 0:
            await asyncio.sleep(0)  # let other requests run
    if entries:
        records.append(client_note(entries, agent))
    if is_first and session.auto:
        message_records += session.choose_budget(model)
    return [*records, *message_records], session.full_history(arrivals)


# Not shown, because it holds keys of the client, and the conversation.
@dataclass(eq=False, repr=False)
class ModelRequest:
    """A request to a model.

    Attributes:
        client: the client, with the head of its request.
        upstream: the provider.
        sessions: all sessions.
        wire: the request's protocol.
        raw: the body as received.
        allowances: the limits and sums that its cost counts for.
    """

    client: Client
    upstream: Upstream
    sessions: SessionIndex
    wire: Wire
    raw: bytes
    allowances: Sequence[Allowance]


@dataclass(eq=False, repr=False)
class ManagedRequest(ModelRequest):
    """Carries an exchange over the connections to its client and to the provider.

    Attributes:
        failover: asks another upstream while the provider is down; None if there is none.
        read: the body as it was read.
        body: the same as its protocol reads it.
        strict: whether the client gets an error if Wane fails; otherwise the request is passed on unchanged.
        usage: which usage the client is told of a reply of several rounds; see `Sender.sums_usage`.
    """

    failover: Failover | None
    read: ReadBody
    body: Body
    strict: bool
    usage: ReportedUsage

    def __post_init__(self) -> None:
        self.request = self.client.request
        self.counters = self.client.counters
        self.exchange: Exchange
        self._size = len(self.raw)
        # Headers that the body needs besides the client's.
        self._further: Mapping[str, str] = {}
        self._head: tuple[int, head.Headers] = (200, [])  # of the first round's reply
        self._warning = ""
        # The later rounds of a reply go to the upstream that answered the first one.
        self._answering = self.upstream
        self._streams = bool(self.body.get("stream"))

    async def answer(self, *, counts: bool) -> None:
        """Send the client its reply.

        Args:
            counts: whether the request only counts the tokens that would be sent, and asks no model.

        Raises:
            RefusedError: if the provider cannot be reached, or Wane fails in strict mode.
            BrokenOffError: if the provider's reply breaks off after the client's has started.
            ClientGoneError: if the client disconnects.
        """
        try:
            sender, owner = sender_of(self.request.headers, self.body), self.counters.owner
            self.exchange = exchange = Exchange(
                self.sessions,
                self.wire,
                self.body,
                self.read,
                size=self._size,
                sender=sender,
                owner=owner,
                sums=sender.sums_usage(self.usage),
            )
            try:
                if reason := self.wire.why_unmanaged(self.body):
                    await self._relay(await self._shorten(), [(head.UNMANAGED, head.text(reason))])
                    return
                if refusal := self.wire.refusal(self.body):
                    raise RefusedError(400, refusal)
                if counts:
                    counted = await self._dump(await finish_work(exchange.count_body()), counts=True)
                    self.counters.outcome = "managed"
                    await self._relay(counted, [])
                    return
                await finish_work(exchange.locate())
                self.counters.sending = lambda content, url: finish_work(exchange.send_body(content, url))
                self._further = self.wire.headers(exchange.body)
                content: bytes | None = await self._dump(exchange.body)
                self._warning = exchange.facts.warning
                self.counters.count_prepared(exchange.facts)
                while content is not None:
                    content = await self._make_round(content)
            finally:
                exchange.close()
        except (RefusedError, BrokenOffError, ClientGoneError):
            raise
        except Exception as error:
            await self._fail(error)

    async def _dump(self, body: Body, *, counts: bool = False) -> bytes:
        return await dump_body(self.wire.outgoing(body, self.request.path, counts=counts), self._size)

    # Without a view: the client's body, or a shorter one, goes upstream as it is

    async def _shorten(self) -> bytes:
        """Return the client's body, with the view in place of its history if it continues a managed session."""
        try:
            body = await self.exchange.shorten_body()
            if body is not None:
                return await self._dump(body)
        except Exception as error:
            _LOGGER.debug("%s: passed on as it is: %s", self.counters.what, brief(error))
        return self.raw

    async def _relay(self, content: bytes, extra: head.Headers) -> None:
        """Send the client's body or another one, relay the answer as it is, and read its cost."""
        self.client.watch()
        is_changed = content is not self.raw
        dropped: frozenset[bytes] = head.REWRITTEN if is_changed else frozenset()
        if self.allowances:
            dropped |= ENCODINGS  # usage can be read only in a reply that is not encoded
        address = self.upstream.netloc
        async with paying(self.allowances, self.body, len(content), address) as payment:
            sent = head.to_upstream(self.request.headers, self.upstream.host, drop=dropped)
            async with await self._send(sent, content) as answer:
                if is_changed and not answer.ok:
                    self.counters.outcome = "provider_error"
                if not answer.ok or not self.allowances:
                    payment.free()
                    await relay(self.client, answer, extra)
                    return
                reader = ReplyReader(self.wire, self.body, answer.headers)
                await relay(self.client, answer, extra, reader.feed)
                payment.take_cost(reader.end())

    # Rounds

    async def _make_round(self, content: bytes) -> bytes | None:
        """Send one body and stream its reply; return the next body to send, or None if the client has all.

        A refusal costs nothing, so what was reserved for the body is free again before a smaller one is sent.
        """
        self.counters.rounds += 1
        smaller: bytes | None = None
        try:
            address = self.upstream.netloc
            paid = paying(self.allowances, self.body, len(content), address)
            async with paid as payment, await self._ask(content) as answer:
                if not answer.ok:
                    payment.free()
                    await self._pass_on_error(answer)
                    return None
                if answer.encoding not in _READABLE:
                    raise self._unusable("answered in an encoding that was not asked for")
                if self.counters.rounds == 1:
                    self._head = answer.status, answer.headers
                await self._stream(answer)
                try:
                    round_ = self.exchange.end_round(self._answering.netloc)
                except BrokenReplyError as error:
                    smaller = await self._shrink_unbegun(error)
                    if smaller is None:
                        await self._end_broken(error)
                        return None
                    payment.free()
                else:
                    self.counters.round(round_, str(self.body.get("model", "")))
                    payment.take_cost(round_)
        except RefusedError as refusal:
            if not self.client.started:
                raise
            refused = self.wire.error(refusal.status, refusal.message)
            await self._end(self.exchange.reply.fail(refusal.status, refused))
            return None
        if smaller is not None:
            return smaller
        following = await self._record(round_)
        if following is not None:
            return await self._dump(following)
        last = self.exchange.reply.finish()
        self.counters.outcome = "managed"
        await self._end(last)
        return None

    async def _ask(self, content: bytes) -> UpstreamResponse:
        """Ask the provider; if it refuses reasoning in a known way, or a view as too long, mend it and ask again."""
        sent = head.to_upstream(self.request.headers, self.upstream.host, drop=_REMADE)
        sent.append((b"accept-encoding", b"identity"))
        target = self.wire.target(self.body, self.request.target)
        for tries_left in reversed(range(_RETRIES + SHRINKS + 1)):
            answer = await self._send(
                head.add_values(sent, self._further), content, self.exchange.correct_elsewhere, target
            )
            if answer.ok or answer.status >= 500 or answer.encoding or not tries_left:
                return answer
            try:
                mended = await self._mend(answer, content)
            except BaseException:
                await answer.close()
                raise
            if mended is None:
                return answer
            await answer.close()
            content = mended
        raise AssertionError("the last try returns")

    async def _mend(self, answer: UpstreamResponse, content: bytes) -> bytes | None:
        """Return the request to send instead of a refused one; None to pass the refusal on to the client."""
        error = await answer.peek(_LONGEST_ERROR)
        exchange = self.exchange
        body = jsons.loads(exchange.correct_elsewhere(content) if self._is_elsewhere else content)
        correction = self.wire.correction(answer.status, error, body, self.body)
        if correction is None:
            if answer.status in _TOO_LONG and await finish_work(exchange.shrink(message_of(error))):
                self._further = self.wire.headers(exchange.body)
                self._warning = exchange.facts.warning
                return await self._dump(exchange.body)
            return None
        corrected = correction(body, self.body)
        if corrected is body:
            return None
        exchange.correct(correction, elsewhere=self._is_elsewhere)
        self._further = self.wire.headers(corrected)
        return jsons.dumps(corrected)

    async def _send(
        self,
        sent: head.Headers,
        content: bytes,
        elsewhere: Callable[[bytes], bytes] | None = None,
        target: bytes | None = None,
    ) -> UpstreamResponse:
        """Send a request to the provider, or to the second one while it is down.

        Args:
            sent: the headers.
            content: the body.
            elsewhere: returns the body for the second provider; None to send it the same one.
            target: path and query; None for the client's.
        """
        target = target or self.request.target
        failover = self.failover
        # No other provider can answer if this one stores a part of the history, or if the client has begun to read its
        # reply.
        is_bound = any(self.body.get(name) for name in _STORED) or (self.client.started and not self._is_elsewhere)
        if failover is None or is_bound:
            return await self.upstream.send(self.counters, "POST", target, sent, content)
        if not self._is_elsewhere:
            answer = await failover.send(self.counters, target, sent, content)
            if answer is not None:
                return answer
            self._answering = failover.second
        content = content if elsewhere is None else elsewhere(content)
        return await failover.send_second(self.counters, target, sent, content)

    @property
    def _is_elsewhere(self) -> bool:
        return self._answering is not self.upstream

    async def _stream(self, answer: UpstreamResponse) -> None:
        """Relay a round's reply as it arrives."""
        is_first = True
        try:
            async for piece in from_first(answer.decode_pieces()):
                if is_first:
                    self._set_form(streams_in(piece, answer.headers))
                    is_first = False
                if out := self.exchange.feed(piece):
                    if not self.client.started:
                        await self._start()
                    await self.client.write(out)
        except BrokenBodyError as error:
            await self._break_off(error)

    def _set_form(self, streams: bool | None) -> None:
        """Accept any form of the first round, streamed or whole; later rounds must have the same."""
        if self.counters.rounds > 1:
            if streams is not self._streams:
                raise self._unusable("continued with a reply in another form")
        elif streams is not None and streams is not self._streams:
            self._streams = streams
            self.exchange.begin_reply(streams)

    async def _record(self, round_: Round) -> Body | None:
        """Record a round; return the next body, or None if the client's reply is complete."""
        try:
            upstream = str(self._answering.url) if self._is_elsewhere else ""
            following = await finish_work(self.exchange.record(round_, upstream))
            self.counters.paid_again(self.exchange.rewritten)
            return following
        except Exception as error:
            if self.strict or round_.alone:
                raise
            # The client's reply is complete, although Wane could not record it.
            report(self.client, self.upstream, error)
            return None

    # What breaks

    async def _pass_on_error(self, answer: UpstreamResponse) -> None:
        """Pass on the provider's error, in the reply if that has begun."""
        self.counters.outcome = "provider_error"
        if self.client.started:
            await self._end(self.exchange.reply.fail(answer.status, await answer.peek(_LONGEST_ERROR)))
        else:
            await relay(self.client, answer)

    async def _shrink_unbegun(self, error: BrokenReplyError) -> bytes | None:
        """Return a smaller request if the stream of the first one says that the view is too long; else None.

        OpenAI's Responses begin with HTTP 200, and say only then that the request is too long.
        """
        exchange = self.exchange
        if not error.reported or self.counters.rounds > 1 or self.client.started:
            return None
        if not await finish_work(exchange.shrink(str(error))):
            return None
        exchange.begin_reply(self._streams)
        self._further = self.wire.headers(exchange.body)
        self._warning = exchange.facts.warning
        self.counters.rounds = 0
        return await self._dump(exchange.body)

    async def _end_broken(self, error: BrokenReplyError) -> None:
        """End a reply that cannot be used: with an error, or as it is, because the client may understand it."""
        refusal = self._cut_off() if error.cut else self._unusable("sent a reply that is not understood")
        why = f"{refusal.message}: {error}"
        _LOGGER.warning("%s: %s", self.counters.what, why)
        if not error.reported and (self.counters.rounds > 1 or self.exchange.reply.hides):
            raise refusal from error
        self._warning = self._warning or why
        await self._end(self.exchange.reply.held_back())

    async def _break_off(self, error: BrokenBodyError) -> NoReturn:
        """Handle a round's reply that broke off, or cannot be decoded."""
        if error.encoded and self.counters.rounds > 1:
            raise self._unusable("sent a reply that cannot be decoded") from error
        refusal = self._cut_off(late=error.late)
        if not self.client.started:
            raise refusal from error
        await self.client.write(self.exchange.reply.held_back())
        raise BrokenOffError from error

    def _cut_off(self, *, late: bool = False) -> RefusedError:
        """Return the error for a reply that stopped before its end, or did not continue in time."""
        self.counters.upstream_error("timeout" if late else "reset")
        self.counters.outcome = "broken"
        return RefusedError(504 if late else 502, f"the reply from {self._answering.origin} broke off")

    def _unusable(self, what: str) -> RefusedError:
        """Return the error for a reply that cannot be used."""
        self.counters.upstream_error("malformed")
        self.counters.outcome = "broken"
        return RefusedError(502, f"{self._answering.origin} {what}")

    async def _fail(self, error: BaseException) -> None:
        """End a request that Wane could not manage: with an error, or passed on as it is."""
        report(self.client, self.upstream, error)
        message = f"Wane could not manage this request: {brief(error)}"
        if self.client.started:
            self.counters.outcome = "broken"
            try:
                last = self.exchange.reply.fail(500, self.wire.error(500, message))
            except Exception:
                raise BrokenOffError from error
            await self._end(last)
            return
        if self.strict:
            raise RefusedError(500, message)
        self.counters.failed_open()
        await self._relay(self.raw, [(head.WARNING, head.text(f"not managed: {brief(error)}"))])

    # What the client gets

    async def _start(self, length: int | None = None) -> None:
        status, provider_headers = self._head
        content_type = self.exchange.reply.content_type
        replaced = head.REWRITTEN if content_type is None else head.REWRITTEN | {b"content-type"}
        headers = [(name, value) for name, value in provider_headers if name not in replaced]
        if content_type is not None:
            headers.append((b"content-type", content_type))
        facts = self.exchange.facts
        used = facts.used + self.counters.used
        headers += [
            (head.SESSION, head.text(facts.session)),
            (head.VIEW, b"%d" % facts.view),
            (head.BUDGET, b"%d" % facts.budget),
            (head.EVICTED, b"%d" % facts.evicted),
            (head.USED_INPUT, b"%d" % used.input),
            (head.USED_OUTPUT, b"%d" % used.output),
        ]
        if self._warning:
            headers.append((head.WARNING, head.text(self._warning)))
        if length is not None:
            headers.append((b"content-length", b"%d" % length))
        self.raw = b""  # no longer needed
        await self.client.start(status, headers)

    async def _end(self, last: bytes) -> None:
        if not self.client.started:
            await self._start(len(last))
        self.exchange.close()
        await self.client.end(last)


def report(client: Client, upstream: Upstream, error: BaseException) -> None:
    """Log a failure of Wane with a client's request, without its keys; a defect with its traceback."""
    detail = str(error) if isinstance(error, WaneError) else "".join(traceback.format_exception(error)).rstrip()
    secrets = [*client.request.secrets, *head.secrets_of(upstream.url.prefix)]
    _LOGGER.warning("%s: %s", client.counters.what, head.scrub(detail, secrets))


def brief(error: BaseException) -> str:
    """Return an error in a few words: the message of one of Wane's own errors, or the type of any other."""
    return str(error) if isinstance(error, WaneError) else type(error).__name__
