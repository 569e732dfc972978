"""Recall over every protocol: an evicted episode comes back as the client has it, unseen by the client."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.marks import first_quick
from tests.proxy.recaller import Recaller, recall_results
from tests.proxy.sessions.test_index import SMALL, clear_results, disk, every_client, result, work
from tests.proxy.world import Client, Upstream, exchange, run_turn
from wane.cli.failure import UsageError
from wane.cli.proxy.proxy_commands import ContextOptions
from wane.cli.proxy.proxy_options import context_settings
from wane.conversation.request import RECALL_ALONE
from wane.flags import options_of
from wane.proxy.server.exchange import MOST_RECALLS, TOO_MANY
from wane.proxy.sessions.session_index import SessionIndex
from wane.proxy.store.stores import MemoryStore
from wane.testing import Call, Reply, Request, Usage

RECALLING = replace(SMALL, recall=True)


def start(name: str, type_: str = "expl") -> Call:
    return Call("delimiter", {"action": "start", "name": name, "type": type_})


END = Call("delimiter", {"action": "end", "description": "nothing"})
READ = Call("read", {"path": "f"})


def recall(name: str, **more: Any) -> Call:
    return Call("recall", {"name": name, **more})


def script_upstream(client: Client, replies: Sequence[Reply]) -> Upstream:
    left = iter(replies)
    return Upstream(client.provider, lambda _: next(left))


def is_hidden(client: Client) -> bool:
    text = json.dumps(client.history)
    return "delimiter" not in text and "recall" not in text and "Episode" not in text


@pytest.mark.full
@every_client
@pytest.mark.parametrize("seed", first_quick(*range(3)))
async def test_what_is_recalled_is_exact(make: type[Client], seed: int) -> None:
    client, agent = make(), Recaller(seed, reasons=seed % 2 == 1)
    settings = replace(RECALLING, strategy="paper" if seed == 2 else "cwl")
    index, upstream = SessionIndex(MemoryStore(), settings), Upstream(make.provider, agent)
    done = await work(index, client, upstream, 12)
    assert agent.check() >= 3
    assert agent.removed & set(agent.whole)
    assert is_hidden(client)
    assert len(index.status()) == 1
    assert done[-1].facts.evicted > 0
    # What was recalled is evicted as other results are.
    first = next(pages for pages in map(recall_results, upstream.requests) if pages)
    assert not set(first) & set(recall_results(upstream.requests[-1]))


@pytest.mark.quick(1)
@every_client
@pytest.mark.parametrize("stored", [False, True], ids=["in memory", "on disk"])
async def test_a_fork_recalls_what_was_before_it_and_its_own(make: type[Client], stored: bool, tmp_path: Path) -> None:
    client, agent = make(), Recaller(3, share=0.1)
    index = SessionIndex(disk(tmp_path) if stored else MemoryStore(), RECALLING)
    await work(index, client, Upstream(make.provider, agent), 6)
    fork, forked = client.copy(), copy.deepcopy(agent)
    agent.share = forked.share = 0.6
    forked.label = "fork"
    await work(index, client, Upstream(make.provider, agent), 5)
    fork.say("Something else instead.")
    await run_turn(index, fork, Upstream(make.provider, forked), result)
    await work(index, fork, Upstream(make.provider, forked), 5)
    assert len(index.status()) == 2
    assert min(agent.check(), forked.check()) >= 3
    await index.close()


@every_client
async def test_an_edited_message_is_recalled_as_the_client_has_it_now(make: type[Client]) -> None:
    client = make()
    replies = [
        Reply(calls=(start("look"), Call("read", {"path": "a"}), Call("bash", {"run": "b"}))),
        Reply("Seen.", calls=(Call("read", {"path": "c"}), END)),
        Reply("Done."),
        Reply("Done again."),
        Reply(calls=(recall("look"),)),
        Reply("Read."),
    ]
    index, upstream = SessionIndex(MemoryStore(), replace(RECALLING, budget=20_000)), script_upstream(client, replies)
    await work(index, client, upstream, 2)
    client.history = [*clear_results(client.history[:-2]), *client.history[-2:]]
    done = await work(index, client, upstream, 1)
    (text,) = recall_results(upstream.requests[-1])
    assert text.count("[result]\n[cleared]") == 3
    assert text.count("[call read]") == 2
    assert '"path":"c"' in text
    assert text.index("Started") < text.index("Seen.") < text.index("Ended")
    assert "line of output" not in text
    assert len(index.status()) == 1
    assert len(done[-1].bodies) == 2


@every_client
async def test_a_search_finds_what_was_evicted_and_what_the_client_has_changed(make: type[Client]) -> None:
    replies = [
        Reply(calls=(start("look"), Call("read", {"path": "a"}), Call("bash", {"run": "needle-7"}))),
        Reply("The needle-8 is seen.", calls=(END,)),
        Reply("Done."),
        Reply("Done again."),
        Reply(calls=(Call("recall", {"search": r"needle-\d"}), Call("recall", {"search": "cleared"}))),
        Reply("Read."),
    ]

    client = make()
    index, upstream = SessionIndex(MemoryStore(), replace(RECALLING, budget=20_000)), script_upstream(client, replies)
    await work(index, client, upstream, 2)
    client.history = [*clear_results(client.history[:-2]), *client.history[-2:]]
    await work(index, client, upstream, 1)
    found, changed = recall_results(upstream.requests[-1])
    assert "found in 2 places" in found
    assert found.index("The needle-8 is seen.") < found.index('{"run":"needle-7"}')
    assert found.count('in episode "look", in view') == 2
    assert changed.count("result of `") == 2
    assert is_hidden(client)


@every_client
@pytest.mark.parametrize("restarted", [False, True])
async def test_nothing_of_another_name_is_recalled(make: type[Client], restarted: bool, tmp_path: Path) -> None:
    """Bob sends exactly what Alice's client has: marks and descriptions of her session are hers alone."""
    end = Call("delimiter", {"action": "end", "description": "the plan of needle-9"})
    asking = (recall("look"), Call("recall", {"search": "needle-9"}))
    replies = [
        Reply(calls=(start("look"), READ)),
        Reply("Seen.", calls=(end,)),
        Reply("Done."),
        *[Reply(calls=asking), Reply("Read.")] * 3,
    ]
    alice = make()
    index, upstream = SessionIndex(disk(tmp_path), RECALLING), script_upstream(alice, replies)
    for words in ("Look.", "Go on."):
        alice.say(words)
        while alice.take((await exchange(index, alice, upstream, owner="alice")).answer, result):
            pass
        if len(upstream.requests) > 2:
            break
    bob, operator = alice.copy(), alice.copy()
    if restarted:
        await index.close()
        index = SessionIndex(disk(tmp_path), RECALLING)
    answers = {}
    for owner, client in (("bob", bob), ("", operator), ("alice", alice)):
        client.say("What was it?")
        client.take((await exchange(index, client, upstream, owner=owner)).answer, result)
        answers[owner] = recall_results(upstream.requests[-1])
    episode, places = answers["alice"]
    assert "Seen." in episode
    assert "the plan of needle-9" in places
    for owner in ("bob", ""):
        assert len(answers[owner]) == 2
        assert "needle-9" not in "".join(answers[owner]).replace('"needle-9"', "")
        assert "Seen." not in "".join(answers[owner])
    await index.close()


