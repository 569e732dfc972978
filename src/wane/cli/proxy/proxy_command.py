"""`wane proxy`: runs the proxy between agents and their provider until it is stopped, in one process or several."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

from wane.cli import failure
from wane.cli.failure import UsageError
from wane.cli.proxy.log import log_to
from wane.cli.proxy.proxy_commands import ProxyCommandOptions
from wane.cli.proxy.proxy_options import TOKEN_VARIABLE, key_in_address, proxy_options
from wane.cli.sessions.stores import directory_of
from wane.cli.terminal.signals import END, INTERRUPT, catch_signals, handle_signals
from wane.cli.terminal.text import count_noun, printable, say
from wane.journal import SessionStore
from wane.money import dollars
from wane.proxy.settings import COST_PERIODS, Address
from wane.proxy.store.database import parse_location
from wane.strategies.registry import traits

if TYPE_CHECKING:
    from wane.proxy.server.running import ProxyOptions, Running

_ORDERLY: Final = 2
"""Number of orderly requests to stop: the second one aborts open requests, a third one cancels everything."""

_OBJECTS: Final = 10_000  # new ones, after which the garbage collector looks for cycles among the latest
_SHORT: Final = 5.0
"""Seconds; a process that lives shorter counts as failed at its start."""
_MOST_SHORT: Final = 5
"""Short-lived processes in a row after which none is replaced."""

Serve = Callable[["ProxyOptions", socket.socket], int]
"""Serves on a socket until a signal comes, and returns the exit code."""


def run_proxy(command: ProxyCommandOptions) -> int:
    options, quiet = proxy_options(command, os.environ), command.quiet
    log_to(logging.StreamHandler(sys.stderr), command.log_level or ("warning" if quiet else "info"))
    if command.workers > 1:
        return serve_together(
            options,
            command.workers,
            lambda own, sock: asyncio.run(_serve(own, quiet=True, sock=sock)),
            lambda own: None if quiet else _introduce(own),
        )
    return asyncio.run(_serve(options, quiet=quiet))


def serve_together(
    options: ProxyOptions, workers: int, serve: Serve, introduce: Callable[[ProxyOptions], object]
) -> int:
    """Serve with several processes until a signal comes, and return the exit code."""
    if not hasattr(os, "fork"):
        raise UsageError("--workers needs a system with fork; start several proxies behind a balancer instead")
    from wane.proxy.server.running import listen, opened_store

    async def check() -> None:
        await (await opened_store(options)).close()

    asyncio.run(check())
    with listen(options.server.listen) as sock:
        address = Address(options.server.listen.host, sock.getsockname()[1])
        options = replace(options, server=replace(options.server, listen=address))
        introduce(options)
        return _Group(options, sock, serve).run(workers)


class _Group:
    """The workers of one proxy, and the signals that end them."""

    def __init__(self, options: ProxyOptions, sock: socket.socket, serve: Serve) -> None:
        self._options = options
        self._sock = sock
        self._serve = serve
        self._started: dict[int, float] = {}  # by process
        self._ending = False
        self._code = failure.OK
        self._short_lives = 0
        # The workers see its end when this process ends, however that happens.
        self._alive = os.pipe()

    def run(self, workers: int) -> int:
        with catch_signals((*INTERRUPT, *END), self._stop) as self._restore_handlers:
            for _ in range(workers):
                self._start()
            while self._started:
                process, status = os.wait()
                begun = self._started.pop(process, None)
                if begun is not None and not self._ending:
                    self._replace(process, os.waitstatus_to_exitcode(status), begun)
        return self._code

    def _start(self) -> None:
        sys.stdout.flush()
        process = os.fork()
        if not process:
            self._work()
        self._started[process] = time.monotonic()

    def _work(self) -> NoReturn:
        code = failure.FAILED
        try:
            # Ctrl-C reaches only the parent, which passes it on.
            os.setpgrp()
            self._restore_handlers()
            os.close(self._alive[1])
            threading.Thread(target=self._end_with_parent, daemon=True).start()
            code = self._serve(self._options, self._sock)
        except BaseException as error:
            say(f"a worker failed: {error}")
        finally:
            os._exit(code)

    def _end_with_parent(self) -> None:
        os.read(self._alive[0], 1)
        os.kill(os.getpid(), signal.SIGTERM)

    def _replace(self, process: int, code: int, begun: float) -> None:
        self._short_lives = self._short_lives + 1 if time.monotonic() - begun < _SHORT else 0
        how = f"was ended by signal {-code}" if code < 0 else f"ended with code {code}"
        if self._short_lives >= _MOST_SHORT:
            say(f"worker {process} {how}, like those before it: giving up")
            self._ending, self._code = True, failure.FAILED
            self._signal(signal.SIGTERM)
            return
        say(f"worker {process} {how}; another one takes its place")
        self._start()

    def _stop(self, number: int, _: object) -> None:
        self._ending = True
        # Nobody may connect to a socket that no process serves any more.
        self._sock.close()
        self._signal(number)

    def _signal(self, number: int) -> None:
        for process in self._started:
            try:
                os.kill(process, number)
            except ProcessLookupError:
                continue


async def _serve(options: ProxyOptions, *, quiet: bool, sock: socket.socket | None = None) -> int:
    from wane.proxy.server.running import running

    task = asyncio.current_task()
    assert task is not None
    started: list[Running] = []
    stops = 0

    def stop() -> None:
        nonlocal stops
        if started:
            stops += 1
        if not started or stops > _ORDERLY:
            task.cancel()
            return
        proxy = started[0]
        proxy.stop()
        count = proxy.traffic.open_requests()
        if stops == 1 and not quiet and count:
            requests = count_noun(count, "request")
            say(f"waiting up to {proxy.grace:g} s for {requests}; press Ctrl-C again to stop at once")

    try:
        with handle_signals((*INTERRUPT, *END), stop):
            async with running(options, sock) as proxy:
                started.append(proxy)
                # What is loaded by now stays, and collecting it would delay requests by 10 ms. The objects of a request
                # have few cycles: looking for them at every 700 objects takes 5 % of a new session's time.
                gc.collect()
                gc.freeze()
                gc.set_threshold(_OBJECTS)
                server = replace(options.server, listen=proxy.address)
                options = replace(options, server=server, context=proxy.sessions.settings)
                if not quiet:
                    _introduce(options)
                for upstream in (options.server.upstream, options.server.fallback):
                    if upstream is not None and upstream.scheme == "http" and not upstream.is_loopback:
                        say(f"warning: keys and sessions go to {upstream} unencrypted; use https:// if it can")
                await proxy.wait_for_stop()
                sessions = proxy.sessions.status()
        if options.predict is not None and sessions:
            ids = [status.facts.session for status in sessions]
            for line in await asyncio.to_thread(options.predict, ids):
                say(f"shadow: {line}")
    except asyncio.CancelledError:
        return failure.INTERRUPTED
    if stops >= _ORDERLY or task.cancelling():
        return failure.INTERRUPTED
    return failure.OK


def _introduce(options: ProxyOptions) -> None:
    server, url = options.server, options.server.listen.url
    own = f"{url}/~${TOKEN_VARIABLE}" if server.token else url
    base = f"{url}/~TOKEN" if server.team else own
    lines = [f"Listening on {url}, for {server.upstream}"]
    if server.fallback is not None:
        lines.append(f"  fallback  {server.fallback}")
    lines += [f"  view      {_view_text(options)}", f"  sessions  {_store_name(options.store)}"]
    if options.store is not None:
        lifetime = f"deleted {options.keep / 86_400:g} days after their last use" if options.keep else "kept forever"
        lines.append(f"            {lifetime} (--keep)")
    if server.max_cost is not None:
        lines.append(f"  limit     {dollars(server.max_cost)} {COST_PERIODS[server.cost_period]}")
    lines += [
        f"  status    {own}/wane/{key_in_address(options)}",
        "",
        "Set in the client, with its token from wane proxy tokens add:" if server.team else "Set in the client:",
        f"  ANTHROPIC_BASE_URL={base}",
        f"  OPENAI_BASE_URL={base}/v1",
        f"  GOOGLE_GEMINI_BASE_URL={base}",
        "",
        "Ctrl-C stops it.",
    ]
    sys.stdout.write("".join(f"{printable(line)}\n" for line in lines))
    sys.stdout.flush()


def _view_text(options: ProxyOptions) -> str:
    """Return what clients' models see."""
    context = options.context
    if options.predict is not None:
        return "as it is: nothing is changed (shadow)"
    if not traits(context.strategy).bounded:
        return "the whole history, without a budget (none)"
    how = context.strategy
    if traits(context.strategy).by_episode:
        how += ", marked by the model" if context.annotate == "model" else ", marked by inference"
    return f"{context.budget:,} tokens ({how})"


def _store_name(store: str | None) -> str:
    """Return where sessions are stored, without secrets."""
    if store is None:
        return "in memory only"
    root = directory_of(store)
    return parse_location(store).name if root is None else str(SessionStore(root.absolute()).directory(Path.cwd()))
