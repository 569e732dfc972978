"""A proxy's sessions beside the agent's: listed, and never gone on with by the agent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.proxy.reading.conftest import Keep
from tests.proxy.world import CLIENTS, AnthropicClient
from wane.cli.sessions.listing import agent_of, describe_recorder, of_the_agent, short_id
from wane.core.errors import JournalError, SessionNotFoundError
from wane.journal import Journal, MessageRecord, SessionStore

OWN = {"kind": "request", "parts": [{"part_kind": "user-prompt", "content": "mine"}]}


def own(store: SessionStore, here: Path) -> str:
    with store.create(here, message_format="pydantic_ai", fsync=False) as journal:
        journal.append(MessageRecord(OWN))
    return journal.header.id


@pytest.mark.full
def test_they_are_listed_with_whose_they_are(keep: Keep, store: SessionStore, here: Path, run: Run) -> None:
    kept = [keep(make()) for make in CLIENTS]
    mine = own(store, here)
    listed = {info["id"]: info for info in json.loads(run("sessions", "--json").out)}
    assert (listed[mine]["agent"], listed[mine]["format"], listed[mine]["title"]) == ("wane", "pydantic_ai", "mine")
    for make, each in zip(CLIENTS, kept, strict=True):
        info = listed[each.facts.session]
        assert (info["agent"], info["format"]) == ("proxy", make.wire.name)
        assert (info["title"], info["problem"]) == ("User turn 0: please do thing 0.", None)
        assert info["messages"] > 20
        assert info["bytes"] == each.path.stat().st_size
    out = run("sessions").out
    assert all(api in out for api in ("proxy, Anthropic", "proxy, Chat Completions", "proxy, OpenAI Responses"))
    for each in kept:
        shown = short_id(each.facts.session)
        assert len(shown) == len(mine)
        assert shown in out
        assert store.find(shown) == each.path


def test_whose_a_session_is() -> None:
    proxy = f"{'a' * 24}-{'b' * 16}"
    assert (agent_of(proxy), agent_of("5a3e")) == ("proxy", "wane")
    assert (short_id(proxy), short_id("my-session")) == ("b" * 12, "my-session")
    assert describe_recorder(proxy, "anthropic") == "proxy, Anthropic Messages"
    assert describe_recorder("5a3e", "pydantic_ai") is describe_recorder("5a3e", None) is None
    assert describe_recorder("5a3e", "openai") == "Chat Completions, not the agent's"


class TestTheAgent:
    @pytest.fixture(autouse=True)
    def _needs_the_agent(self) -> None:
        pytest.importorskip("pydantic_ai_harness", reason="the agent extra is not installed")

    def test_it_chooses_among_its_own(self, keep: Keep, store: SessionStore, here: Path) -> None:
        mine = own(store, here)
        keep(AnthropicClient())
        infos = store.sessions(here)
        assert len(infos) == 2
        assert [info.id for info in of_the_agent(infos)] == [mine]

    def test_continue_passes_over_them(self, keep: Keep, store: SessionStore, here: Path) -> None:
        from wane.agent.options import AgentOptions
        from wane.cli.chat.starting import check_options

        options = AgentOptions(cwd=here, continue_last=True)
        kept = keep(AnthropicClient())
        with pytest.raises(SessionNotFoundError, match="no session to go on with"):
            check_options(options)
        mine = own(store, here)
        kept.path.touch()
        assert check_options(options)[1] == store.find(mine)

    def test_resume_refuses_them_with_what_to_do(self, keep: Keep, run: Run) -> None:
        kept = keep(AnthropicClient())
        before = kept.path.read_bytes()
        done = run("-p", "go on", "-r", kept.facts.session)
        assert done.code == 1
        said = " ".join(done.err.split())
        assert "is not the agent's own: it holds anthropic messages, as a proxy keeps them for its clients" in said
        assert f"wane show {kept.facts.session} shows it" in said
        assert kept.path.read_bytes() == before

    def test_one_that_is_cut_short_or_in_use_is_refused_untouched(self, keep: Keep) -> None:
        from wane.agent.config import AgentSettings
        from wane.agent.session import AgentSession, SessionConfig

        kept = keep(AnthropicClient())
        torn = kept.path.read_bytes()[:-5]
        kept.path.write_bytes(torn)
        with pytest.raises(JournalError, match="not the agent's own"):
            AgentSession.resume(kept.path, SessionConfig(kept.path.parent, AgentSettings()))
        assert kept.path.read_bytes() == torn
        with Journal.open(kept.path), pytest.raises(JournalError, match="not the agent's own"):
            AgentSession.resume(kept.path, SessionConfig(kept.path.parent, AgentSettings()))
