"""Runs the proxy, in an event loop or in its own thread."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final

import uvicorn

from wane.conversation.context import ContextSettings
from wane.core.errors import WaneError
from wane.proxy.head import LONGEST_HEAD
from wane.proxy.http.client import protocol
from wane.proxy.http.failover import Failover
from wane.proxy.http.llama import shows_tools
from wane.proxy.http.upstream import Upstream
from wane.proxy.server.app import ProxyApp, Wires, known_wires
from wane.proxy.server.status import Predict, SessionPages, figures_of, status_app
from wane.proxy.server.workers import Workers
from wane.proxy.sessions.session_index import IDLE, SessionIndex
from wane.proxy.settings import Address, ServerSettings
from wane.proxy.store import open_store
from wane.proxy.store.stores import KEEP, Store, StoreError
from wane.proxy.team.roster import Roster
from wane.proxy.telemetry import Telemetry, exporting
from wane.proxy.traffic import Traffic
from wane.strategies.registry import traits

_LOGGER: Final = logging.getLogger("wane.proxy")
_BACKLOG: Final = 2048  # connections that may wait to be accepted
_SWEEP: Final = 10.0  # seconds
_ABORT: Final = 2.0  # seconds for aborted requests to end


class ListenError(WaneError):
    """The proxy cannot listen on an address."""


def listen(address: Address) -> socket.socket:
    """Return a socket that listens on an address.

    Raises:
        ListenError: if that is not possible, such as when another program listens there.
    """
    try:
        addresses = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise ListenError(f"cannot listen on {address}: {getattr(error, 'strerror', None) or error}") from None
    family, kind, protocol, _, where = addresses[0]
    opened = socket.socket(family, kind, protocol)
    try:
        if hasattr(socket, "SO_EXCLUSIVEADDRUSE"):  # Windows, where reusing means sharing
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
        else:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind(where)
        opened.listen(_BACKLOG)
    except OSError as error:
        opened.close()
        why = str(error.strerror or error)
        if error.errno == errno.EADDRINUSE:
            why = "another program does, perhaps another wane proxy; choose with --listen"
        raise ListenError(f"cannot listen on {address}: {why}") from None
    opened.setblocking(False)
    return opened


@dataclass(frozen=True, slots=True)
class ProxyOptions:
    """Options of a whole proxy.

    Attributes:
        server: how it listens and treats requests.
        context: how contexts are managed.
        store: where sessions are stored, as `open_store` reads it; None for memory only.
        keep: seconds after its last record until a stored session is deleted; 0 for never.
        idle: seconds without a request after which a stored session leaves memory.
        agent_budget: tokens that the view of a sub-agent may hold; None for the budget of all other sessions.
        keep_requests: whether to store requests whole, and not only their digests.
        predict: with `shadow`, says what Wane would have done in the sessions with some ids.
        pages: shows a stored session as a page; None if none is stored.
        agent: what `wane run` started; empty for none.
    """

    server: ServerSettings
    context: ContextSettings = field(default_factory=ContextSettings)
    store: str | None = None
    keep: float = KEEP
    idle: float = IDLE
    agent_budget: int | None = None
    keep_requests: bool = True
    predict: Predict | None = None
    pages: SessionPages | None = None
    agent: str = ""


class Running:
    """A running proxy.

    Attributes:
        address: where it listens.
        grace: seconds that open requests get to finish once it stops.
        sessions: its sessions.
        traffic: its counters.
    """

    def __init__(self, address: Address, grace: float, app: ProxyApp, sessions: SessionIndex, traffic: Traffic):
        self.address = address
        self.grace = grace
        self.sessions = sessions
        self.traffic = traffic
        self._app = app
        self._stopping = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    @property
    def url(self) -> str:
        """Its base URL, without a token."""
        return self.address.url

    def finish(self) -> None:
        """Wait in another thread until the open requests are answered and recorded, for at most `grace` seconds."""
        drained = asyncio.run_coroutine_threadsafe(self._app.drain(), self._loop)
        with contextlib.suppress(TimeoutError):
            drained.result(self.grace)

    def stop(self) -> None:
        """Accept no more requests, wait a moment for the open ones, and stop. A second call stops at once."""

        def stop() -> None:
            if self._stopping.is_set():
                self._app.abandon()
            self._stopping.set()

        self._loop.call_soon_threadsafe(stop)

    async def wait_for_stop(self) -> None:
        """Wait until it is asked to stop."""
        await self._stopping.wait()


@asynccontextmanager
async def running(options: ProxyOptions, sock: socket.socket | None = None) -> AsyncIterator[Running]:
    """Run a proxy in this event loop, until the block ends.

    Args:
        options: how it runs.
        sock: a listening socket, which it may share with other processes; None for a new one.

    Raises:
        WaneError: if it cannot listen, its store cannot be reached, or an option cannot work.
    """
    _raise_limits()
    context = await _reachable_context(options)
    sessions = SessionIndex(
        await opened_store(options),
        context,
        strict=options.server.strict,
        idle=options.idle,
        agent_budget=options.agent_budget,
        keep_requests=options.keep_requests,
    )
    with exporting(os.environ) as telemetry:
        async with serving(
            options.server,
            sessions,
            known_wires(),
            sock=sock,
            telemetry=telemetry,
            predict=options.predict,
            pages=options.pages,
            agent=options.agent,
        ) as proxy:
            yield proxy


async def _reachable_context(options: ProxyOptions) -> ContextSettings:
    """Return the settings of a proxy, without tools if its upstream says that its model would never see them."""
    context = options.context
    if not (context.marked or context.recall) or await shows_tools(options.server.upstream) is not False:
        return context
    infers = traits(context.strategy).by_episode
    _LOGGER.warning(
        "the chat template of %s shows its model no tools (its /props say so): %s. Its agent's tools do not reach the "
        "model either",
        options.server.upstream,
        "episodes are inferred" if infers else "the model cannot recall what has left the view",
    )
    return replace(context, annotate="infer" if infers else context.annotate, recall=False)


async def opened_store(options: ProxyOptions) -> Store:
    """Return the store of a proxy.

    Raises:
        StoreError: if sessions cannot be stored in it.
        ConfigError: if there is no such store.
    """
    store = open_store(options.store, options.keep)
    try:
        await store.check()
    except StoreError as error:
        await store.close()
        why = str(error).rstrip(".")
        raise StoreError(
            f"sessions cannot be stored: {why}. Start the store, choose another with --store, or give --no-store"
        ) from None
    return store


@asynccontextmanager
async def serving(
    settings: ServerSettings,
    sessions: SessionIndex,
    wires: Wires,
    *,
    sock: socket.socket | None = None,
    telemetry: Telemetry | None = None,
    predict: Predict | None = None,
    pages: SessionPages | None = None,
    agent: str = "",
) -> AsyncIterator[Running]:
    """Serve sessions in this event loop, until the block ends; then close them.

    Raises:
        WaneError: if it cannot listen, or an option cannot work.
    """
    async with AsyncExitStack() as stack:
        stack.push_async_callback(sessions.close)
        upstream = Upstream(settings.upstream, settings.timeouts)
        stack.push_async_callback(upstream.close)
        failover = None
        if settings.fallback is not None:
            failover = Failover(upstream, Upstream(settings.fallback, settings.timeouts), settings.fallback_key)
            stack.push_async_callback(failover.second.close)
        sock = sock or listen(settings.listen)
        stack.callback(sock.close)
        settings = replace(settings, listen=Address(settings.listen.host, sock.getsockname()[1]))
        traffic = Traffic(telemetry=telemetry)
        roster = Roster(sessions.store) if settings.team else None
        if roster is not None:
            sessions.began = roster.note_begun
        started = datetime.now(UTC)
        workers = None
        if sessions.store.shared or settings.team:
            name = f"{socket.gethostname()}:{settings.listen.port}-{os.getpid()}"
            workers = Workers(
                sessions.store,
                name,
                lambda: figures_of(sessions, traffic, started),
                lambda: (traffic.outcomes(), traffic.open_requests(), sessions.owners),
            )
        status: Any = status_app(
            sessions,
            traffic,
            settings.upstream,
            started,
            predict=predict,
            roster=roster,
            workers=workers,
            pages=pages,
            agent=agent,
        )
        app = ProxyApp(settings, sessions, wires, upstream, traffic, status, roster, failover)
        server = _Server(app, settings)

        def is_unusual(record: logging.LogRecord) -> bool:
            # A client or provider that disconnects cuts a reply short; the proxy ignores upgrades that clients offer.
            ordinary = ("ASGI callable returned", "No supported WebSocket library", "Unsupported upgrade request")
            return record.levelno >= logging.WARNING and not str(record.msg).startswith(ordinary)

        # Each proxy of a process has a filter of its own, because another one may end before it.
        logger = logging.getLogger("uvicorn.error")
        logger.addFilter(is_unusual)
        stack.callback(logger.removeFilter, is_unusual)
        serve = asyncio.create_task(server.serve([sock]))
        background = [asyncio.create_task(_sweep(sessions, roster))]
        if workers is not None:
            background.append(asyncio.create_task(workers.publish_changes()))
        try:
            while not (server.started or serve.done()):
                await asyncio.sleep(0.002)
            if serve.done():
                await serve
            yield Running(settings.listen, settings.timeouts.grace, app, sessions, traffic)
        finally:
            server.stop.set()
            for task in background:
                task.cancel()
            await serve
            if workers is not None:
                await workers.leave()


@contextmanager
def in_thread(options: ProxyOptions) -> Iterator[Running]:
    """Run a proxy in its own thread, until the block ends.

    Raises:
        WaneError: if it cannot listen, or an option cannot work.
    """
    started: Future[Running] = Future()

    async def main() -> None:
        async with running(options) as proxy:
            started.set_result(proxy)
            await proxy.wait_for_stop()

    def work() -> None:
        try:
            asyncio.run(main())
        except BaseException as error:
            if not started.done():
                started.set_exception(error)

    thread = threading.Thread(target=work, name="wane-proxy", daemon=True)
    thread.start()
    proxy = started.result()
    try:
        yield proxy
    finally:
        proxy.stop()
        thread.join()


class _Server(uvicorn.Server):
    """A server that leaves signals to its caller, and waits for the event `stop` instead of polling."""

    def __init__(self, app: ProxyApp, settings: ServerSettings) -> None:
        config = uvicorn.Config(
            app,
            # The strictest parser, on every platform: what it accepts can be read in one way only.
            http=protocol(settings.timeouts, settings.max_body),
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=False,
            backlog=_BACKLOG,
            # Seconds: longer than clients keep idle connections, so that none is closed just as a request arrives.
            timeout_keep_alive=120,
            h11_max_incomplete_event_size=LONGEST_HEAD,
        )
        super().__init__(config)
        self.stop = asyncio.Event()
        self._app = app
        self._grace = settings.timeouts.grace

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def main_loop(self) -> None:
        await self.stop.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:  # noqa: ARG002
        """Accept no more connections, let open requests finish for a while, and abort the rest."""
        self._app.stopping = True
        for server in self.servers:
            server.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        for patience in (self._grace, _ABORT):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._app.drain(), patience)
            self._app.abandon()


def _raise_limits() -> None:
    """Raise the limit of open files, because each stream needs two, and so does each session on disk."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


async def _sweep(sessions: SessionIndex, roster: Roster | None) -> None:
    """Drop idle sessions from memory now and then, and those of members whose token was revoked."""
    while True:
        await asyncio.sleep(min(_SWEEP, max(sessions.idle / 2, 0.1)))
        try:
            members = {} if roster is None else await roster.members()
            for owner in sessions.owners:
                if owner not in members or not members[owner].digest:
                    await sessions.drop(owner)
            await sessions.sweep()
        except Exception as error:
            _LOGGER.warning("idle sessions could not be dropped from memory: %s", type(error).__name__)
