"""An index of sessions that are told, and a server that shows them."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.types import ASGIApp

from wane.account import Account
from wane.prices import TokenUsage
from wane.proxy.server.status import status_app
from wane.proxy.sessions.memory import EpisodeStatus, Facts, SessionStatus, ViewStatus
from wane.proxy.sessions.session_index import SessionIndex
from wane.proxy.settings import UpstreamUrl
from wane.proxy.store.stores import MemoryStore
from wane.proxy.traffic import Traffic
from wane.savings import Money

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


class ToldIndex(SessionIndex):
    """Sessions as they are told; no request comes."""

    def __init__(self, sessions: Sequence[SessionStatus] = ()) -> None:
        super().__init__(MemoryStore())
        self.sessions = list(sessions)

    def status(self) -> Sequence[SessionStatus]:
        return self.sessions


def session(
    number: int = 1, *, title: str = "Fix the tests", episodes: int = 6, seconds: float = 4, **facts: Any
) -> SessionStatus:
    """A session in the middle of its work.

    Args:
        number: its number, which sizes depend on.
        title: its title.
        episodes: how many episodes are in view.
        seconds: how long ago it was used.
        facts: fields of its facts that are not as usual.
    """
    states = ("remove", "artifact", "bulk", "closed", "closed", "active")
    shown = []
    for place in range(episodes):
        name = None if place % 5 == 2 else f"episode-{place}"
        type_ = "act" if place % 3 == 1 else "expl"
        state = states[place * len(states) // episodes]
        tokens = 300 + 7_000 * (place * 37 % 11) // (episodes + number % 3)
        shown.append(EpisodeStatus(name, type_, state, tokens, 100))
    view = 2_900 + 1_200 + sum(it.tokens for it in shown)
    known = {
        "session": f"{number:08x}",
        "api": ("anthropic", "openai", "openai_responses")[number % 3],
        "provider": ("anthropic", "openai", "openai")[number % 3],
        "model": ("claude-sonnet-5", "gpt-5.2", "gpt-5.2-codex")[number % 3],
        "view": view,
        "budget": 80_000,
        "history": view + 31_000 * (number % 4),
        "evicted": 31_000 * (number % 4),
    }
    last = NOW - timedelta(seconds=seconds)
    about = Facts(**{**known, **facts})
    began, notices = last - timedelta(minutes=number), sum(it.notices for it in shown)
    views = []
    for number_of_view in range(40):
        at = last - timedelta(seconds=9 * (40 - number_of_view))
        evicted = 40_000 if number_of_view in (27, 28) else 0
        views.append(ViewStatus(at, 9_000 + (number_of_view * 2_300) % 61_000, evicted, 9_000 + number_of_view * 2_300))
    used = TokenUsage(1_200_000 * number, 90_000, 1_000_000 * number, 60_000)
    return SessionStatus(
        about,
        title,
        began,
        last,
        7 * number,
        900,
        2_000,
        notices,
        tuple(shown),
        number % 5,
        used,
        Money(Account(calls=35, priced=35, at_least=0.75 * number), 2.5 * number, 2.5 * number),
        tuple(views),
    )


def app_of(
    index: SessionIndex, traffic: Traffic | None = None, upstream: str = "https://api.anthropic.com", **options: Any
) -> ASGIApp:
    started = NOW - timedelta(minutes=93)
    return status_app(index, traffic or Traffic(), UpstreamUrl.parse(upstream), started, lambda: NOW, **options)


@contextmanager
def serving(index: ToldIndex, traffic: Traffic | None = None, port: int = 0, **options: Any) -> Iterator[str]:
    """Serve the page of an index on loopback; gives its URL."""
    app = Starlette(routes=[Mount("/wane", app_of(index, traffic, **options))])
    listener = socket.create_server(("127.0.0.1", port))
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical", lifespan="off", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    while not server.started and thread.is_alive():
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/wane/"
    finally:
        server.should_exit = server.force_exit = True
        thread.join()
        listener.close()
