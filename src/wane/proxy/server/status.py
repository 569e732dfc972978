"""What a proxy shows of itself: a live page, its data as JSON, and metrics.

All of it is read-only and holds what sessions are called and how large they are, never what was said in them beyond
the beginning of the user's first words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlsplit

from prometheus_client import ProcessCollector
from prometheus_client.metrics_core import GaugeMetricFamily
from prometheus_client.registry import Collector
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

import wane
from wane.proxy import jsons
from wane.proxy.server.page import PAGE, POLICY
from wane.proxy.server.traffic import Traffic
from wane.proxy.sessions.base import Sessions, SessionStatus
from wane.proxy.sessions.money import Money
from wane.proxy.settings import ContextSettings

MOST_SESSIONS: Final = 500
"""How many sessions the JSON and the page show, those used last; it says how many there are."""

_HEADERS: Final = {
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class About:
    """What a proxy says of itself.

    Attributes:
        upstream: URL of the provider; only its scheme, host and path are shown.
        settings: how contexts are kept.
        started: when the proxy started, in UTC.
    """

    upstream: str
    settings: ContextSettings
    started: datetime


def status_app(sessions: Sessions, traffic: Traffic, about: About, now: Callable[[], datetime] = _now) -> ASGIApp:
    """Return the app with `/`, `/status` and `/metrics`, to be mounted at `/wane`. It asks nobody who they are.

    Args:
        sessions: the sessions.
        traffic: the counters; a gauge of the sessions in memory and figures of the process are added to its registry.
        about: what the proxy says of itself.
        now: the time, in UTC.
    """
    traffic.registry.register(_Sessions(sessions))
    ProcessCollector(registry=traffic.registry)

    async def page(_: Request) -> Response:
        return Response(PAGE, media_type="text/html", headers={**_HEADERS, "content-security-policy": POLICY})

    async def status(_: Request) -> Response:
        data = jsons.dumps(status_data(sessions.status(), traffic, about, now()))
        return Response(data, media_type="application/json", headers=_HEADERS)

    async def metrics(_: Request) -> Response:
        return Response(traffic.metrics(), media_type="text/plain; version=0.0.4", headers=_HEADERS)

    routes = [Route("/", page), Route("/status", status), Route("/metrics", metrics)]
    return _with_slash(Starlette(routes=routes))


def _with_slash(app: ASGIApp) -> ASGIApp:
    """Lead from the place where an app is mounted to its page: what the page asks for is relative to it.

    By a relative address, as the one that a browser shows may have more before it, such as a token.
    """

    async def slashed(scope: Scope, receive: Receive, send: Send) -> None:
        path, root = scope.get("path", ""), scope.get("root_path", "")
        answer = RedirectResponse(f"{root.rpartition('/')[2]}/") if root and path == root else app
        await answer(scope, receive, send)

    return slashed


def status_data(sessions: Iterable[SessionStatus], traffic: Traffic, about: About, now: datetime) -> dict[str, Any]:
    """Return what `/wane/status` says; see docs/proxy/status.md for the fields."""
    sessions = list(sessions)
    context = about.settings
    return {
        "version": wane.__version__,
        "now": now.isoformat(timespec="milliseconds"),
        "started": about.started.isoformat(timespec="milliseconds"),
        "upstream": _address(about.upstream),
        "strategy": context.strategy,
        "annotate": context.annotate,
        "budget": context.budget,
        "requests": traffic.outcomes(),
        "open": traffic.open_requests(),
        "money": _dollars([session.money for session in sessions]),
        "sessions_in_memory": len(sessions),
        "sessions": [_session(session) for session in sessions[:MOST_SESSIONS]],
    }


def _session(session: SessionStatus) -> dict[str, Any]:
    facts, used = session.facts, session.used
    return {
        "id": facts.session,
        "title": session.title,
        "api": facts.api,
        "model": facts.model,
        "created": session.created.isoformat(timespec="milliseconds"),
        "last": session.last.isoformat(timespec="milliseconds"),
        "requests": session.requests,
        "used": {
            "input": used.input,
            "output": used.output,
            "cache_read": used.cache_read,
            "cache_write": used.cache_write,
        },
        "money": _dollars([session.money]),
        "views": [[round(it.at.timestamp(), 3), it.view, it.evicted] for it in session.views],
        "budget": facts.budget,
        "view": facts.view,
        "history": facts.history,
        "evicted": facts.evicted,
        "satisfied": facts.satisfied,
        "note": facts.note,
        "system": session.system,
        "user": session.user,
        "notices": session.notices,
        "removed": session.removed,
        "episodes": [
            {"name": it.name, "type": it.type, "state": it.state, "tokens": it.tokens, "notices": it.notices}
            for it in session.episodes
        ],
    }


def _dollars(amounts: Iterable[Money | None]) -> dict[str, float] | None:
    """The sum of what is known; None if nothing is."""
    known = [money for money in amounts if money is not None]
    total = sum(known, Money())
    return {"spent": round(total.spent, 6), "unmanaged": round(total.unmanaged, 6)} if known else None


def _address(url: str) -> str:
    """A URL without what may be a secret: user, password, query."""
    parts = urlsplit(url)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname or ""
    return f"{parts.scheme}://{host}{f':{parts.port}' if parts.port else ''}{parts.path}"


class _Sessions(Collector):
    """How many sessions are in memory, counted when it is asked for."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    def collect(self) -> Iterable[GaugeMetricFamily]:
        family = GaugeMetricFamily("wane_sessions", "Sessions in memory.", labels=("api",))
        for api, count in sorted(Counter(session.facts.api for session in self._sessions.status()).items()):
            family.add_metric((api,), count)
        yield family
