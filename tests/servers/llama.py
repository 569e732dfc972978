"""A llama-server with the chat template of another model, and histories that it accepts."""

from __future__ import annotations

import http.client
import json
import os
import random
import re
import string
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.servers.install import Llama

CONTEXT = 4_096
"""Tokens of the server's window."""

Message = dict[str, Any]

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "read",
            "description": "Reads a file.",
            "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
        },
    }
]


@dataclass
class LlamaServer:
    """A running server.

    Attributes:
        template: the name of its chat template.
        port: its port on loopback.
    """

    template: str
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def post(self, path: str, body: Mapping[str, Any] | None) -> tuple[int, Any]:
        """Return status and body of an answer, to a GET if there is nothing to send."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        content = None if body is None else json.dumps(body)
        connection.request("GET" if body is None else "POST", path, content, {"content-type": "application/json"})
        answer = connection.getresponse()
        data = json.loads(answer.read())
        connection.close()
        return answer.status, data

    def render(self, messages: list[Message], tools: list[Any]) -> str:
        """Return the prompt that the template makes of a request of Chat Completions.

        Raises:
            AssertionError: if it refuses the request.
        """
        status, answer = self.post("/apply-template", {"messages": messages, "tools": tools})
        assert status == 200, (answer, messages)
        return str(answer["prompt"])

    @property
    def prompt(self) -> str:
        """The prompt of the latest request."""
        _, slots = self.post("/slots", None)
        return str(slots[0]["prompt"])


@contextmanager
def serve(llama: Llama, template: str, folder: Path) -> Iterator[LlamaServer]:
    """Run a server with a template."""
    log = folder / f"{template}.log"
    command = [str(llama.program), "-m", str(llama.model), "--host", "127.0.0.1", "--port", "0", "-t", "2"]
    command += ["-c", str(CONTEXT), "-np", "1", "--jinja", "--no-warmup", "--no-ui"]
    # The answers are noise, which has not the form that a template's parser expects.
    command += ["--skip-chat-parsing", "--chat-template-file", str(llama.templates / f"{template}.jinja")]
    environ = {**os.environ, "LD_LIBRARY_PATH": str(llama.program.parent), "LLAMA_SERVER_SLOTS_DEBUG": "1"}
    with log.open("w") as out:
        process = subprocess.Popen(command, env=environ, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
    try:
        yield LlamaServer(template, _port(process, log))
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _port(process: subprocess.Popen[bytes], log: Path) -> int:
    end = time.monotonic() + 120
    while time.monotonic() < end and process.poll() is None:
        if match := re.search(r"listening on http://127\.0\.0\.1:(\d+)", log.read_text(errors="replace")):
            return int(match[1])
        time.sleep(0.05)
    raise AssertionError(log.read_text(errors="replace")[-3_000:])


ALTERNATING = ("gemma3", "mistral-nemo")
"""Templates in which turns of the user and plain answers alternate."""
WITHOUT_CALLS = ("gemma3",)
"""Templates that take no calls."""
REASONING = ("qwen3", "gpt-oss")
"""Templates that show reasoning."""


def history(template: str, seed: int, turns: int = 8, scale: int = 1) -> list[Message]:
    """Return a history that the template accepts, and that ends with an answer.

    Args:
        template: the template.
        seed: draws another one.
        turns: number of turns of the user.
        scale: by how much answers and results are longer.
    """
    draw = random.Random(f"{template} {seed}")
    messages: list[Message] = [{"role": "system", "content": "Be brief."}]
    number = 0
    for turn in range(turns):
        if template not in ALTERNATING and turn and draw.random() < 0.2:
            messages.append({"role": "system", "content": f"It is day {turn}."})
        messages.append({"role": "user", "content": f"Question {turn}. " * draw.randint(1, 6)})
        for _ in range(0 if template in WITHOUT_CALLS else draw.randint(0, 3)):
            # Llama's template takes one call at a time.
            calls = [_call(draw, f"{number + each}.py") for each in range(1 if template == "llama3.1" else 2)]
            number += len(calls)
            answer: Message = {"role": "assistant", "content": draw.choice([None, "I look."]), "tool_calls": calls}
            # gpt-oss' template takes either a text or reasoning beside a call.
            if template in REASONING and (template != "gpt-oss" or answer["content"] is None):
                answer["reasoning_content"] = "Hm. " * draw.randint(1, 30)
            messages.append(answer)
            for call in calls:
                found = f"line of {call['id']}\n" * draw.randint(1, 12) * scale
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": found})
        messages.append({"role": "assistant", "content": f"Answer {turn}. " * draw.randint(1, 20) * scale})
    return messages


def _call(draw: random.Random, path: str) -> Message:
    # Mistral's template refuses ids of any other form.
    id_ = "".join(draw.choices(string.ascii_letters + string.digits, k=9))
    return {"id": id_, "type": "function", "function": {"name": "read", "arguments": json.dumps({"path": path})}}
