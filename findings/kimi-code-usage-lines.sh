#!/usr/bin/env bash
# Kimi Code 2.1.0: the usage of each call stands three times in a session's `wire.jsonl`, under three names of a model.
#
# Most would expect: a usage object in a session's log is one call of the model, and the model beside it is the one that was asked.
# What happens: each call leaves a `usage.record`, whose model is the user's alias from config.toml; a `step.end` with the same usage
# and no model; and, once the turn is over, an `agent.message.appended`, whose model and provider are both "agent-loop". The name
# that was sent to the server is in none of them, but in `llm.request`. Adding up every usage counts each token three times.
#
# Seen, for one request that reported 100 input tokens:
#   usage.record m 100
#   step.end None 100
#   agent.message.appended agent-loop 100
#   llm.request model: kimi-k2.5
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-fund --no-audit --prefix "$folder/npm" node@22.23.3 @moonshot-ai/kimi-code@2.1.0 >/dev/null
mkdir -p home/.kimi-code work
cat > server.py <<'PYTHON'
import json
from http.server import BaseHTTPRequestHandler, HTTPServer


class Server(BaseHTTPRequestHandler):
    """Answers every chat completion with one word, for 100 input tokens."""

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "kimi-k2.5"}
        choice = {"index": 0, "delta": {"role": "assistant", "content": "Hello."}, "finish_reason": None}
        end = {"index": 0, "delta": {}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 100, "completion_tokens": 5, "total_tokens": 105}
        chunks = [{**head, "choices": [choice]}, {**head, "choices": [end]}, {**head, "choices": [], "usage": usage}]
        data = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks).encode() + b"data: [DONE]\n\n"
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


server = HTTPServer(("127.0.0.1", 0), Server)
with open("url", "w") as file:
    file.write(f"http://127.0.0.1:{server.server_port}")
server.serve_forever()
PYTHON
python3 server.py & server=$!
trap 'kill $server; rm -rf "$folder"' EXIT
while [ ! -s url ]; do sleep 0.1; done
cat > home/.kimi-code/config.toml <<TOML
default_model = "m"
[providers.p]
type = "openai"
base_url = "$(cat url)/v1"
api_key = "sk-dummy"
[models.m]
provider = "p"
model = "kimi-k2.5"
max_context_size = 200000
TOML
(cd work && env -i PATH="$folder/npm/node_modules/node/bin:$PATH" HOME="$folder/home" KIMI_DISABLE_TELEMETRY=1 \
  "$folder/npm/node_modules/.bin/kimi" -p "Hello." </dev/null >/dev/null)
python3 - <<'PYTHON'
import json
from pathlib import Path

(file,) = Path("home/.kimi-code/sessions").glob("*/*/agents/main/wire.jsonl")
seen = []
for line in map(json.loads, file.read_text().splitlines()):
    if line["type"] == "usage.record":
        seen.append(("usage.record", line["model"], line["usage"]))
    elif line["type"] == "context.append_loop_event" and "usage" in line["event"]:
        seen.append((line["event"]["type"], line["event"].get("model"), line["event"]["usage"]))
    elif line["type"] == "agent.message.appended" and "usage" in line["message"]["meta"]:
        meta = line["message"]["meta"]
        seen.append(("agent.message.appended", meta["model"]["model"], meta["usage"]))
    elif line["type"] == "llm.request":
        asked = line["model"]
for kind, model, usage in seen:
    print(kind, model, usage["inputOther"])
print("llm.request model:", asked)
assert [(kind, model) for kind, model, _ in seen] == [
    ("usage.record", "m"),
    ("step.end", None),
    ("agent.message.appended", "agent-loop"),
]
assert all(usage["inputOther"] == 100 for _, _, usage in seen)
assert asked == "kimi-k2.5"
PYTHON