@every_client
async def test_answers_keep_the_order_of_calls(make: type[Client]) -> None:
    """Those that are wrong as well; and what was marked in this very reply is not in the history yet."""
    calls = (
        recall("look"),
        END,
        Call("recall", "{not json"),
        start("new"),
        recall("new"),
        END,
    )
    replies = [Reply(calls=(start("look"), READ)), Reply(calls=calls), Reply(calls=calls[4:5]), Reply("Done.")]

    client = make()
    upstream = script_upstream(client, replies)
    await work(SessionIndex(MemoryStore(), RECALLING), client, upstream, 1)
    texts = list(upstream.requests[-1].results.values())[2:]
    begins = ['Episode "look", ', "Ended", "Error: `recall` needs", "Started", "Error: no episode", "Ended"]
    assert [text.startswith(begin) for text, begin in zip(texts, begins, strict=False)] == [True] * 6, texts
    assert texts[6].startswith("Error: no episode is named 'new'")
    assert is_hidden(client)


@every_client
async def test_a_reply_recalls_so_often_and_the_next_one_again(make: type[Client]) -> None:
    many = tuple(recall("look", offset=number) for number in range(MOST_RECALLS))
    replies = [
        Reply(calls=(start("look"), READ)),
        Reply(calls=(END, *many)),
        Reply(calls=many[:1]),
        Reply(calls=(*many[:1], READ)),
        Reply(calls=many[:1]),
        Reply("Done."),
    ]

    client = make()
    upstream = script_upstream(client, replies)
    await work(SessionIndex(MemoryStore(), replace(RECALLING, budget=9_000)), client, upstream, 1)
    refused = [text == TOO_MANY for text in recall_results(upstream.requests[-1])]
    assert refused == [False] * MOST_RECALLS + [True, True, False]


