"""One managed request: the rounds with the provider that make the client's one reply."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NoReturn, TypeVar

import httpx2

from wane.proxy import jsons
from wane.proxy.http import form, headers
from wane.proxy.http.access import Line
from wane.proxy.http.address import secrets_of
from wane.proxy.http.client import Client
from wane.proxy.http.faults import BrokenOffError, OwnFailureError, RefusedError, detail, told
from wane.proxy.http.limits import dumped
from wane.proxy.http.request import Request
from wane.proxy.http.upstream import Answer, Upstream
from wane.proxy.server.apis import tally_for
from wane.proxy.server.passthrough import ask, pass_on, relay
from wane.proxy.server.settings import ReportedUsage
from wane.proxy.server.traffic import Exchange
from wane.proxy.sessions.base import Sessions, Turn
from wane.proxy.wire.base import MAX_ROUNDS, NO_USAGE, Body, BrokenReplyError, Reply, Round, Wire

_LOGGER: Final = logging.getLogger("wane.proxy")
_MENDED: Final = 2
"""How often a request that was refused for its reasoning is sent again in another way."""
_LONGEST_ERROR: Final = 1024 * 1024
"""Bytes of a provider's error that are looked at; what is longer is passed on as it comes."""

_REMADE: Final = headers.REWRITTEN | {b"accept-encoding"}
_READABLE: Final = (b"", b"gzip", b"deflate")
"""Content encodings of replies that can be undone; none is asked for."""
_T = TypeVar("_T")


