"""A proxy's status: a live page, its data as JSON, and metrics.

It has names and sizes of sessions, and none of their content except the beginning of the user's first message as a
title. All of it is read-only, but for a person's choice to keep an episode in view, or to let it go (R23).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from hmac import compare_digest
from importlib.resources import files
from typing import Any, Final, cast

from prometheus_client import ProcessCollector
from prometheus_client.metrics_core import GaugeMetricFamily
from prometheus_client.registry import Collector
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

import wane
from wane.core.episodes import Choice
from wane.core.errors import SessionNotFoundError, WaneError
from wane.journal import Header, Record
from wane.pages import KIT, LOOK, Dress
from wane.proxy import jsons
from wane.proxy.server.workers import (
    Figures,
    Workers,
    merged_assumption,
    merged_counts,
    merged_metrics,
    merged_money,
    merged_sessions,
    with_agents,
)
from wane.proxy.sessions.memory import SessionStatus
from wane.proxy.sessions.session_index import SessionIndex
from wane.proxy.settings import UpstreamUrl
from wane.proxy.team.roster import Roster
from wane.proxy.traffic import Traffic
from wane.rewrites import Cause

MOST_SESSIONS: Final = 500
"""The most sessions in the JSON and on the page, which are the most recently used ones; the total is there too."""

KEY_HEADER: Final = "x-wane-key"
"""Has the key of `SessionPages` where a person chooses for an episode."""

_LONGEST_CHOICE: Final = 1_000
"""Bytes."""

_USED: Final = ("input", "output", "cache_read", "cache_write", "cache_write_hour")
_HEADERS: Final = {
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}

_SESSION_POLICY: Final = "connect-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
"""Beside the policy that a session's page brings itself, which names its style and script."""


@dataclass(frozen=True, slots=True)
class SessionPages:
    """Shows a session, contents included, as a page.

    Attributes:
        key: what must be known to see one, besides what every request needs: another user of this machine can reach the
            proxy, but has not seen its address in the terminal. The members of a team need none for their own sessions.
        render: returns the page of a session from its header and records; it may take seconds. It raises WaneError if
            there is nothing to show.
    """

    key: str
    render: Callable[[Header, Sequence[Record]], str]


Predict = Callable[[Iterable[str]], list[str]]
"""Returns sentences on what Wane would have done in the sessions with some ids; it may take seconds."""


