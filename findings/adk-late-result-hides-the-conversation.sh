#!/usr/bin/env bash
# Google ADK 2.13.0 with google-genai 2.34.0 and its own default provider, a `LongRunningFunctionTool` whose result comes late.
#
# Most would expect: while an approval or a job is pending, a person goes on talking to the agent, and it works on. When the result comes, the
# model sees it together with all that was said and done meanwhile.
# What happens: the request that the result brings about ends with the result, right behind its call, and leaves out everything in between: the
# person's words, the model's answers, its other calls and their results. The model decides what to do with an approval without the condition
# that came with it. From the next request on all of it is back, but behind the result, in the place of the pending one: it reads as if the
# approval had been there before the condition was named.
#
# Seen (an approval is asked for; a person says "Never touch production.", and a file is read; the approval comes; contents of two requests):
#   at the result, without the rule: user, model: call ask, user: result ask
#   one call later, with the rule:   user, model: call ask, user: result ask, model, user, model: call read, user: result read, model, …
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
from google.adk.models import Gemini
from google.adk.runners import InMemoryRunner
from google.adk.tools import LongRunningFunctionTool
from google.genai import types

RULE = "Never touch production."
# What the model answers, in order: it asks, waits, reads a file, says what it read; then, with the approval, reads another one and ends.
ANSWERS = [
    {"functionCall": {"id": "c1", "name": "ask", "args": {"what": "deploy"}}},
    {"text": "I wait."},
    {"functionCall": {"id": "c2", "name": "read", "args": {"path": "a"}}},
    {"text": "I have read it."},
    {"functionCall": {"id": "c3", "name": "read", "args": {"path": "b"}}},
    {"text": "Done."},
    {"text": "Done."},
]
requests = []


class Server(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        part = ANSWERS[len(requests)]
        requests.append(body["contents"])
        usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
        candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
        data = json.dumps({"candidates": [candidate], "usageMetadata": usage, "modelVersion": "m"}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


def ask(what: str) -> dict:
    """Asks a person for approval."""
    return {"status": "pending"}


def read(path: str) -> dict:
    """Reads a file."""
    return {"text": f"the text of {path}"}


def form(content):
    words = []
    for part in content["parts"]:
        for key, kind in (("functionCall", "call"), ("functionResponse", "result")):
            if key in part:
                words.append(f"{kind} {part[key]['name']}")
    return ": ".join([content["role"], *words])


async def main():
    server = HTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    model = Gemini(model="gemini-2.5-flash", base_url=f"http://127.0.0.1:{server.server_port}")
    agent = LlmAgent(name="agent", model=model, tools=[LongRunningFunctionTool(ask), read])
    runner = InMemoryRunner(agent=agent, app_name="app")
    await runner.session_service.create_session(app_name="app", user_id="u", session_id="s")
    approval = types.FunctionResponse(id="c1", name="ask", response={"status": "approved"})
    for part in (types.Part(text="Deploy it."), types.Part(text=RULE), types.Part(function_response=approval), types.Part(text="And?")):
        message = types.Content(role="user", parts=[part])
        async for _ in runner.run_async(user_id="u", session_id="s", new_message=message):
            pass


asyncio.run(main())
seen = [(RULE in json.dumps(contents), ", ".join(map(form, contents))) for contents in requests]
for rule, contents in seen:
    print("with the rule:" if rule else "without it:   ", contents)
pending = "user, model: call ask, user: result ask"
meanwhile = "model, user, model: call read, user: result read, model"
if [rule for rule, _ in seen] != [False, False, True, True, False, True, True]:
    raise SystemExit("it changed")
if seen[4][1] != pending or not seen[5][1].startswith(f"{pending}, {meanwhile}, model: call read"):
    raise SystemExit("it changed")
PYTHON
