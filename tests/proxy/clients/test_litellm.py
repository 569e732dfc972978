"""LiteLLM as a library, through `wane run`: a loop of one's own over its synchronous calls."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.proxy.clients.world import WANE, Place
from wane.testing import Call, Kind, Reply, ScriptedServer, adapters

pytest.importorskip("litellm", reason="LiteLLM is not installed")
pytestmark = pytest.mark.full

AGENT = """
import sys
import litellm
from wane.testing.adapters import content_of, prompt_of

schema = {"type": "object", "properties": {"path": {"type": "string"}}}
tools = [{"type": "function", "function": {"name": "read", "description": "Read a file.", "parameters": schema}}]
messages = [{"role": "system", "content": "Be good."}]
for turn in range(3):
    messages.append({"role": "user", "content": prompt_of(turn)})
    while True:
        message = litellm.completion(sys.argv[1], messages, tools=tools, num_retries=0).choices[0].message
        messages.append(message.model_dump(exclude_none=True))
        if not message.tool_calls:
            break
        for call in message.tool_calls:
            messages.append({"role": "tool", "tool_call_id": call.id, "content": content_of(call.id)})
print(sum(message["role"] == "tool" for message in messages), messages[-1]["content"])
"""
BUDGET = 6_000


def script() -> Iterator[Reply]:
    for n in range(3):
        start = Call("delimiter", {"action": "start", "name": f"look-{n}", "type": "expl"}, f"start-{n}")
        yield Reply(calls=(start, Call("read", {"path": f"a{n}"}, f"a{n}"), Call("read", {"path": f"b{n}"}, f"b{n}")))
        yield Reply(calls=(Call("read", {"path": f"c{n}"}, f"c{n}"),))
        yield Reply(calls=(Call("delimiter", {"action": "end", "name": f"look-{n}", "description": "Lines."}),))
        yield Reply(f"Done {n}.")


@pytest.mark.parametrize(
    ("api", "model", "environ"),
    [
        ("openai", "openai/gpt-x", {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "{url}/v1"}),
        ("openai", "openai/responses/gpt-x", {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "{url}/v1"}),
        ("anthropic", "anthropic/claude-sonnet-4-5", {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": "{url}"}),
    ],
)
def test_a_loop_works_within_the_budget(api: str, model: str, environ: dict[str, str], tmp_path: Path) -> None:
    place = Place.make(tmp_path / "agent")
    (place.work / "agent.py").write_text(AGENT)
    with ScriptedServer(script()) as server:
        given = {name: value.format(url=server.url) for name, value in environ.items()}
        given |= {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "PYTHONPATH": ":".join(filter(None, sys.path))}
        command = [*WANE, "run", "--api", api, "--budget", str(BUDGET), "--", sys.executable, "agent.py", model]
        done = place.run(command, given)
    assert done.stdout.splitlines()[-1:] == ["9 Done 2."], done.stdout + done.stderr
    assert not server.refusals
    assert server.remaining == 0
    assert all(request.tokens <= BUDGET for request in server.requests)
    assert server.requests[1].results["start-0"].startswith("Started")
    assert "a0" not in server.requests[-1].results
    assert [text for text in server.requests[-1].texts(Kind.USER) if text.startswith("Turn")] == [
        adapters.prompt_of(n) for n in range(3)
    ]
