#!/usr/bin/env bash
# Google ADK 2.13.0 with google-genai 2.34.0 and its own default provider, `EventsCompactionConfig(token_threshold=…, event_retention_size=…)`.
#
# Most would expect: what is sent after a compaction is in the order that Gemini demands, where a call comes right behind a user's turn or a
# result, and holds the turn that the agent is working on.
# What happens: the summary is made a model's message, and compaction runs within a turn, too. The turn itself is summarised away, and the
# events that stay begin with the model's call: the request holds no user's turn at all, and its call stands behind a model's message.
# Gemini refuses such a request ("Please ensure that function call turn comes immediately after a user turn or after a function response
# turn"), and all those of the turn that follow. A user's turn is added by ADK only at the end of a request.
#
# Seen (roles of what each request of one turn holds; the server here answers whatever the order):
#   user
#   user, model: call, user: result
#   user, model: call, user: result, model: call, user: result
#   model, model: call, user: result
#   model, model: call, user: result
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3.12 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --no-compile --disable-pip-version-check google-adk==2.13.0 google-genai==2.34.0
cd "$folder"
unset GOOGLE_API_KEY GOOGLE_GENAI_USE_VERTEXAI
export GEMINI_API_KEY=k
venv/bin/python -W ignore - 2>/dev/null <<'PYTHON'
import asyncio
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

from google.adk.agents import LlmAgent
from google.adk.apps.app import App, EventsCompactionConfig
from google.adk.models import Gemini
from google.adk.runners import InMemoryRunner
from google.genai import types

CALLS = 4
requests = []


class Server(BaseHTTPRequestHandler):
    """Makes four calls, then ends the turn; summarises when it is offered no tools."""

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        part = {"text": "A summary."}
        if "tools" in body:
            requests.append(body["contents"])
            call = {"name": "read", "args": {"path": f"f{len(requests)}"}}
            part = {"functionCall": call} if len(requests) <= CALLS else {"text": "Done."}
        usage = {"promptTokenCount": 1000 * len(requests), "candidatesTokenCount": 1, "totalTokenCount": 1000 * len(requests) + 1}
        candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
        data = json.dumps({"candidates": [candidate], "usageMetadata": usage, "modelVersion": "m"}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


def read(path: str) -> dict:
    """Reads a file."""
    return {"text": f"the text of {path}"}


def form(content):
    part = content["parts"][0]
    kind = "call" if "functionCall" in part else "result" if "functionResponse" in part else ""
    return content["role"] + (f": {kind}" if kind else "")


async def main():
    server = HTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    model = Gemini(model="gemini-3-pro-preview", base_url=f"http://127.0.0.1:{server.server_port}")
    compaction = EventsCompactionConfig(token_threshold=3000, event_retention_size=2)
    agent = LlmAgent(name="agent", model=model, tools=[read])
    runner = InMemoryRunner(app=App(name="app", root_agent=agent, events_compaction_config=compaction))
    session = await runner.session_service.create_session(app_name="app", user_id="u")
    turn = types.Content(role="user", parts=[types.Part(text="Read the four files.")])
    async for _ in runner.run_async(user_id="u", session_id=session.id, new_message=turn):
        pass


asyncio.run(main())
seen = [", ".join(map(form, contents)) for contents in requests]
print(*seen, sep="\n")
full = ["user", "user, model: call, user: result", "user, model: call, user: result, model: call, user: result"]
if seen[:3] != full or set(seen[3:]) != {"model, model: call, user: result"}:
    raise SystemExit("it changed")
PYTHON
