"""Sessions that a proxy keeps on disk, made by whole agents over a scripted provider."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import plain_surroundings, run
from tests.proxy.agents import Worker
from tests.proxy.world import Client, Done, Model, Upstream, begin, work
from wane.conversation import ContextSettings
from wane.formats.message_format import Part
from wane.journal import SessionStore
from wane.proxy.sessions.memory import Facts
from wane.proxy.sessions.session_index import SessionIndex
from wane.proxy.store.disk import DiskStore
from wane.proxy.wire.wire import Body

__all__ = ["plain_surroundings", "run"]


def request_parts(client: Client, body: Body) -> Iterator[Part]:
    """The parts of a request; those of joined system messages as if each block were a message."""
    for message in client.wire.messages(body):
        content = message.get("content")
        if message.get("role") == "system" and isinstance(content, list):
            for block in content:
                yield from client.wire.format.parts({**message, "content": [block]})
        else:
            yield from client.wire.format.parts(message)


@dataclass(frozen=True)
class Kept:
    """A session that a proxy kept.

    Attributes:
        path: its file.
        facts: what the proxy said of its last request, to which no answer came.
        view: what that request showed, in its order.
        exchanges: those before.
    """

    path: Path
    facts: Facts
    view: tuple[Part, ...]
    exchanges: tuple[Done, ...]


Keep = Callable[..., Kept]


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("project")


@pytest.fixture
def here(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory that a proxy and its user are in."""
    monkeypatch.chdir(project)
    return project


@pytest.fixture
def store(tmp_path: Path) -> SessionStore:
    return SessionStore(tmp_path / "sessions")


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[object, tuple[Path, Kept]]:
    """Sessions that tests have made, each with a copy of its store, by all that they depend on."""
    return {}


@pytest.fixture
def keep(
    store: SessionStore, here: Path, made: dict[object, tuple[Path, Kept]], tmp_path_factory: pytest.TempPathFactory
) -> Keep:
    """Make a session of six turns of the user, and ask once more. Equal ones are made once, and copied."""

    def make(
        client: Client,
        *,
        seed: int = 1,
        strategy: Any = "cwl",
        marks: bool = True,
        model: Model | None = None,
        **settings: Any,
    ) -> Kept:
        async def main() -> Kept:
            kept = ContextSettings(budget=4_000, strategy=strategy, **settings)
            index = SessionIndex(DiskStore(store, cwd=here, fsync=False), kept)
            upstream = Upstream(client.provider, model or Worker(seed, marks=marks))
            exchanges = await work(index, client, upstream, 6)
            client.say("One thing more.")
            begun = await begin(index, client.wire, client.body())
            view = tuple(request_parts(client, begun.body))
            await index.close()
            return Kept(store.find(begun.facts.session), begun.facts, view, tuple(exchanges))

        key = (type(client), json.dumps(client.history), seed, strategy, marks, model, *settings.items())
        if key in made:
            root, kept = made[key]
            shutil.copytree(root, store.root, dirs_exist_ok=True)
            return replace(kept, path=store.find(kept.facts.session))
        alone = not any(store.root.rglob("*.jsonl"))
        kept = asyncio.run(main())
        if alone and model is None:
            root = tmp_path_factory.mktemp("kept")
            made[key] = (shutil.copytree(store.root, root, dirs_exist_ok=True), kept)
        return kept

    return make
