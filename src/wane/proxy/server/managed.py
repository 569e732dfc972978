"""A managed request: the rounds with the provider that make up the client's reply."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NoReturn

import httpx2

from wane.core.errors import WaneError
from wane.proxy import head, jsons
from wane.proxy.head import RefusedError
from wane.proxy.http.client import LARGE, Client, ClientGoneError, dumped
from wane.proxy.http.failover import Failover
from wane.proxy.http.upstream import BrokenOffError, Upstream, UpstreamResponse, from_first, relay, streams_in
from wane.proxy.sessions.index import SessionIndex
from wane.proxy.sessions.sender import sender_of
from wane.proxy.sessions.turn import SessionTurn
from wane.proxy.spending.allowances import Allowance, ReplyReader, paying
from wane.proxy.store.base import uninterrupted
from wane.proxy.wire.base import MAX_ROUNDS, Body, BrokenReplyError, Reply, Round, Wire
from wane.refusals import SHRINKS, message_of

_LOGGER: Final = logging.getLogger("wane.proxy")
_RETRIES: Final = 2  # how often a request that was refused for its reasoning is corrected and sent again
_TOO_LONG: Final = (400, 413, 422)  # statuses of a refusal of a prompt that is too long
_LONGEST_ERROR: Final = 1024 * 1024  # bytes of a provider's error to read; the rest is passed on unread

ENCODINGS: Final = frozenset({b"accept-encoding"})
"""Headers to leave out of a request, so that its reply can be read as it passes."""

_REMADE: Final = head.REWRITTEN | {b"accept-encoding"}
_STORED: Final = (
    *("previous_response_id", "conversation", "thread"),
    *("cachedContent", "cached_content", "continuationToken", "continuation_token"),
)
"""Fields of a body that refer to something that only its provider has."""

_READABLE: Final = (b"", b"gzip", b"deflate")  # encodings of replies that can be decoded, although none is asked for


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
    """A model request whose view Wane decides.

    Attributes:
        failover: asks another upstream while the provider is down; None if there is none.
        body: the body, as its protocol reads it.
        strict: whether the client gets an error if Wane fails; otherwise the request is passed on unchanged.
        sums: whether to report the usage of all rounds to the client, and not that of the last one.
    """

    failover: Failover | None
    body: Body
    strict: bool
    sums: bool

    def __post_init__(self) -> None:
        self.request = self.client.request
        self.counters = self.client.counters
        self._head: tuple[int, head.Headers] = (200, [])
        self._warning = ""
        # A smaller request to send instead of one that was refused in the middle of its reply.
        self._smaller: bytes | None = None
        # These two exist once the session has taken in the request.
        self._turn: SessionTurn
        self._reply: Reply
        # The later rounds of a reply go to the upstream that answered the first one.
        self._answering = self.upstream
        self._streams = bool(self.body.get("stream"))
        # Headers that the body needs besides the client's.
        self._more: Mapping[str, str] = {}

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
            if reason := self.wire.unmanaged(self.body):
                await self._relay(await self._shortened(), [(head.UNMANAGED, head.text(reason))])
                return
            if refusal := self.wire.refusal(self.body):
                raise RefusedError(400, refusal)
            size = len(self.raw)
            if counts:
                counted = await uninterrupted(self.sessions.peek(self.wire, self.body, self.counters.owner))
                content = await self._dumped(counted, size, counts=True)
                self.counters.outcome = "managed"
                await self._relay(content, [])
                return
            sender = sender_of(self.request.headers, self.body)
            owner = self.counters.owner
            work = self.sessions.turn(self.wire, self.body, size=size, sender=sender, owner=owner)
            self._turn = turn = await uninterrupted(work)
            turn.large = size > LARGE
            self.counters.sending = lambda body, url: uninterrupted(turn.sent(body, url))
            self._reply = self.wire.reply(self.body, turn.own, sums=self.sums)
            self._more = self.wire.headers(turn.body)
            content = await self._dumped(turn.body, size)
            self._warning = turn.facts.warning
            self.counters.prepared(turn.facts)
            await self._rounds(content)
        except (RefusedError, BrokenOffError, ClientGoneError):
            raise
        except Exception as error:
            await self._failed(error)

    async def _dumped(self, body: Body, size: int, *, counts: bool = False) -> bytes:
        return await dumped(self.wire.outgoing(body, self.request.path, counts=counts), size)

    async def _shortened(self) -> bytes:
        """Return the client's body, with the view in place of its history if it continues a managed session."""
        try:
            body = await self.sessions.shortened(self.wire, self.body, self.counters.owner)
            if body is not None:
                return await self._dumped(body, len(self.raw))
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
        async with paying(self.allowances, self.body, len(content)) as payment:
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
                payment.used(reader.end())

    # The rounds

    async def _rounds(self, content: bytes) -> None:
        for _ in range(MAX_ROUNDS):
            round_ = await self._round(content)
            while self._smaller is not None:
                content, self._smaller = self._smaller, None
                round_ = await self._round(content)
            if round_ is None:
                return
            following = await self._answered(round_)
            if following is None:
                break
            content = await self._dumped(following, len(content))
        last = self._reply.finish()
        self.counters.outcome = "managed"
        await self._end(last)

    async def _round(self, content: bytes) -> Round | None:
        """Send one request and relay the reply; return None if the client's reply is complete with it."""
        self.counters.rounds += 1
        try:
            async with paying(self.allowances, self.body, len(content)) as payment, await self._ask(content) as answer:
                if not answer.ok:
                    payment.free()
                    self.counters.outcome = "provider_error"
                    if self.client.started:
                        await self._end(self._reply.fail(answer.status, await answer.peek(_LONGEST_ERROR)))
                    else:
                        await relay(self.client, answer)
                    return None
                if answer.encoding not in _READABLE:
                    raise self._unusable("answered in an encoding that was not asked for")
                if self.counters.rounds == 1:
                    self._head = answer.status, answer.headers
                await self._feed(answer)
                round_ = await self._end_round(len(content))
                if self._smaller is not None:
                    payment.free()
                else:
                    payment.used(round_)
                return round_
        except RefusedError as refusal:
            if not self.client.started:
                raise
            error = self.wire.error(refusal.status, refusal.message)
            await self._end(self._reply.fail(refusal.status, error))
            return None

    async def _ask(self, content: bytes) -> UpstreamResponse:
        """Ask the provider; if it refuses reasoning in a known way, or a view as too long, mend it and ask again."""
        sent = head.to_upstream(self.request.headers, self.upstream.host, drop=_REMADE)
        sent.append((b"accept-encoding", b"identity"))
        target = self.wire.target(self.body, self.request.target)
        answer = await self._send(head.added(sent, self._more), content, self._turn.elsewhere, target)
        for _ in range(_RETRIES + SHRINKS):
            if answer.ok or answer.status >= 500 or answer.encoding:
                break
            corrected = await self._corrected(answer, content)
            if corrected is None:
                break
            content = corrected
            answer = await self._send(head.added(sent, self._more), content, self._turn.elsewhere, target)
        return answer

    async def _corrected(self, answer: UpstreamResponse, content: bytes) -> bytes | None:
        """Return the corrected request to send instead of a refused one; None to pass the refusal on to the client."""
        try:
            error = await answer.peek(_LONGEST_ERROR)
            body = jsons.loads(self._turn.elsewhere(content) if self._is_elsewhere else content)
            correction = self.wire.correction(answer.status, error, body, self.body)
            if correction is None:
                smaller = None
                if answer.status in _TOO_LONG:
                    smaller = await uninterrupted(self._turn.too_long(message_of(error)))
                if smaller is None:
                    return None
                await answer.close()
                self._more = self.wire.headers(smaller)
                self._warning = self._turn.facts.warning
                return await self._dumped(smaller, len(content))
            corrected = correction(body, self.body)
            if corrected is body:
                return None
            content = jsons.dumps(corrected)
        except BaseException:
            await answer.close()
            raise
        await answer.close()
        self._turn.refused(correction, elsewhere=self._is_elsewhere)
        self._more = self.wire.headers(corrected)
        return content

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

    async def _feed(self, answer: UpstreamResponse) -> None:
        """Relay a round's reply as it arrives."""
        is_first = True
        try:
            async for piece in from_first(answer.decoded()):
                if is_first:
                    self._set_form(streams_in(piece, answer.headers))
                    is_first = False
                if out := self._reply.feed(piece):
                    if not self.client.started:
                        await self._start()
                    await self.client.write(out)
        except httpx2.HTTPError as error:
            await self._broken_off(error)

    def _set_form(self, streams: bool | None) -> None:
        """Accept any form of the first round, streamed or whole; later rounds must have the same."""
        if self.counters.rounds > 1:
            if streams is not self._streams:
                raise self._unusable("continued with a reply in another form")
        elif streams is not None and streams is not self._streams:
            self._streams = streams
            self._reply = self.wire.reply({**self.body, "stream": streams}, self._turn.own, sums=self.sums)

    async def _broken_off(self, error: httpx2.HTTPError) -> NoReturn:
        """Handle a round's reply that broke off, or cannot be decoded."""
        if isinstance(error, httpx2.DecodingError) and self.counters.rounds > 1:
            raise self._unusable("sent a reply that cannot be decoded") from error
        refusal = self._cut_off(late=isinstance(error, httpx2.TimeoutException))
        if not self.client.started:
            raise refusal from error
        await self.client.write(self._reply.held_back())
        raise BrokenOffError from error

    async def _end_round(self, size: int) -> Round | None:
        """Return the complete round; None if its reply cannot be used, and was passed on or is asked for again."""
        try:
            round_ = self._reply.end()
        except BrokenReplyError as error:
            # OpenAI's Responses begin with HTTP 200, and say only then that the request is too long.
            if error.reported and self.counters.rounds == 1 and not self.client.started:
                smaller = await uninterrupted(self._turn.too_long(str(error)))
                if smaller is not None:
                    self._reply = self.wire.reply(
                        {**self.body, "stream": self._streams}, self._turn.own, sums=self.sums
                    )
                    self._warning = self._turn.facts.warning
                    self._more = self.wire.headers(smaller)
                    self.counters.rounds = 0
                    self._smaller = await self._dumped(smaller, size)
                    return None
            refusal = self._cut_off() if error.cut else self._unusable("sent a reply that is not understood")
            why = f"{refusal.message}: {error}"
            _LOGGER.warning("%s: %s", self.counters.what, why)
            if not error.reported and (self.counters.rounds > 1 or self._reply.hides):
                raise refusal from error
            # It is passed on unchanged: the client may understand it.
            self._warning = self._warning or why
            await self._end(self._reply.held_back())
            return None
        self.counters.round(round_, str(self.body.get("model", "")))
        return round_

    def _cut_off(self, *, late: bool = False) -> RefusedError:
        """Return the error for a reply that stopped before its end, or did not continue in time."""
        self.counters.upstream_error("timeout" if late else "reset")
        self.counters.outcome = "broken"
        return RefusedError(504 if late else 502, f"the reply from {self._answering.url.origin} broke off")

    def _unusable(self, what: str) -> RefusedError:
        """Return the error for a reply that cannot be used."""
        self.counters.upstream_error("malformed")
        self.counters.outcome = "broken"
        return RefusedError(502, f"{self._answering.url.origin} {what}")

    async def _answered(self, round_: Round) -> Body | None:
        try:
            upstream = str(self._answering.url) if self._is_elsewhere else ""
            following = await uninterrupted(self._turn.answered(round_, upstream))
            self.counters.paid_again(self._turn.rewritten)
            return following
        except Exception as error:
            if self.strict or round_.alone:
                raise
            # The client's reply is complete, although Wane could not record it.
            report(self.client, self.upstream, error)
            return None

    # What the client gets

    async def _start(self, length: int | None = None) -> None:
        status, provider_headers = self._head
        content_type = self._reply.content_type
        replaced = head.REWRITTEN if content_type is None else head.REWRITTEN | {b"content-type"}
        headers = [(name, value) for name, value in provider_headers if name not in replaced]
        if content_type is not None:
            headers.append((b"content-type", content_type))
        facts = self._turn.facts
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
        await self.client.end(last)

    async def _failed(self, error: BaseException) -> None:
        """End a request that Wane could not manage: with an error, or passed on as it is."""
        report(self.client, self.upstream, error)
        message = f"Wane could not manage this request: {brief(error)}"
        if self.client.started:
            self.counters.outcome = "broken"
            try:
                last = self._reply.fail(500, self.wire.error(500, message))
            except Exception:
                raise BrokenOffError from error
            await self._end(last)
            return
        if self.strict:
            raise RefusedError(500, message)
        self.counters.failed_open()
        await self._relay(self.raw, [(head.WARNING, head.text(f"not managed: {brief(error)}"))])


def report(client: Client, upstream: Upstream, error: BaseException) -> None:
    """Log a failure of Wane with a client's request, without its keys; a defect with its traceback."""
    detail = str(error) if isinstance(error, WaneError) else "".join(traceback.format_exception(error)).rstrip()
    secrets = [*client.request.secrets, *head.secrets_of(upstream.url.prefix)]
    _LOGGER.warning("%s: %s", client.counters.what, head.scrub(detail, secrets))


def brief(error: BaseException) -> str:
    """Return an error in a few words: the message of one of Wane's own errors, or the type of any other."""
    return str(error) if isinstance(error, WaneError) else type(error).__name__
