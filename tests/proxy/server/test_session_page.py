"""A session's contents as a page: for those who were told the key, and for nobody else."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from tests.proxy.server.support import Asked, ask, body, message, provider, proxy, response
from wane.cli.proxy.proxy_options import show_session
from wane.proxy.server.status import SessionPages
from wane.proxy.sessions.session_index import SessionIndex
from wane.proxy.store import open_store

PAGES = SessionPages("the-key", show_session)
SAID = message("It is done.", usage={"input_tokens": 100, "output_tokens": 7})


def test_a_session_is_shown_to_who_knows_the_key(tmp_path: Path) -> None:
    async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(response(SAID, headers={"content-type": "application/json"}))

    async def main() -> None:
        index = SessionIndex(open_store(str(tmp_path)))
        async with provider(answer) as upstream, proxy(upstream.url, index=index, pages=PAGES) as running:
            await ask(running, body("Fix <the> parser", stream=False))
            told = json.loads((await ask(running, path="/wane/status", method="GET")).body)
            assert (told["stored"], told["opens"]) == (True, False)
            (session,) = told["sessions"]
            path = f"/wane/session/{session['id']}"
            for query in ("", "?key=", "?key=the-ke", "?key=other"):
                refused = await ask(running, path=path + query, method="GET")
                assert (refused.status, b"parser" in refused.body) == (404, False)
            shown = await ask(running, path=f"{path}?key=the-key", method="GET")
            assert shown.status == 200
            assert "Fix \\u003cthe\\u003e parser" in shown.body.decode()
            assert "frame-ancestors 'none'" in (shown.header("content-security-policy") or "")
            assert shown.header("cache-control") == "no-store"
            other = await ask(running, path=f"/wane/session/{'0' * 24}-{'0' * 16}?key=the-key", method="GET")
            assert other.status == 404

    asyncio.run(main())
