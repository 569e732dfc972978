"""`wane show` of a proxy's sessions: the same figures as the proxy's own, and the very view that it sent."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from tests.cli.conftest import Run
from tests.marks import cross_quick
from tests.proxy.agents import Worker
from tests.proxy.reading.conftest import Keep
from tests.proxy.world import CLIENTS, AnthropicClient, Client, RemindedClient, every_client
from wane import Kind, chars
from wane.cli.sessions.show import LoadedSession, load_session
from wane.formats import Part, get_format
from wane.formats.notices import INDEX_OPENING
from wane.journal import MessageRecord
from wane.prices import Prices
from wane.strategies.clear_tools import PLACEHOLDER
from wane.testing import Reply, Request, Usage

each_strategy_and_client = pytest.mark.parametrize(
    ("make", "strategy"), cross_quick(CLIENTS, ("cwl", "paper", "truncate", "clear-tools", "none"))
)


@pytest.mark.quick(1)
@pytest.mark.quick(2)
@each_strategy_and_client
def test_its_figures_are_the_proxys(make: type[Client], strategy: str, keep: Keep) -> None:
    kept = keep(make(), strategy=strategy)
    session, facts = load_session(kept.path), kept.facts
    assert session.rebuilt.strategy == strategy
    assert (session.rebuilt.engine.tokens, session.rebuilt.engine.evicted) == (facts.view, facts.evicted)
    assert session.history_tokens == facts.history
    assert (facts.evicted > 0) == (strategy != "none")
    blocks = session.blocks
    assert sum(block.tokens for block in blocks if block.stays) == facts.view
    assert sum(block.tokens for block in blocks) == facts.history


@pytest.mark.quick(1)
@pytest.mark.parametrize(("make", "strategy"), cross_quick(CLIENTS, ("cwl", "paper")))
def test_only_the_first_round_of_a_reply_tells_the_size_of_the_view(
    make: type[Client], strategy: str, keep: Keep
) -> None:
    kept = keep(make(), seed=5, strategy=strategy)
    assert len(kept.exchanges[-1].bodies) == 2, "the model marked its work in a round that the client did not see"
    session = load_session(kept.path)
    assert (session.rebuilt.engine.tokens, session.history_tokens) == (kept.facts.view, kept.facts.history)


@pytest.mark.quick(1)
@each_strategy_and_client
def test_a_report_that_leaves_out_most_of_the_request_is_ignored(make: type[Client], strategy: str, keep: Keep) -> None:
    worker = Worker(1)

    def answer_uncached(request: Request) -> Reply:
        reply = worker(request)
        return replace(reply, usage=Usage(request.tokens // 4, reply.tokens))

    kept = keep(make(), model=answer_uncached, strategy=strategy)
    session = load_session(kept.path)
    assert (session.rebuilt.engine.tokens, session.history_tokens) == (kept.facts.view, kept.facts.history)


def _plain(part: Part) -> Part:
    return replace(part, needs=(), call_id=part.call_id and re.sub(r"#\d+$", "", part.call_id))


@pytest.mark.quick(1)
@pytest.mark.quick(2)
@each_strategy_and_client
def test_its_view_is_what_the_proxy_sent(make: type[Client], strategy: str, keep: Keep) -> None:
    kept = keep(make(), strategy=strategy)
    session = load_session(kept.path)
    # The guidance comes on top: a message of its own in some protocols, and in others part of the system message.
    sent = [part for part in kept.view if part.kind is not Kind.SYSTEM]
    told = [part for part in told_view(session) if part.kind is not Kind.SYSTEM]
    index = session.rebuilt.window.index
    assert [part.text for part in sent if part.text.startswith(INDEX_OPENING)] == (
        [] if index is None else [index.text]
    )
    sent = [part for part in sent if not part.text.startswith(INDEX_OPENING)]
    if make.wire.name == "gemini":
        # What a call needs, its name if it has no id, and the order of results depend on what is left of its content.
        sent, told = (sorted(map(_plain, parts), key=repr) for parts in (sent, told))
    # A turn of the user may stand further ahead, where it joins the one before it (R12b).
    for is_user in (True, False):
        kept_parts = [part for part in sent if not part.system and (part.kind is Kind.USER) is is_user]
        assert kept_parts == [part for part in told if not part.system and (part.kind is Kind.USER) is is_user]
    # What the harness says in the system's place a wire seats where the provider takes it, in the same order.
    assert [part for part in sent if part.system] == [part for part in told if part.system]
    assert (PLACEHOLDER in {part.text for part in sent}) == (strategy == "clear-tools")
    assert any(part.system for part in sent) == (make is RemindedClient)


@every_client
def test_what_has_folded_is_told_by_the_recorded_episodes(make: type[Client], keep: Keep) -> None:
    kept = keep(make(), strategy="fold", annotate="infer")
    session, facts = load_session(kept.path), kept.facts
    assert any(record.marks for record in session.file.records if isinstance(record, MessageRecord))
    assert facts.evicted > 0
    assert (session.rebuilt.engine.tokens, session.rebuilt.engine.evicted) == (facts.view, facts.evicted)


def told_view(session: LoadedSession) -> list[Part]:
    """What `wane show` says of the last request, with the content that the journal holds."""
    format_, instead = get_format(session.file.header.format), session.instead
    parts = [part for message in session.rebuilt.messages for part in format_.parts(message)]
    assert all(tokens == chars(PLACEHOLDER) for tokens in instead.values())
    shown = sorted([*session.visible, *instead])
    return [replace(parts[index], text=PLACEHOLDER) if index in instead else parts[index] for index in shown]


@pytest.mark.quick(1)
@every_client
def test_episodes_passes_and_usage(make: type[Client], keep: Keep, run: Run) -> None:
    kept = keep(make())
    data: dict[str, Any] = json.loads(run("show", kept.facts.session, "--json").out)
    assert (data["agent"], data["format"], data["strategy"]) == ("proxy", make.wire.name, "cwl")
    assert data["tokens"] == {"history": kept.facts.history, "view": kept.facts.view}
    # A pass counts as the provider does, by its last report; what is evicted is told by our own count.
    steps = [step for pass_ in data["passes"] for step in pass_["steps"]]
    evicted = sum(step["tokens_before"] - step["tokens_after"] for step in steps)
    assert evicted == pytest.approx(kept.facts.evicted, rel=0.02)
    asked = sum(len(exchange.bodies) for exchange in kept.exchanges)
    assert data["usage"]["model_calls"] == asked > len(kept.exchanges), "rounds that the client did not see count too"
    rates, used = Prices.of(kept.facts.model).tiers[0], data["usage"]
    spent = used["input_tokens"] * rates.input + used["output_tokens"] * rates.output
    assert used["cost_usd"] == pytest.approx(spent, abs=1e-6)
    assert "cost unknown" not in run("show", kept.facts.session).out
    assert [turn["text"] for turn in data["turns"]] == [
        *(f"User turn {number}: please do thing {number}." for number in range(6)),
        "One thing more.",
    ]
    assert {episode["level"] for episode in data["episodes"]} > {"none"}


@pytest.mark.quick(1)
@every_client
def test_inferred_episodes_are_shown_as_such(make: type[Client], keep: Keep) -> None:
    kept = keep(make(), annotate="infer", marks=False)
    session = load_session(kept.path)
    assert any(episode.inferred for episode in session.rebuilt.episodes)
    assert (session.rebuilt.engine.tokens, session.history_tokens) == (kept.facts.view, kept.facts.history)


def test_the_page_says_whose_it_is_and_is_found_by_the_end_of_its_id(keep: Keep, run: Run) -> None:
    kept = keep(AnthropicClient(), strategy="clear-tools")
    done = run("show", kept.facts.session.rpartition("-")[2][:6])
    assert done.code == 0, done.err
    assert "kept by    proxy, Anthropic Messages, clear-tools" in done.out
    assert f"{kept.facts.view:,} of 4,000 tokens; {kept.facts.history:,} with all that was evicted" in done.out
    assert "never evicted" not in done.out, "that is a promise of eviction by episode"


def test_what_an_agent_put_in_is_shown_where_its_user_said_nothing(keep: Keep) -> None:
    client = AnthropicClient()
    client.history.append({"role": "user", "content": [{"type": "text", "text": "<system-reminder>be good"}]})
    session = load_session(keep(client).path)
    assert session.turns[0].text.startswith("<system-reminder>be good")
