"""What the real Claude Code says itself leaves the view like any work, and what a person said stays (R15).

It is skipped, with the reason, where it cannot be installed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.marks import first_quick
from tests.proxy.clients.agents import Claude
from tests.proxy.clients.script import ANSWERS, PROMPTS
from tests.proxy.clients.world import Place, proxy, work
from wane.testing import Call, Kind, Reply, Request, ScriptedServer, Usage

pytestmark = pytest.mark.full

BUDGET = 40_000
CALLS = 6  # steps in each of the three turns of the user
RULES = "RULES: be brief."
SKILL = "SKILL: sort the lines."
HOOK = "HOOK after the call"

# Each is told what the client has to say in another way: as tagged system messages, as system messages without a tag,
# and in the user's messages.
MODELS = ("claude-sonnet-5", "claude-opus-5", "claude-haiku-4-5")


@dataclass(frozen=True)
class Skilled(Claude):
    """Claude Code that may use skills."""

    def command(self, prompt: str, turn: int) -> list[str]:
        return [option.replace("Bash", "Bash Skill") for option in super().command(prompt, turn)]


def furnish(place: Place) -> None:
    """Put into the working directory what the client tells the model of."""
    (place.work / "CLAUDE.md").write_text(f"{RULES}\n")
    skill = place.work / ".claude" / "skills" / "tidy"
    skill.mkdir(parents=True)
    body = "\n".join(f"Rule {number}: line {number} stands where it belongs." for number in range(500))
    skill.joinpath("SKILL.md").write_text(f"---\nname: tidy\ndescription: Tidies up\n---\n\n{SKILL}\n{body}\n")
    said = {
        "hookEventName": "PostToolUse",
        "additionalContext": f"{HOOK}. " + "It is well, and no more is to say. " * 40,
    }
    command = f"echo '{json.dumps({'hookSpecificOutput': said})}'"
    hooks = {"PostToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": command}]}]}
    (place.work / ".claude" / "settings.json").write_text(json.dumps({"hooks": hooks}))


class Model:
    """Uses the skill, then reads large files over and over, and marks nothing."""

    def __init__(self) -> None:
        self.asked: list[Request] = []
        steps = [[Reply(calls=(Call("Bash", {"command": f"cat big{1 + n % 4}.txt"}),))] * CALLS for n in range(3)]
        steps[0].insert(0, Reply(calls=(Call("Skill", {"skill": "tidy"}),)))
        self._replies = iter(
            [reply for turn, answer in zip(steps, ANSWERS, strict=True) for reply in (*turn, Reply(answer))]
        )

    def __call__(self, request: Request) -> Reply:
        usage = Usage(request.tokens, 20)
        if "Bash" not in request.tools:
            return Reply("Fine.", usage=usage)
        self.asked.append(request)
        said = next(self._replies)
        return Reply(said.text, calls=said.calls, usage=usage)


def holds(request: Request, text: str) -> int:
    return sum(part.text.count(text) for part in request.parts if part.kind is not Kind.CALL)


@pytest.mark.parametrize("name", first_quick(*MODELS))
def test_what_claude_code_says_goes_and_prompts_stay(name: str, tmp_path: Path) -> None:
    place, model = Place.make(tmp_path / "agent"), Model()
    furnish(place)
    with (
        ScriptedServer(model) as server,
        proxy(server.url, tmp_path, "--budget", str(BUDGET), "--min-room", "0", "--strict") as url,
    ):
        done = work(Skilled(model=name), place, upstream=url)
        assert server.refusals == ()
    assert done.answers == list(ANSWERS)
    assert len(model.asked) == 3 * (CALLS + 1) + 1
    _, skilled, *_, last = model.asked
    # The skill's body came with its call, and has gone; so have hooks' words of calls that have gone.
    assert holds(skilled, SKILL) == 1
    assert holds(last, SKILL) == 0
    assert 0 < holds(last, HOOK) < 3 * CALLS
    assert max(request.tokens for request in model.asked) <= BUDGET
    # What a person said is in every request from then on, and so is what stood ahead of the first answer.
    for number, prompt in enumerate(PROMPTS):
        first = number * (CALLS + 1) + (number > 0)
        assert [holds(request, prompt) > 0 for request in model.asked] == [
            at >= first for at in range(len(model.asked))
        ]
    assert all(holds(request, RULES) for request in model.asked)
