#!/usr/bin/env bash
# google-genai 3.6.1, `generate_content`: what `usage_metadata.prompt_token_count` of one call counts.
#
# Most would expect: the tokens of the prompt that was sent, as in every release before 3. Programs take it for the size of the window.
# What happens: an answer that stops with `CONTINUATION` is continued by default: the SDK sends the same request again, with the answer's
# token, and joins the answers. Their prompt counts are added up, so that a prompt of 1,000 tokens counts 3,000 after two
# continuations, and can seem larger than the model's window. The prompt's own count is in `initial_prompt_token_count` alone, a
# property over a private attribute: no dump has it, and on an answer that was dumped and loaded again it silently gives the sum.
# While streaming, each piece carries the sum so far, and none says that it was a continuation (`finish_reason` is None).
#
# Seen:
#   whole:  3 requests, prompt_token_count 3000, initial_prompt_token_count 1000, after a round trip 3000
#   stream: 3 requests, prompt_token_count 1000, 2000, 3000, finish reasons None, None, STOP
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check google-genai==3.6.1
"$folder/venv/bin/python" - <<'PYTHON'
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from google import genai
from google.genai import types

asked = []


class Server(BaseHTTPRequestHandler):
    """Answers in three pieces; each but the last asks to be continued, with a token of its own."""

    def do_POST(self):
        asked.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        number = (len(asked) - 1) % 3 + 1
        candidate = {"content": {"role": "model", "parts": [{"text": f"piece {number}. "}]}, "index": 0}
        candidate["finishReason"] = "STOP" if number == 3 else "CONTINUATION"
        if number < 3:
            candidate["continuationToken"] = ("b25l", "dHdv")[number - 1]
        usage = {"promptTokenCount": 1000, "candidatesTokenCount": 10, "totalTokenCount": 1010}
        data = json.dumps({"candidates": [candidate], "usageMetadata": usage}).encode()
        streams = "stream" in self.path
        if streams:
            data = b"data: " + data + b"\n\n"
        self.send_response(200)
        self.send_header("content-type", "text/event-stream" if streams else "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
options = types.HttpOptions(base_url=f"http://127.0.0.1:{server.server_port}")
client = genai.Client(api_key="k", http_options=options)
ask = {"model": "gemini-3.1-pro-preview", "contents": "Go."}

whole = client.models.generate_content(**ask)
usage = whole.usage_metadata
again = types.GenerateContentResponse.model_validate(whole.model_dump()).usage_metadata
figures = (usage.prompt_token_count, usage.initial_prompt_token_count, again.initial_prompt_token_count)
print("whole: ", len(asked), "requests, prompt, initial, after a round trip:", figures)
assert (len(asked), whole.text, figures) == (3, "piece 1. piece 2. piece 3. ", (3000, 1000, 3000)), figures

pieces = []
for chunk in client.models.generate_content_stream(**ask):
    reason = chunk.candidates[0].finish_reason
    pieces.append((chunk.usage_metadata.prompt_token_count, reason and reason.value))
print("stream:", len(asked) - 3, "requests, prompt and finish reason:", pieces)
assert pieces == [(1000, None), (2000, None), (3000, "STOP")], pieces
server.shutdown()
PYTHON