def status_app(
    sessions: SessionIndex,
    traffic: Traffic,
    upstream: UpstreamUrl,
    started: datetime,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
    predict: Predict | None = None,
    roster: Roster | None = None,
    workers: Workers | None = None,
    pages: SessionPages | None = None,
    agent: str = "",
) -> ASGIApp:
    """Return the app with `/`, `/status`, `/metrics`, `/session/ID` and `/session/ID/choice`, to be mounted at `/wane`.

    It does not authenticate, except that a session's contents and choices need a key; see `SessionPages`.

    The state of a request's scope names the member of a team who sent it: they see their own sessions, and no metrics.
    This adds metrics of the sessions in memory and of the process to those of `traffic`. With `predict`, the proxy only
    watches; with `workers`, other processes share its store. `agent` is what `wane run` started; empty for none.
    """
    traffic.registry.register(_Sessions(sessions))
    ProcessCollector(registry=traffic.registry)

    async def page(_: Request) -> Response:
        return Response(PAGE, media_type="text/html", headers={**_HEADERS, "content-security-policy": POLICY})

    async def status(request: Request) -> Response:
        # docs/output.md describes the fields.
        member = _member(request)
        context = sessions.settings
        processes = [figures_of(sessions, traffic, started)] if workers is None else await workers.all()
        visible = [session for session in merged_sessions(processes) if member in ("", session["owner"])]
        if roster is not None:
            await roster.note_shown(member, [session["id"] for session in visible[:MOST_SESSIONS]])
        requests: dict[str, int] = {}
        open_requests = 0
        in_memory = len(visible)
        if not member:
            requests = merged_counts(processes)
            for figures in processes:
                open_requests += figures["open"]
                in_memory += figures["sessions_in_memory"] - len(figures["sessions"])
        data = {
            "version": wane.__version__,
            "now": now().isoformat(timespec="milliseconds"),
            "started": min(figures["started"] for figures in processes),
            "workers": len(processes),
            "upstream": str(upstream),
            "strategy": context.strategy,
            "annotate": context.annotate,
            "budget": context.budget,
            "shadow": predict is not None,
            "agent": agent,
            "stored": pages is not None,
            "opens": pages is not None and bool(member),
            "member": member,
            "requests": requests,
            "open": open_requests,
            "money": merged_money(visible),
            "assumed": merged_assumption(visible),
            "causes": {cause: cause.label for cause in Cause},
            "sessions_in_memory": in_memory,
            "sessions": with_agents(visible)[:MOST_SESSIONS],
        }
        return Response(jsons.dumps(data), media_type="application/json", headers=_HEADERS)

    async def shadow(request: Request) -> Response:
        lines: list[str] = []
        if predict is not None:
            member = _member(request)
            every = [session.facts for session in sessions.status()]
            ids = [facts.session for facts in every if member in ("", facts.owner)]
            lines = await asyncio.to_thread(predict, ids)
        return Response(jsons.dumps({"lines": lines}), media_type="application/json", headers=_HEADERS)

    # Whatever is wrong, the answer is the same: it does not tell which sessions there are.
    unknown = Response("no such session, or its key is missing\n", 404, headers=_HEADERS)

    def may_open(member: str, key: str) -> bool:
        return pages is not None and (bool(member) or compare_digest(key.encode(), pages.key.encode()))

    async def choose(request: Request) -> Response:
        # The key is in a header, which no page of another site can send.
        member = _member(request)
        if not may_open(member, request.headers.get(KEY_HEADER, "")):
            return unknown
        sent = b""
        async for piece in request.stream():
            if len(sent) <= _LONGEST_CHOICE:
                sent += piece
        try:
            asked = jsons.loads(sent[:_LONGEST_CHOICE])
            number, choice = int(asked["episode"]), str(asked["choice"])
        except (ValueError, LookupError, TypeError):
            return Response('send {"episode": 3, "choice": "keep"}\n', 400, headers=_HEADERS)
        try:
            await sessions.choose(request.path_params["session"], number, cast(Choice, choice), member)
        except SessionNotFoundError:
            return unknown
        except WaneError as error:
            return Response(f"{error}\n", 409, headers=_HEADERS)
        return Response(status_code=204, headers=_HEADERS)

    rendering = asyncio.Lock()

    async def session_page(request: Request) -> Response:
        member, key = _member(request), request.query_params.get("key", "")
        if pages is None or not may_open(member, key):
            return unknown
        session = request.path_params["session"]
        try:
            header = await sessions.store.header(session)
            if member not in ("", header.owner):
                return unknown
            records = await sessions.store.read(session)
            # One at a time: each takes memory and a core.
            async with rendering:
                text = await asyncio.to_thread(pages.render, header, records)
        except WaneError as error:
            return Response(f"this session cannot be shown: {error}\n", 404, headers=_HEADERS)
        return Response(text, media_type="text/html", headers={**_HEADERS, "content-security-policy": _SESSION_POLICY})

    async def metrics(request: Request) -> Response:
        if _member(request):
            return Response("metrics need the proxy's own token, WANE_PROXY_TOKEN\n", 403, headers=_HEADERS)
        text = traffic.metrics() if workers is None else merged_metrics(await workers.all())
        return Response(text, media_type="text/plain; version=0.0.4", headers=_HEADERS)

    routes = [Route("/", page), Route("/status", status), Route("/shadow", shadow), Route("/metrics", metrics)]
    routes.append(Route("/session/{session}", session_page))
    routes.append(Route("/session/{session}/choice", choose, methods=["POST"]))
    app = Starlette(routes=routes)

    async def redirect_to_slash(scope: Scope, receive: Receive, send: Send) -> None:
        # The page's links are relative, so `/wane` leads to `/wane/`. The redirect is relative too, because the path in
        # the browser's address may begin with more, such as a token.
        root = scope.get("root_path", "")
        answer: ASGIApp = app
        if root and scope.get("path", "") == root:
            answer = RedirectResponse(f"{root.rpartition('/')[2]}/")
        await answer(scope, receive, send)

    return redirect_to_slash


