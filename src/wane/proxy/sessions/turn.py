"""One request of a client: rounds with the provider until the reply has something for the client."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Final

from wane.core import DELIMITER, RECALL, Kind, chars
from wane.core.errors import HistoryError, JournalError
from wane.journal import Record
from wane.prices import NO_USAGE
from wane.proxy import jsons
from wane.proxy.sessions.caching import AnsweredPrefix, RewrittenPrefix, SentPrefix
from wane.proxy.sessions.figures import Facts
from wane.proxy.sessions.history import FullHistory
from wane.proxy.sessions.memory import CachedSession
from wane.proxy.sessions.sender import Parentage, prompts_of
from wane.proxy.sessions.session import RequestView
from wane.proxy.store.base import SessionChangedError, in_thread_if
from wane.proxy.wire.base import MAX_ROUNDS, AnsweredRound, Body, Correction, Equipped, Message, OwnCall, Round
from wane.refusals import SHRINKS, TOO_LONG, fitting_budget

_LOGGER: Final = logging.getLogger("wane.proxy")

TRIES: Final = 10
"""Attempts to add to a session while other processes do so too."""

MOST_RECALLS: Final = 4
"""The most calls of `recall` that are answered in one reply, because a page may take a tenth of the budget."""

TOO_MANY: Final = (
    f"Error: `recall` was called {MOST_RECALLS} times in a row, as often as it can be. Work with what these brought: "
    "it answers again after your next call of a tool other than `delimiter`."
)
"""The result of any further call."""


# Not shown, because it holds the conversation.
@dataclass(eq=False, repr=False)
class SessionTurn:
    """One request of a client, from the body sent upstream to the end of the reply.

    Attributes:
        parentage: gets the prompts of the reply's calls that start sub-agents, before the reply ends.
        finished: called once the client's reply is complete.
        cached: the session, which has taken in the request.
        client_body: the client's body.
        equipped: the same with the proxy's own tools.
        history: the whole history, for recall.
        view: the view that the request shows.
        own: names of the proxy's own tools in it; empty if the strategy needs none.
        body: the first body to send upstream.
        latest_body: the latest body; a watching proxy sets it to the one that it has sent.
        facts: figures of the view.
        rewritten: what its latest round paid again; None for nothing.
        large: whether its requests are so large that comparing them is worth a thread.
    """

    parentage: Parentage
    finished: Callable[[CachedSession], None]
    cached: CachedSession
    client_body: Body
    equipped: Equipped
    history: FullHistory
    view: RequestView
    own: frozenset[str]

    def __post_init__(self) -> None:
        cached = self.cached
        assert cached.facts is not None
        self.facts: Facts = cached.facts
        self.rewritten: RewrittenPrefix | None = None
        self.large = False
        self._wire = cached.session.wire
        if self.view.changed:
            cached.caching.passes += 1
        self._number = len(cached.session.entries)  # of the client's message for the reply
        self._rounds: list[Round] = []
        self._answered: list[AnsweredRound] = []
        self._shrinks = 0
        self.body = self.latest_body = self._placed()
        self._marks: list[str] = []  # arguments of the `delimiter` calls so far
        self._recalls = 0
        cached.turns.add(self)

    def refused(self, correction: Correction, *, elsewhere: bool = False) -> None:
        """Apply a correction to all later requests, because the provider has refused reasoning without it.

        The request has already been sent again with it. A correction for the second provider (`elsewhere`) applies to
        requests for that one alone.
        """
        corrections = self.cached.elsewhere if elsewhere else self.cached.corrections
        corrections.append(correction)
        self.latest_body = correction(self.latest_body, self.client_body)

    async def sent(self, body: bytes, url: str) -> None:
        """Record a request that is about to be sent upstream, byte by byte.

        Raises:
            StoreError: in strict mode, if it cannot be stored.
        """
        cached = self.cached
        if cached.receipts is None:
            return
        # For a larger request only the digest is stored.
        keep = cached.keeps_requests and len(body) <= 32 * 1024 * 1024

        async def receipt() -> Sequence[Record]:
            assert cached.receipts is not None
            return [await in_thread_if(self.large, partial(cached.receipts.of, body, url, keep=keep))]

        await self._append(receipt, "a request")

    def elsewhere(self, content: bytes) -> bytes:
        """Return a request corrected for the second provider, as its refusals in this session require."""
        corrections = self.cached.elsewhere
        if not corrections:
            return content
        body = jsons.loads(content)
        for correction in corrections:
            body = correction(body, self.client_body)
        return jsons.dumps(body)

    async def answered(self, round_: Round, upstream: str = "") -> Body | None:
        """Take in a reply of the provider.

        Args:
            round_: the reply.
            upstream: the second provider's address if that one answered, which has a cache of its own; else empty.

        Returns:
            The next body to send upstream, if the model called only own tools; None if the client's reply is complete
            and recorded, so that the server may end it.
        """
        self._rounds.append(round_)
        results = self._wire.results(self._answers(round_.own)) if round_.own else ()
        self._answered.append(AnsweredRound(round_.message, results))
        self.rewritten = await self._paid_again(round_, upstream)
        over = not round_.alone or len(self._rounds) >= MAX_ROUNDS
        await self._record(over=over)
        if over:
            await self._note_prompts(round_.message)
            return None
        await self._make_room()
        self.latest_body = self._placed()
        return self.latest_body

    async def too_long(self, message: str) -> Body | None:
        """Return a smaller body in place of one that the provider refused as too long; None if there is none.

        The provider's count and limit calibrate the session's budget, which stays lowered.

        Args:
            message: the provider's words.
        """
        session = self.cached.session
        if self._shrinks == SHRINKS or not TOO_LONG.search(message) or not session.engine.traits.bounded:
            return None
        before = session.engine.tokens
        extra = sum(part.item(chars, 0).tokens for each in self._extra() for part in self._wire.format.parts(each))
        budget = fitting_budget(message, before + extra)
        if budget is None or budget < 1:
            _LOGGER.warning(
                "session %s: the provider refuses a view of %s tokens as too long (%s): what fills its window is not "
                "counted in the view. The budget stays",
                self.facts.session,
                f"{before:,}",
                message,
            )
            return None
        self._shrinks += 1
        if not await self._make_room(budget) or session.engine.tokens >= before:
            return None
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
        self.latest_body = self._placed()
        return self.latest_body

    def _extra(self) -> list[Message]:
        """Return the messages of the rounds so far, which are not in the history yet."""
        extra: list[Message] = []
        for answered in self._answered:
            extra += [answered.message, *answered.results]
        return extra

    def _placed(self) -> Body:
        """Return the body of the next round."""
        last = len(self._rounds) == MAX_ROUNDS - 1
        equipped = self._wire.equip(self.client_body, [], "") if last else self.equipped
        body = self.cached.placed(equipped, self.view, self._extra())
        if not self._rounds and self.view.reminder is not None and DELIMITER in self.own:
            body = self._wire.noted(body, self.view.reminder)
        return body

    async def _paid_again(self, round_: Round, upstream: str) -> RewrittenPrefix | None:
        body = self.latest_body
        large = self.large
        messages = self._wire.messages(body)
        prefix = await in_thread_if(large, lambda: SentPrefix.of(body, messages, large=large))
        answer = AnsweredPrefix(
            prefix, (round_.usage or NO_USAGE).of_request, datetime.now(UTC), upstream, round_.cache_miss
        )
        return self.cached.caching.answered(answer)

    async def _note_prompts(self, message: Message) -> None:
        """Note the prompts of calls that start sub-agents."""
        prompts: list[str] = []
        for part in self._wire.format.parts(message):
            if part.kind is Kind.CALL:
                prompts += prompts_of(part.tool or "", part.arguments)
        await self.parentage.handed_over(self.cached.sender, self.cached.id, prompts)

    async def _make_room(self, budget: int | None = None) -> bool:
        """Run a pass if the rounds so far take the request over its budget; return whether the view has changed.

        Args:
            budget: what the budget is lowered to before; None to leave it.
        """
        cached = self.cached
        try:
            async with cached.held():
                session = cached.session
                if session.engine.item_count == self.history.items:
                    records = [] if budget is None else session.shrink(budget)
                    view = session.fit(self.history, self.equipped.body, extra_messages=self._extra())
                    await cached.append([*records, *view.records])
                    if view.changed:
                        cached.caching.passes += 1
                    self.view = view
                    return view.changed
        except (JournalError, HistoryError, SessionChangedError) as error:
            # Another process has continued the session: the view stays as it is.
            _LOGGER.warning("session %s: %s", self.facts.session, error)
        return False

    def _answers(self, calls: Sequence[OwnCall]) -> list[tuple[OwnCall, str]]:
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
                result = session.recall(call, self.history)
            answers.append((call, result))
        return answers

    async def _record(self, *, over: bool) -> None:
        async def reply() -> Sequence[Record]:
            return self._reply_records(over=over)

        try:
            await self._append(reply, "a reply")
        finally:
            if over:
                self.finished(self.cached)

    def _reply_records(self, *, over: bool) -> Sequence[Record]:
        session = self.cached.session
        usage = self._rounds[-1].usage or NO_USAGE
        records: list[Record] = []
        if self.rewritten is not None:
            records.append(self.rewritten.note())
        # Once another request has added to the session, this usage no longer tells the size of the view.
        if session.engine.item_count == self.history.items:
            records += session.observe(usage, self.facts.model)
        else:
            records += session.paid(usage, self.facts.model)
        if over:
            records += session.keep(self._rounds, self._answered, self._number)
        return records

    async def _append(self, make: Callable[[], Awaitable[Sequence[Record]]], what: str) -> None:
        """Append records to the session, and make them again if another process has added to it in the meantime."""
        try:
            for tries_left in reversed(range(TRIES)):
                try:
                    async with self.cached.held():
                        await self.cached.append(await make())
                    return
                except SessionChangedError:
                    if not tries_left:
                        raise
        except (JournalError, HistoryError, SessionChangedError) as error:
            # Another process has continued the session differently. The client still gets its reply.
            _LOGGER.warning("session %s: %s was not recorded: %s", self.facts.session, what, error)
