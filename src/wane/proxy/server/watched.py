"""A request that a watching proxy passes on as it is, and records once its client has the reply."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from wane.proxy import head
from wane.proxy.http.client import decode_body
from wane.proxy.http.upstream import relay
from wane.proxy.server.exchange import ENCODINGS, Exchange, ModelRequest, report
from wane.proxy.sessions.bodies import BodyReader, ReadBody
from wane.proxy.sessions.sender import sender_of
from wane.proxy.spending.allowances import ReplyReader, paying
from wane.proxy.store.stores import finish_work
from wane.proxy.wire.wire import Body, Round


@dataclass(eq=False, repr=False)
class WatchedRequest(ModelRequest):
    """A model request that is passed on unchanged. Unless a cost limit applies, it is read only after it was sent.

    Attributes:
        bodies: reads the body.
        max_body: bytes that the decoded body may have.
        order: a lock to record requests in the order in which their replies ended.
    """

    bodies: BodyReader
    max_body: int
    order: asyncio.Lock

    async def answer(self, read: ReadBody | None = None, body: Body | None = None, *, counts: bool) -> None:
        """Pass on the request and its reply, then record them. Nothing that Wane does can change or refuse them.

        Args:
            read: the body as it was read; None to read it afterwards.
            body: the same as its protocol reads it.
            counts: whether the request only counts tokens, and asks no model.

        Raises:
            RefusedError: if the provider cannot be reached, or a cost limit does not allow the request.
            BrokenOffError: if the provider's reply breaks off after the client's has started.
            ClientGoneError: if the client disconnects.
        """
        client = self.client
        target = client.request.target
        pieces: list[bytes] = []
        client.watch()
        sent = head.to_upstream(client.request.headers, self.upstream.host, drop=ENCODINGS)
        async with paying(self.allowances, body or {}, len(self.raw), self.upstream.netloc) as payment:
            async with await self.upstream.send(client.counters, "POST", target, sent, self.raw) as answer:
                await relay(client, answer, watch=pieces.append)
            if counts or not answer.ok:
                payment.free()
                return
            try:
                payment.take_cost(await finish_work(self._record_exchange(read, body, answer.headers, pieces)))
            except Exception as error:
                report(client, self.upstream, error)

    async def _record_exchange(
        self, read: ReadBody | None, body: Body | None, headers: head.Headers, pieces: Sequence[bytes]
    ) -> Round | None:
        """Record the request and its reply; return the reply, or None if it cannot be read."""
        request = self.client.request
        counters = self.client.counters
        if read is None or body is None:
            plain = await decode_body(self.raw, request.headers, self.max_body)
            read = await self.bodies.read(plain, self.wire, counters.owner)
            body = self.wire.read_path(read.content, request.path, request.query)
        reader = ReplyReader(self.wire, body, headers)
        for piece in pieces:
            reader.feed(piece)
        round_ = reader.end()
        if round_ is not None:
            round_ = round_.with_bill(str(body.get("model", "")), self.upstream.netloc)
        if self.wire.why_unmanaged(body):
            return round_
        async with self.order:
            sender = sender_of(request.headers, body)
            exchange = Exchange(
                self.sessions,
                self.wire,
                body,
                read,
                size=len(self.raw),
                sender=sender,
                owner=counters.owner,
                watches=True,
            )
            await exchange.locate()
            counters.count_watched(exchange.facts)
            counters.rounds = 1
            await exchange.send_body(self.raw, self.upstream.address(request.target))
            if round_ is not None:
                await exchange.record(round_)
                counters.round(round_, str(body.get("model", "")))
                counters.paid_again(exchange.rewritten)
            exchange.close()
        return round_
