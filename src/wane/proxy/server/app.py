"""The proxy as an ASGI app, which admits requests and routes them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from wane.proxy import head
from wane.proxy.head import Guard, RefusedError, RequestHead, Scope, check, head_of
from wane.proxy.http.client import Client, ClientGoneError, Receive, Send, decode_body, read_body
from wane.proxy.http.failover import Failover
from wane.proxy.http.upstream import STOPPED, BrokenOffError, Upstream, pass_on
from wane.proxy.server.exchange import ManagedRequest, report
from wane.proxy.server.watched import WatchedRequest
from wane.proxy.sessions.bodies import BodyReader
from wane.proxy.sessions.session_index import SessionIndex
from wane.proxy.settings import ServerSettings
from wane.proxy.spending.allowances import Allowance, allowance_of
from wane.proxy.store.stores import StoreError
from wane.proxy.team.members import Member
from wane.proxy.team.roster import Roster
from wane.proxy.traffic import OTHER, Traffic
from wane.proxy.wire.anthropic.anthropic_wire import AnthropicWire
from wane.proxy.wire.chat.chat_wire import OpenAIChatWire
from wane.proxy.wire.gemini.gemini_wire import GeminiWire
from wane.proxy.wire.responses.responses_wire import OpenAIResponsesWire
from wane.proxy.wire.wire import Wire

STATUS: Final = "/wane"  # the path of the status pages
HEALTH: Final = f"{STATUS}/health"  # of the liveness check
READY: Final = f"{STATUS}/ready"  # of the readiness check: 503 while the proxy stops, or sessions cannot be stored

App = Callable[[Scope, Receive, Send], Awaitable[None]]
"""An ASGI app."""


class Api(NamedTuple):
    """The protocol of a request, and whether it only counts tokens and asks no model."""

    wire: Wire
    counts: bool


Wires = Mapping[str, Wire]
"""The protocols by name: `anthropic`, `openai`, `openai_responses` and `gemini`."""

UNCOUNTED: Final = "the cost of this request is not known, and does not count for --max-cost"
"""The warning for requests that a cost limit does not cover, such as those for embeddings."""


@dataclass(eq=False, repr=False)
class ProxyApp:
    """The proxy, as a plain ASGI app.

    It uses no framework: the routes of one cannot match any prefix, and its streaming responses would delay each token
    by tasks and queues.

    Attributes:
        status: the app below `/wane`.
        roster: the members of a team; None for no team.
        failover: asks a second upstream while the provider is down; None if there is none.
        stopping: whether readiness checks fail, because the proxy is about to stop.
    """

    settings: ServerSettings
    sessions: SessionIndex
    wires: Wires
    upstream: Upstream
    traffic: Traffic
    status: App
    roster: Roster | None = None
    failover: Failover | None = None
    stopping: bool = False

    def __post_init__(self) -> None:
        settings = self.settings
        self._allowance = allowance_of(self.sessions.store, settings.max_cost, settings.cost_period)
        self._guard = Guard(settings.token, settings.listen.host, None if self.roster is None else self.roster.holder)
        self._live: set[asyncio.Task[Any]] = set()
        self._order = asyncio.Lock()  # for watched requests
        self._bodies = BodyReader()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        task = asyncio.current_task()
        assert task is not None
        self._live.add(task)
        try:
            await self._serve(scope, receive, send)
        finally:
            self._live.discard(task)

    def abandon(self) -> None:
        """Abort all open requests, with an error for the clients whose reply has not started."""
        self.upstream.stopped = True
        if self.failover is not None:
            self.failover.second.stopped = True
        for task in self._live:
            task.cancel()

    async def drain(self) -> None:
        """Wait until no request is open."""
        while self._live:
            await asyncio.wait(set(self._live))

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = head_of(scope)
        if request.path in (HEALTH, READY):
            await self._answer_health(request, receive, send)
            return
        what = self._guard.for_log(request)
        member: Member | None = None
        refusal: RefusedError | None = None
        try:
            check(request, scope["http_version"])
            request, member = await self._guard.admit(request)
        except RefusedError as error:
            refusal = error
        if refusal is None and (request.path + "/").startswith(STATUS + "/"):
            # The request is admitted already, so the app needs no `server` to check.
            inner = {**scope, "path": request.path, "raw_path": request.raw_path, "root_path": STATUS, "server": None}
            inner["state"] = {"member": "" if member is None else member.name}
            await self.status(inner, receive, send)
            return
        api = None if refusal else api_of(self.wires, request.method, request.path)
        with self.traffic.request(api.wire.name if api else OTHER, what) as counters:
            counters.owner = "" if member is None else member.name
            client = Client(receive, send, self.settings.timeouts, request, counters)
            try:
                await self._answer(api, refusal, client, member)
            finally:
                client.close()
                if self.upstream.stopped and counters.outcome == "passed":
                    counters.outcome = "broken"
                counters.log(client.status)

    async def _answer_health(self, request: RequestHead, receive: Receive, send: Send) -> None:
        """Answer a health check of a supervisor or load balancer, which has no token and learns nothing else."""
        problem = ""
        if request.path == READY and self.stopping:
            problem = "stopping"
        elif request.path == READY:
            try:
                await self.sessions.store.check()
            except StoreError:
                problem = "sessions cannot be stored"
        with self.traffic.request(OTHER) as counters:
            client = Client(receive, send, self.settings.timeouts, request, counters)
            content = f"{problem or 'ok'}\n".encode()
            await client.answer(503 if problem else 200, [(b"content-type", b"text/plain")], content)

    async def _answer(
        self, api: Api | None, refusal: RefusedError | None, client: Client, member: Member | None
    ) -> None:
        """Answer a request, whatever happens."""
        counters = client.counters
        roster = self.roster
        try:
            if refusal is not None:
                raise refusal
            allowances: list[Allowance] = []
            if client.request.method == "POST" and not (api is not None and api.counts):
                if self._allowance is not None:
                    allowances.append(self._allowance)
                if roster is not None and member is not None:
                    await roster.take_request(member)
                    allowances.append(roster.allowance(member))
            if api is None:
                extra: head.Headers = []
                if any(allowance.limited for allowance in allowances):
                    extra.append((head.WARNING, head.text(UNCOUNTED)))
                await pass_on(self.upstream, client, extra=extra)
            else:
                await self._ask_model(api, client, allowances)
        except RefusedError as error:
            await self._refuse(client, error)
            if roster is not None and counters.outcome == "refused":
                who = "?" if error.status == 401 else counters.owner
                await roster.note_refused(who, error.status, error.message)
        except BrokenOffError:
            pass  # the reply is incomplete, so the server closes the connection
        except ClientGoneError:
            counters.outcome = "client_gone"
        except asyncio.CancelledError:
            counters.outcome = "client_gone" if client.gone else "broken"
            if self.upstream.stopped and not client.gone:
                await self._refuse(client, RefusedError(503, STOPPED, close=True))
        except Exception as error:
            report(client, self.upstream, error)
            counters.outcome = "broken"
            await self._refuse(client, RefusedError(500, f"a defect in Wane: {type(error).__name__}"))

    async def _ask_model(self, api: Api, client: Client, allowances: Sequence[Allowance]) -> None:
        """Answer a request to a model, or one that only counts its tokens."""
        settings = self.settings
        request = client.request
        raw = await read_body(client, settings.max_body)
        parts = (client, self.upstream, self.sessions, api.wire, raw, allowances)
        watched = WatchedRequest(*parts, self._bodies, settings.max_body, self._order)
        if settings.shadow and not allowances:
            await watched.answer(counts=api.counts)
            return
        try:
            plain = await decode_body(raw, request.headers, settings.max_body)
            read = await self._bodies.read(plain, api.wire, client.counters.owner)
        except ValueError as error:
            for allowance in allowances:
                if allowance.limited:
                    raise RefusedError(402, f"{error}, so {allowance.name} cannot be kept") from error
            await pass_on(self.upstream, client, raw, [(head.UNMANAGED, head.text(str(error)))])
            return
        body = api.wire.read_path(read.content, request.path, request.query)
        if settings.shadow:
            await watched.answer(read, body, counts=api.counts)
            return
        managed = ManagedRequest(*parts, self.failover, read, body, settings.strict, settings.usage)
        await managed.answer(counts=api.counts)

    async def _refuse(self, client: Client, refusal: RefusedError) -> None:
        """Answer with an error of the proxy's own, in the error format of the client's API."""
        counters, request = client.counters, client.request
        if self.upstream.stopped and counters.outcome in ("passed", "managed"):
            counters.outcome = "broken"
        elif counters.outcome == "passed":
            counters.outcome = "refused"
        if client.started:
            return
        wire = wire_for_errors(self.wires, request.path, request.headers)
        extra: head.Headers = [(b"content-type", b"application/json")]
        if refusal.close:
            extra.append((b"connection", b"close"))
        if refusal.retry_after:
            extra.append((b"retry-after", b"%d" % refusal.retry_after))
        try:
            await client.answer(refusal.status, extra, wire.error(refusal.status, refusal.message))
        except (ClientGoneError, asyncio.CancelledError):
            counters.outcome = "client_gone"


def api_of(wires: Wires, method: str, path: str) -> Api | None:
    """Return the API of a request; None if it is not to a model."""
    for wire in wires.values() if method == "POST" else ():
        counts = wire.counts_at(path)
        if counts is not None:
            return Api(wire, counts)
    return None


def wire_for_errors(wires: Wires, path: str, sent: head.Headers) -> Wire:
    """Return the wire whose error format the client of any path expects; most clients know OpenAI's."""
    return next((wire for wire in wires.values() if wire.is_clients(path, sent)), wires["openai"])


def known_wires() -> dict[str, Wire]:
    """Return all protocols that the proxy supports, by name, in the order in which they are asked about a request."""
    wires: tuple[Wire, ...] = (GeminiWire(), AnthropicWire(), OpenAIChatWire(), OpenAIResponsesWire())
    return {wire.name: wire for wire in wires}
