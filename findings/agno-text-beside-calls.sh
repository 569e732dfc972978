#!/usr/bin/env bash
# Agno 3.1.10: what becomes of the text of an answer that makes calls, too, by OpenAI's Responses API.
#
# Most would expect: what the model said before it called a tool ("I look at a.py first, then at its tests.") goes back to it with the call, as
# the model wrote it; and it does not matter by which of OpenAI's two APIs.
# What happens: `OpenAIChat` sends it back. `OpenAIResponses` does not, neither in the same run nor in later ones, though the run's own
# messages hold it: the model reads a call of its own without the plan that it had told. It is so for each model that Agno does not take
# for one that reasons, and for all of them with `store=False`.
#
# Seen (what the second request has of the first answer):
#   OpenAIChat      gpt-4.1              text and call
#   OpenAIResponses gpt-4.1              call
#   OpenAIResponses gpt-5.5, store=False call
#   in the run's own messages: I look at a.py first.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check agno==3.1.10 openai==3.57.0
AGNO_TELEMETRY=false "$folder/venv/bin/python" - <<'PYTHON'
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

from agno.agent import Agent
from agno.models.openai import OpenAIChat, OpenAIResponses

PLAN = "I look at a.py first."
CALL = {"name": "read", "arguments": '{"path": "a.py"}'}
sent = []


def say(text):
    part = {"type": "output_text", "text": text, "annotations": []}
    return {"type": "message", "id": f"msg_{len(sent)}", "role": "assistant", "status": "completed", "content": [part]}


def chat(first):
    message = {"role": "assistant", "content": PLAN if first else "Done."}
    if first:
        message["tool_calls"] = [{"id": "call_1", "type": "function", "function": CALL}]
    answer = {"id": "a", "object": "chat.completion", "created": 1, "model": "m"}
    answer["choices"] = [{"index": 0, "message": message, "finish_reason": "tool_calls" if first else "stop"}]
    return answer | {"usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}}


def response(first):
    call = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "status": "completed", **CALL}
    answer = {"id": f"resp_{len(sent)}", "object": "response", "created_at": 1, "model": "m", "status": "completed"}
    answer |= {"output": [say(PLAN), call] if first else [say("Done.")], "parallel_tool_calls": True, "tools": [], "tool_choice": "auto"}
    details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    return answer | {"usage": {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2, **details}}


class Server(BaseHTTPRequestHandler):
    """Says what it will do and calls a tool; then it is done."""

    def do_POST(self):
        sent.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        make = response if self.path.endswith("/responses") else chat
        data = json.dumps(make(len(sent) == 1)).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


def read(path: str) -> str:
    """Read a file."""
    return "It says."


server = HTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()


def second_request(kind, name, **settings):
    """What of the first answer the second request holds, and whether the run's own messages hold the text."""
    sent.clear()
    model = kind(id=name, api_key="k", base_url=f"http://127.0.0.1:{server.server_port}/v1", **settings)
    run = Agent(model=model, tools=[read], telemetry=False).run("Go.")
    body = json.dumps(sent[1])
    assert "It says." in body
    held = [what for what, mark in (("text", PLAN), ("call", '"call_1"')) if mark in body]
    return " and ".join(held), any(message.role == "assistant" and message.content == PLAN for message in run.messages)


seen = []
for kind, name, settings in (
    (OpenAIChat, "gpt-4.1", {}),
    (OpenAIResponses, "gpt-4.1", {}),
    (OpenAIResponses, "gpt-5.5", {"store": False}),
):
    held, kept = second_request(kind, name, **settings)
    seen.append((held, kept))
    print(f"{kind.__name__:15} {name + ', store=False' * bool(settings):20} {held}")
server.shutdown()
assert all(kept for _, kept in seen)
print(f"in the run's own messages: {PLAN}")
assert [held for held, _ in seen] == ["text and call", "call", "call"], "the behaviour has changed"
PYTHON