class Managed:
    """A model request whose view Wane makes.

    Args:
        upstream: the provider.
        sessions: the sessions.
        wire: the request's protocol.
        client: the client.
        request: the head of its request.
        raw: the body as it came.
        body: the body, parsed.
        exchange: is told how it goes.
        line: the line in the log.
        strict: whether the client gets an error when Wane fails, instead of what it asked for without Wane.
        usage: what clients are told of the usage of several rounds.
    """

    def __init__(
        self,
        upstream: Upstream,
        sessions: Sessions,
        wire: Wire,
        client: Client,
        request: Request,
        raw: bytes,
        body: Body,
        exchange: Exchange,
        line: Line,
        *,
        strict: bool,
        usage: ReportedUsage,
    ) -> None:
        self._upstream, self._sessions, self._wire = upstream, sessions, wire
        self._client, self._request = client, request
        self._raw, self._body = raw, body
        self._exchange, self._line = exchange, line
        self._strict = strict
        self._tally = tally_for(usage, request.headers)
        self._used = NO_USAGE  # by the rounds that are over
        self._head: tuple[int, headers.Headers] = (200, [])
        self._warning = ""
        # What makes the client's reply, once there is a turn; and whether the provider streams it.
        self._reply: Reply
        self._streams = bool(body.get("stream"))
        # Headers that a body asks for, besides the client's.
        self._more: Mapping[str, str] = {}

    async def reply(self) -> None:
        """Give the client its reply.

        Raises:
            RefusedError: if the provider cannot be asked, or Wane fails and is to be strict.
            BrokenOffError: if the provider's reply breaks off after its beginning went to the client.
            ClientGoneError: if the client goes away.
        """
        try:
            if await self._left_alone():
                return
            size = len(self._raw)
            with _ours():
                turn = await _unbroken(self._sessions.turn(self._wire, self._body, size=size))
                self._reply = self._wire.reply(self._body, turn.own, self._tally)
                self._more = self._wire.headers(turn.body)
                first = await dumped(turn.body, size)
        except OwnFailureError as failure:
            await self._failed(failure.__cause__ or failure)
            return
        self._line.facts = turn.facts
        self._warning = turn.facts.note
        self._exchange.prepared(turn.facts)
        try:
            await self._rounds(turn, first)
        except OwnFailureError as failure:
            await self._failed(failure.__cause__ or failure, turn)

    async def count(self) -> None:
        """Have the provider count the tokens of what would be sent.

        Raises:
            RefusedError: as `reply` does.
            BrokenOffError: likewise.
            ClientGoneError: likewise.
        """
        try:
            if await self._left_alone():
                return
            with _ours():
                counted = await _unbroken(self._sessions.peek(self._wire, self._body))
                content = await dumped(counted, len(self._raw))
        except OwnFailureError as failure:
            await self._failed(failure.__cause__ or failure)
            return
        self._exchange.outcome = "managed"
        await self._relay(content, [])

    async def _left_alone(self) -> bool:
        """Pass the request on as it is, if it cannot or need not be managed."""
        with _ours():
            reason = self._wire.unmanaged(self._body)
            refusal = None if reason else self._wire.refusal(self._body)
        if refusal:
            raise RefusedError(400, refusal)
        if reason:
            extra = [(headers.UNMANAGED, headers.text(reason))]
            shortened = await self._shortened()
            await (self._pass_on(extra) if shortened is None else self._relay(shortened, extra))
        return bool(reason)

    async def _relay(self, content: bytes, extra: headers.Headers) -> None:
        """Send another body than the client's, and give it what comes back."""
        self._client.watch()
        sent = headers.to_upstream(self._request.headers, self._upstream.host, drop=headers.REWRITTEN)
        async with await self._send(sent, content) as answer:
            if not answer.ok:
                self._exchange.outcome = "provider_error"
            await relay(self._client, self._exchange, answer, extra)

    async def _shortened(self) -> bytes | None:
        """What a request that is not managed becomes, if it goes on with a session that is."""
        try:
            with _ours():
                body = await self._sessions.shortened(self._wire, self._body)
                return None if body is None else await dumped(body, len(self._raw))
        except OwnFailureError as failure:
            _LOGGER.debug("%s: passed on as it is: %s", self._line.what, told(failure.__cause__ or failure))
            return None

    # The rounds

    async def _rounds(self, turn: Turn, content: bytes) -> None:
        for _ in range(MAX_ROUNDS):
            round_ = await self._round(turn, content)
            if round_ is None:
                return
            following = await self._answered(turn, round_)
            if following is None:
                break
            with _ours():
                content = await dumped(following, len(content))
        with _ours():
            last = self._reply.finish()
        self._exchange.outcome = "managed"
        await self._end(turn, last)

    async def _round(self, turn: Turn, content: bytes) -> Round | None:
        """Ask once, and give the client what comes; None if that is all that it gets."""
        self._line.rounds += 1
        try:
            async with await self._ask(turn, content) as answer:
                if not answer.ok:
                    await self._refused(turn, answer)
                    return None
                if answer.encoding not in _READABLE:
                    raise self._unusable("answers in an encoding that nobody asked for")
                if self._line.rounds == 1:
                    self._head = answer.status, answer.headers
                await self._feed(turn, answer)
                return await self._over(turn)
        except RefusedError as refusal:
            if not self._client.started:
                raise
            await self._give_up(turn, refusal.status, self._wire.error(refusal.status, refusal.message))
            return None

    async def _ask(self, turn: Turn, content: bytes) -> Answer:
        """Ask the provider; again in another way, while it refuses reasoning in a way that is known."""
        sent = headers.to_upstream(self._request.headers, self._upstream.host, drop=_REMADE)
        sent.append((b"accept-encoding", b"identity"))
        answer = await self._send(headers.added(sent, self._more), content)
        for _ in range(_MENDED):
            if answer.ok or answer.status >= 500 or answer.encoding:
                break
            mended = await self._mended(turn, answer, content)
            if mended is None:
                break
            content = mended
            answer = await self._send(headers.added(sent, self._more), content)
        return answer

    async def _mended(self, turn: Turn, answer: Answer, content: bytes) -> bytes | None:
        """What to send in place of a request that was refused; None if the refusal is the client's."""
        try:
            error = await answer.begin(_LONGEST_ERROR)
            with _ours():
                body = jsons.loads(content)
                mending = self._wire.mending(answer.status, error, body, self._body)
                mended = body if mending is None else mending(body, self._body)
                again = None if mended is body else jsons.dumps(mended)
        except BaseException:
            await answer.close()
            raise
        if again is not None and mending is not None:
            await answer.close()
            turn.refused(mending)
            self._more = self._wire.headers(mended)
        return again

    async def _send(self, sent: headers.Headers, content: bytes) -> Answer:
        framed = [*sent, (b"content-length", b"%d" % len(content))]
        return await ask(self._upstream, self._exchange, "POST", self._request.target, framed, content)

    async def _feed(self, turn: Turn, answer: Answer) -> None:
        """Give the client what comes, as it comes."""
        client, begun = self._client, False
        try:
            async for piece in form.from_first(answer.decoded()):
                if not begun:
                    self._form(turn, form.streams(piece, answer.headers))
                    begun = True
                try:
                    out = self._reply.feed(piece)
                except Exception as error:
                    raise OwnFailureError from error
                if out:
                    if not client.started:
                        await self._start(turn)
                    await client.give(out)
        except httpx2.HTTPError as error:
            await self._broken_off(error)

    def _form(self, turn: Turn, streams: bool | None) -> None:
        """Take a reply in the form that it comes in, whatever was asked for; all rounds have that of the first."""
        if self._line.rounds > 1:
            if streams is not self._streams:
                raise self._unusable("goes on with a reply in another form")
        elif streams is not None and streams is not self._streams:
            self._streams = streams
            with _ours():
                self._reply = self._wire.reply({**self._body, "stream": streams}, turn.own, self._tally)

    async def _broken_off(self, error: httpx2.HTTPError) -> NoReturn:
        """The provider's body of a round has not come to its end, or cannot be decoded."""
        if isinstance(error, httpx2.DecodingError) and self._line.rounds > 1:
            raise self._unusable("sends a reply that cannot be decoded") from error
        late = isinstance(error, httpx2.TimeoutException)
        self._exchange.upstream_error("timeout" if late else "reset")
        self._exchange.outcome = "broken"
        if not self._client.started:
            raise RefusedError(504 if late else 502, f"the reply of {self._upstream.url.origin} broke off") from error
        await self._client.give(self._reply.rest())
        raise BrokenOffError from error

    async def _over(self, turn: Turn) -> Round | None:
        """The provider's body of a round is over."""
        try:
            with _ours():
                round_ = self._reply.end()
        except BrokenReplyError as error:
            if not error.told and (self._line.rounds > 1 or self._reply.hides):
                _LOGGER.warning("%s: the provider's reply was not understood: %s", self._line.what, error)
                raise self._unusable("sends a reply that is not understood") from error
            # As it came: the client knows best what to make of it.
            self._exchange.upstream_error("malformed")
            self._exchange.outcome = "broken"
            self._warning = self._warning or f"the provider's reply was not understood: {error}"
            _LOGGER.warning("%s: %s", self._line.what, self._warning)
            await self._end(turn, self._reply.rest())
            return None
        self._exchange.round(round_, str(self._body.get("model", "")))
        self._used += round_.usage or NO_USAGE
        return round_

    def _unusable(self, what: str) -> RefusedError:
        """An answer of the provider that is good for nothing, and cannot be the client's as it is."""
        self._exchange.upstream_error("malformed")
        self._exchange.outcome = "broken"
        return RefusedError(502, f"{self._upstream.url.origin} {what}")

    async def _answered(self, turn: Turn, round_: Round) -> Body | None:
        try:
            with _ours():
                return await _unbroken(turn.answered(round_))
        except OwnFailureError as failure:
            if self._strict or round_.alone:
                raise
            # The reply is whole, and the client's; only Wane has not taken it in.
            self._warn(failure.__cause__ or failure)
            return None

    # What the client gets

    async def _start(self, turn: Turn, length: int | None = None) -> None:
        status, given = self._head
        facts = turn.facts
        extra: headers.Headers = [
            (headers.SESSION, headers.text(facts.session)),
            (headers.VIEW, b"%d" % facts.view),
            (headers.BUDGET, b"%d" % facts.budget),
            (headers.EVICTED, b"%d" % facts.evicted),
        ]
        used = facts.used + self._used
        extra += [(headers.USED_INPUT, b"%d" % used.input), (headers.USED_OUTPUT, b"%d" % used.output)]
        if self._warning:
            extra.append((headers.WARNING, headers.text(self._warning)))
        if length is not None:
            extra.append((b"content-length", b"%d" % length))
        self._raw = b""  # of no use any more
        kept = [(name, value) for name, value in given if name not in headers.REWRITTEN]
        await self._client.start(status, [*kept, *extra])

    async def _end(self, turn: Turn, last: bytes) -> None:
        if not self._client.started:
            await self._start(turn, len(last))
        await self._client.end(last)

    async def _refused(self, turn: Turn, answer: Answer) -> None:
        """The provider answers with an error: the client's as it is, or told in a reply that has begun."""
        self._exchange.outcome = "provider_error"
        if not self._client.started:
            await relay(self._client, self._exchange, answer)
            return
        await self._give_up(turn, answer.status, await answer.begin(_LONGEST_ERROR))

    async def _give_up(self, turn: Turn, status: int, error: bytes) -> None:
        """Tell of an error in a reply that has begun."""
        with _ours():
            last = self._reply.fail(status, error)
        await self._end(turn, last)

    # When Wane fails

    async def _failed(self, error: BaseException, turn: Turn | None = None) -> None:
        self._warn(error)
        message = f"Wane could not manage this request: {told(error)}"
        if self._client.started and turn is not None:
            self._exchange.outcome = "broken"
            try:
                await self._give_up(turn, 500, self._wire.error(500, message))
            except OwnFailureError:
                raise BrokenOffError from error
            return
        if self._strict:
            raise RefusedError(500, message)
        self._exchange.failed_open()
        self._line.facts = None
        await self._pass_on([(headers.WARNING, headers.text(f"not managed: {told(error)}"))])

    async def _pass_on(self, extra: headers.Headers) -> None:
        await pass_on(self._upstream, self._client, self._request, self._exchange, self._raw, extra)

    def _warn(self, error: BaseException) -> None:
        report(self._line.what, error, [*self._request.secrets, *secrets_of(self._upstream.url.prefix)])


def report(what: str, error: BaseException, known: Sequence[str]) -> None:
    """Log that something in Wane failed; where, too, if it is a defect.

    Args:
        what: the request.
        error: what was raised.
        known: secrets of the request.
    """
    _LOGGER.warning("%s: %s", what, headers.scrub(detail(error), known))


@contextmanager
def _ours() -> Iterator[None]:
    """Take whatever is raised, but for a broken reply, for a failure of Wane."""
    try:
        yield
    except BrokenReplyError:
        raise
    except Exception as error:
        raise OwnFailureError from error


async def _unbroken(work: Coroutine[Any, Any, _T]) -> _T:
    """Wait for work that goes on to its end even if the client goes away: a session is not left half recorded."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        raise