@every_client
async def test_pages_of_one_reply_stay_within_the_budget_by_the_providers_count(make: type[Client]) -> None:
    ratio, budget, episodes = 1.8, 34_000, 12
    replies: list[Reply] = []
    for number in range(episodes):
        replies += [Reply(calls=(start(f"look {number}"), READ)), Reply(calls=(END,))]
    replies += [Reply(calls=tuple(recall("look 0", offset=number) for number in range(MOST_RECALLS))), Reply("Done.")]
    left = iter(replies)

    def model(request: Request) -> Reply:
        return replace(next(left), usage=Usage(round(ratio * request.tokens), 10))

    client = make()
    upstream = Upstream(client.provider, model)
    client.say("Go on.")
    index = SessionIndex(MemoryStore(), replace(RECALLING, budget=budget))
    await run_turn(index, client, upstream, lambda *_: "what a file says " * 1_100)
    pages = recall_results(upstream.requests[-1])
    assert len(pages) == MOST_RECALLS
    assert max(ratio * len(page) / 4 for page in pages) == pytest.approx(0.1 * budget, rel=0.1)
    assert max(round(ratio * request.tokens) for request in upstream.requests) <= budget


@every_client
@pytest.mark.parametrize(
    ("settings", "tools", "gained"),
    [
        (SMALL, (), ("delimiter",)),
        (RECALLING, (), ("delimiter", "recall")),
        (replace(RECALLING, strategy="paper"), (), ("delimiter", "recall")),
        (RECALLING, ("recall",), ("delimiter",)),
        (RECALLING, ("delimiter",), ()),
        (replace(RECALLING, annotate="infer"), (), ("recall",)),
        (replace(RECALLING, strategy="truncate"), (), ("recall",)),
        (replace(RECALLING, strategy="truncate"), ("recall",), ()),
        (replace(SMALL, strategy="truncate"), (), ()),
    ],
)
async def test_who_gains_the_tool(
    make: type[Client], settings: Any, tools: Sequence[str], gained: Sequence[str]
) -> None:
    client = make(("read", *tools))
    upstream = script_upstream(
        client, [Reply(calls=(recall("mine"),) if "recall" in tools else (READ,)), Reply("Done.")]
    )
    done = await work(SessionIndex(MemoryStore(), settings), client, upstream, 1)
    assert all(request.tools == ("read", *tools, *gained) for request in upstream.requests)
    system = upstream.requests[0].system
    assert ("`recall` it by its name" in system) == (gained == ("delimiter", "recall"))
    assert (RECALL_ALONE in system) == (gained == ("recall",))
    assert [len(each.bodies) for each in done] == [1, 1]


@every_client
@pytest.mark.parametrize("values", [{"annotate": "infer"}, {"strategy": "truncate"}])
async def test_a_model_that_marks_nothing_recalls(make: type[Client], values: dict[str, Any]) -> None:
    """By a search, and by the name of an inferred episode that it found; the client sees nothing of either."""
    reads = [Reply(calls=(Call("read", {"path": f"f{number}"}),)) for number in range(40)]
    name = Call("recall", {"name": "reading-1:f0"})
    replies = [*reads, Reply(calls=(Call("recall", {"search": '"f0"'}), name)), Reply("Found."), Reply("On.")]

    client = make()
    index, upstream = SessionIndex(MemoryStore(), replace(RECALLING, **values)), script_upstream(client, replies)
    await work(index, client, upstream, 2)
    found, read = recall_results(upstream.requests[-1])
    assert "was found in " in found
    assert "not in view" in found
    assert ('Episode "reading-1:f0"' in read) == ("annotate" in values)
    assert is_hidden(client)


def test_recall_where_nothing_is_evicted_is_a_mistake() -> None:
    with pytest.raises(UsageError, match="--strategy none evicts nothing"):
        context_settings(options_of(ContextOptions, {"strategy": "none", "recall": True}))
    for values in ({"strategy": "clear-tools"}, {"annotate": "infer"}, {"strategy": "paper"}):
        assert context_settings(options_of(ContextOptions, {**values, "recall": True})).recall is True