def figures_of(sessions: SessionIndex, traffic: Traffic, started: datetime) -> Figures:
    """Return the figures of this process, for `Workers`."""
    in_memory = sessions.status()
    return {
        "started": started.isoformat(timespec="milliseconds"),
        "requests": traffic.outcomes(),
        "open": traffic.open_requests(),
        "sessions_in_memory": len(in_memory),
        "sessions": [_session(session) for session in in_memory[:MOST_SESSIONS]],
        "metrics": traffic.metrics().decode(),
    }


def _member(request: Request) -> str:
    """Return the member of a team who sent a request; empty for a sender who may see everything."""
    return str(request.scope.get("state", {}).get("member", ""))


def _session(session: SessionStatus) -> dict[str, Any]:
    facts = session.facts
    return {
        "id": facts.session,
        "owner": facts.owner,
        "parent": facts.parent,
        "client": session.client,
        "title": session.title,
        "api": facts.api,
        "model": facts.model,
        "created": session.created.isoformat(timespec="milliseconds"),
        "last": session.last.isoformat(timespec="milliseconds"),
        "requests": session.requests,
        "used": {name: getattr(session.used, name) for name in _USED},
        "calls": session.money.account.calls,
        "money": session.money.to_dict(),
        "assumed": session.money.account.assumption,
        "views": [[round(view.at.timestamp(), 3), view.view, view.evicted, view.history] for view in session.views],
        "budget": facts.budget,
        "view": facts.view,
        "history": facts.history,
        "evicted": facts.evicted,
        "satisfied": facts.satisfied,
        "room": None if facts.room is None else facts.room.to_dict(),
        "thrashing": None if facts.thrashing is None else facts.thrashing.to_dict(),
        "note": facts.note,
        "system": session.system,
        "user": session.user,
        "notices": session.notices,
        "removed": session.removed,
        "rewritten": session.rewritten,
        "episodes": [asdict(episode) for episode in session.episodes],
    }


class _Sessions(Collector):
    """Counts the sessions in memory when read: all, those with too little room, and those of sub-agents."""

    def __init__(self, sessions: SessionIndex) -> None:
        self._sessions = sessions

    def collect(self) -> Iterable[GaugeMetricFamily]:
        total = GaugeMetricFamily("wane_sessions", "Sessions in memory.", labels=("api",))
        tight = GaugeMetricFamily(
            "wane_tight_sessions", "Sessions with too little room in the budget.", labels=("api",)
        )
        agents = GaugeMetricFamily("wane_agent_sessions", "Sessions of sub-agents.", labels=("api",))
        every = [session.facts for session in self._sessions.status()]
        without_room = Counter(facts.api for facts in every if facts.tight)
        of_agents = Counter(facts.api for facts in every if facts.parent)
        for api, count in sorted(Counter(facts.api for facts in every).items()):
            total.add_metric((api,), count)
            tight.add_metric((api,), without_room[api])
            agents.add_metric((api,), of_agents[api])
        yield from (total, tight, agents)


_PAGE: Final = files("wane.proxy.server") / "page"
_DRESS: Final = Dress.of(
    (LOOK, _PAGE / "page.css"), (*KIT, *(_PAGE / f"{name}.js" for name in ("figures", "bar", "session", "live")))
)

PAGE: Final = _DRESS.fill(_PAGE / "page.html").encode()
"""The page, as HTML in UTF-8."""

POLICY: Final = "; ".join(
    [
        "default-src 'none'",
        f"script-src {_DRESS.script_hash}",
        f"style-src {_DRESS.style_hash}",
        "connect-src 'self'",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        # The page writes no markup from scripts, so none may.
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    ]
)
"""Its content policy: only Wane's own style and script run, by their hashes."""
