#!/usr/bin/env bash
# Claude Code 2.1.332: the usage of a compaction stands in no line of the transcript but the sum at the end.
#
# Most would expect: each call of the model is in the session file with its usage, as all answers are; so whoever adds up the lines of
# a file (as the usual counters of tokens do) has what the session cost.
# What happens: the summary of /compact is in the file, but the call that wrote it has no line of its own, no usage and no
# `api-request`, although the answers have all three. Its tokens are only in the last `cost-state`, a sum over the session.
#
# Seen:
#   requests for a summary: 1
#   input tokens by the lines of the transcript: 2000
#   input tokens by cost-state: 3000
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-fund --no-audit --prefix "$folder/npm" @anthropic-ai/claude-code@2.1.332 >/dev/null
mkdir home work
cat > server.py <<'PYTHON'
import json
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

summaries = 0


class Server(BaseHTTPRequestHandler):
    """Answers every request of Anthropic's Messages with one text, for 1,000 input tokens each."""

    def do_POST(self):
        global summaries
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        last = json.dumps(body["messages"][-1])
        asked = "detailed summary" in last.lower()
        summaries += asked
        with open("summaries", "w") as file:
            file.write(str(summaries))
        words = "<summary>The greeting was answered.</summary>" if asked else "Hello."
        usage = {"input_tokens": 1000, "output_tokens": 10}
        message = {"id": f"msg_{id(body)}", "type": "message", "role": "assistant", "model": body["model"]}
        start = {**message, "content": [], "stop_reason": None, "usage": usage}
        events = [
            {"type": "message_start", "message": start},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": words}},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage},
            {"type": "message_stop"},
        ]
        data = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events).encode()
        kind = "text/event-stream"
        if not body.get("stream"):
            whole = {**start, "content": [{"type": "text", "text": words}], "stop_reason": "end_turn"}
            data, kind = json.dumps(whole).encode(), "application/json"
        self.send_response(200)
        self.send_header("content-type", kind)
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
claude() {
  (cd work && env -i PATH="$PATH" HOME="$folder/home" ANTHROPIC_API_KEY=sk-dummy ANTHROPIC_BASE_URL="$(cat ../url)" \
    DISABLE_AUTOUPDATER=1 DISABLE_TELEMETRY=1 CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 \
    "$folder/npm/node_modules/.bin/claude" --model claude-sonnet-5 "$@" </dev/null >/dev/null)
}
claude -p "Hello."
claude -c -p "Hello again."
claude -c -p "/compact"
python3 - <<'PYTHON'
import json
from pathlib import Path

(file,) = Path("home/.claude/projects").glob("*/*.jsonl")
lines = [json.loads(line) for line in file.read_text().splitlines()]
answers = {line["message"]["id"]: line["message"]["usage"] for line in lines if line["type"] == "assistant"}
listed = sum(usage["input_tokens"] for usage in answers.values())
(state,) = [line for line in lines if line["type"] == "cost-state"][-1:]
total = sum(used["inputTokens"] for used in state["modelUsage"].values())
summaries = int(Path("summaries").read_text())
assert any(line.get("isCompactSummary") for line in lines)
print("requests for a summary:", summaries)
print("input tokens by the lines of the transcript:", listed)
print("input tokens by cost-state:", total)
assert summaries >= 1
assert listed == 2000
assert total == listed + 1000 * summaries
PYTHON
