"""Receipts of sessions in a store: shown and verified by name, and remembered once they are deleted."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.proxy.store.support import Place, new_root
from wane.cli.sessions.removing import delete_sessions
from wane.cli.sessions.sent_requests import verify_session
from wane.cli.sessions.show import show_session
from wane.cli.top_commands import DeleteOptions, ShowOptions, VerifyOptions
from wane.journal import Receipts

BODY = b'{"model":"m","messages":[{"role":"user","content":"What was said."}]}'


async def write_session(place: Place) -> str:
    """A session with one request."""
    store = place.store()
    log = await store.create(new_root(), "anthropic")
    async with log.hold():
        await log.append([Receipts().of(BODY, "https://api.example")])
    await log.close()
    await store.close()
    return log.id.rpartition("-")[2]


def test_a_request_in_a_store_is_shown_verified_and_remembered(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    name = asyncio.run(write_session(place))
    assert show_session(ShowOptions(name=name, at=1, as_json=True, store=place.where)) == 0
    assert json.loads(capsys.readouterr().out)["body"].encode() == BODY
    assert verify_session(VerifyOptions(name=name, as_json=True, store=place.where)) == 0
    chain = json.loads(capsys.readouterr().out)["chain"]
    assert delete_sessions(DeleteOptions(names=[name], store=place.where)) == 0
    capsys.readouterr()
    assert verify_session(VerifyOptions(name=name, as_json=True, store=place.where)) == 0
    deleted = json.loads(capsys.readouterr().out)
    assert (deleted["session"], deleted["requests"], deleted["chain"]) == (name, 1, chain)
