"""The budget holds whatever the model does: the real Claude Code at work with models that do not mark as they should.

It is skipped, with the reason, where it cannot be installed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.marks import first_quick
from tests.proxy.clients.agents import Claude
from tests.proxy.clients.script import ANSWERS, end, start
from tests.proxy.clients.world import Place, proxy, work
from wane.testing import Call, Kind, Reply, Request, ScriptedServer, Usage

pytestmark = pytest.mark.full

BUDGET = 40_000  # of which its own instructions and tools are 27,000, as the provider counts here
RATIO = 1.25  # tokens of the provider for each of ours
CALLS = 8  # steps in each of the three turns of the user

Marks = Callable[[int], tuple[Call, ...]]


def none(step: int) -> tuple[Call, ...]:
    """The model never marks."""
    return ()


def endless(step: int) -> tuple[Call, ...]:
    """The model begins one exploration, and never ends it."""
    return (start("all-of-it", "expl"),) if step == 0 else ()


def refused_acts(step: int) -> tuple[Call, ...]:
    """The model begins acts, on explorations that there are none of."""
    return (start(f"work-{step}", "act", f"find-{step}"),) if step % 2 == 0 else ()


def lawless(step: int) -> tuple[Call, ...]:
    """The model ends what it never began, and calls alone what it could call beside its work."""
    return (end("I know it all."),)


class Model:
    """Reads large files over and over, and marks in its own way; alone at every third mark.

    Attributes:
        sizes: tokens of each request of a session, as the provider counts.
        accepted: ids of calls of `delimiter` that were accepted.
        rejected: ids of those that were not.
    """

    def __init__(self, marks: Marks) -> None:
        self.sizes: list[int] = []
        self.accepted: set[str] = set()
        self.rejected: set[str] = set()
        self._replies = self._all(marks)

    def __call__(self, request: Request) -> Reply:
        size = round(RATIO * request.tokens)
        usage = Usage(size, 20)
        if "Bash" not in request.tools:
            return Reply("Fine.", usage=usage)
        self.sizes.append(size)
        for part in request.parts:
            if part.kind is Kind.CALL and part.tool == "delimiter":
                accepted = request.results[part.call_id or ""].startswith(("Started", "Ended"))
                (self.accepted if accepted else self.rejected).add(part.call_id or "")
        said = next(self._replies)
        return Reply(said.text, calls=said.calls, usage=usage)

    def _all(self, marks: Marks) -> Iterator[Reply]:
        step = 0
        for answer in ANSWERS:
            for number in range(CALLS):
                made = marks(step)
                if made and step % 3 == 0:
                    yield Reply(calls=made)
                    made = ()
                look = [
                    Call("Bash", {"command": f"echo {step}.{n}; cat big{1 + (number + n) % 4}.txt"}) for n in (0, 1)
                ]
                yield Reply(calls=(*made, *look[: 1 + number % 2]))
                step += 1
            yield Reply(answer)


@pytest.mark.wide
@pytest.mark.parametrize(("marks", "accepted"), first_quick((endless, 1), (none, 0), (refused_acts, 0), (lawless, 0)))
def test_no_request_of_claude_code_is_over_the_budget(marks: Marks, accepted: int, tmp_path: Path) -> None:
    place, model = Place.make(tmp_path / "agent"), Model(marks)
    with (
        ScriptedServer(model) as server,
        # Its instructions leave less than the room that a budget has by default (R22).
        proxy(server.url, tmp_path, "--budget", str(BUDGET), "--min-room", "0", "--strict") as url,
    ):
        done = work(Claude(), place, upstream=url)
        assert server.refusals == ()
    assert done.answers == list(ANSWERS)
    assert len(model.accepted) == accepted
    assert (len(model.rejected) > CALLS) is (marks in (refused_acts, lawless))
    read = sum(len(text) for text in transcript(place)) / 4 * RATIO
    assert read > 3 * BUDGET
    assert max(model.sizes) <= BUDGET
    # There is room to work in, and it is used.
    assert max(model.sizes) > 0.85 * BUDGET


def transcript(place: Place) -> Iterator[str]:
    """The results of tools that the client has kept."""
    for content in Claude().transcript(place.home):
        for block in content if isinstance(content, list) else ():
            if block["type"] == "tool_result":
                yield json.dumps(block["content"])
