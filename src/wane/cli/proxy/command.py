"""`wane proxy`: runs the proxy between agents and their provider until it is stopped."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import socket
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from wane.cli import failure
from wane.cli.proxy.commands import ProxyCommandOptions
from wane.cli.proxy.log import log_to
from wane.cli.proxy.options import TOKEN_VARIABLE, proxy_options
from wane.cli.terminal import signals
from wane.cli.terminal.text import counted, printable, say
from wane.journal import SessionStore, default_root

if TYPE_CHECKING:
    from wane.proxy.server.run import ProxyOptions, Running

_ORDERLY: Final = 2
"""Number of orderly requests to stop: the second one aborts open requests, a third one cancels everything."""


def run_proxy(command: ProxyCommandOptions) -> int:
    """Serve until a signal comes, and return the exit code.

    Raises:
        WaneError: if the proxy cannot start with these options.
    """
    options, quiet = proxy_options(command, os.environ), command.quiet
    log_to(logging.StreamHandler(sys.stderr), command.log_level or ("warning" if quiet else "info"))
    if command.workers > 1:
        from wane.cli.proxy.workers import serve_together

        return serve_together(
            options,
            command.workers,
            lambda own, sock: asyncio.run(_serve(own, quiet=True, sock=sock)),
            lambda own: None if quiet else _introduce(own),
        )
    return asyncio.run(_serve(options, quiet=quiet))


async def _serve(options: ProxyOptions, *, quiet: bool, sock: socket.socket | None = None) -> int:
    from wane.proxy.server.run import running

    task = asyncio.current_task()
    assert task is not None
    started: list[Running] = []
    stops = 0

    def stop() -> None:
        nonlocal stops
        stops += bool(started)
        if not started or stops > _ORDERLY:
            task.cancel()
            return
        proxy = started[0]
        proxy.stop()
        count = proxy.traffic.open_requests()
        if stops == 1 and not quiet and count:
            requests = counted(count, "request")
            say(f"waiting up to {proxy.grace:g} s for {requests}; press Ctrl-C again to stop at once")

    try:
        with signals.handled((*signals.INTERRUPT, *signals.END), stop):
            async with running(options, sock) as proxy:
                started.append(proxy)
                keep_loaded()
                options = replace(options, server=replace(options.server, listen=proxy.address))
                if not quiet:
                    _introduce(options)
                upstream = options.server.upstream
                if upstream.scheme == "http" and not upstream.is_loopback:
                    say(f"warning: keys and sessions go to {upstream} unencrypted; use https:// if it can")
                await proxy.stopped()
    except asyncio.CancelledError:
        return failure.INTERRUPTED
    return failure.OK if stops < _ORDERLY and task.cancelling() == 0 else failure.INTERRUPTED


def keep_loaded() -> None:
    """Exempt everything loaded so far from garbage collection, which would delay requests by 10 ms."""
    gc.collect()
    gc.freeze()


def _introduce(options: ProxyOptions) -> None:
    context, server = options.context, options.server
    url = server.listen.url
    base = url + (f"/~${TOKEN_VARIABLE}" if server.token else "")
    marks = f", marked by {'the model' if context.annotate == 'model' else 'inference'}"
    kept = f"{context.budget:,} tokens ({context.strategy}{marks if context.strategy in ('cwl', 'paper') else ''})"
    if context.strategy == "none":
        kept = "the whole history, without a budget (none)"
    lifetime = f"deleted {options.keep / 86_400:g} days after their last use" if options.keep else "kept for ever"
    lines = [
        f"Listening on {url}, for {server.upstream}",
        f"  view      {kept}",
        f"  sessions  {_place(options.store)}",
        *([] if options.store is None else [f"            {lifetime} (--keep)"]),
        f"  status    {base}/wane/",
        "",
        "Set in the client:",
        f"  ANTHROPIC_BASE_URL={base}",
        f"  OPENAI_BASE_URL={base}/v1",
        "",
        "Ctrl-C stops it.",
    ]
    sys.stdout.write("".join(f"{printable(line)}\n" for line in lines))
    sys.stdout.flush()


def _place(store: str | None) -> str:
    """Return where sessions are stored, without secrets."""
    from wane.proxy.store.database import parse_location, scheme_of

    if store is None:
        return "in memory only"
    if scheme_of(store) is not None:
        return parse_location(store).name
    root = default_root(os.environ) if store == "disk" else Path(store).expanduser()
    return str(SessionStore(root.absolute()).directory(Path.cwd()))
