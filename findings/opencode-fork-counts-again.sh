#!/usr/bin/env bash
# OpenCode 1.18.33: what a forked session cost (`opencode run --continue --fork`), by `opencode stats` and by its database.
#
# Most would expect: what was paid once counts once. A fork shares its past with the session that it branched off from, so its own cost
# begins at the fork, and the copies of earlier messages, if there are any, say that they are copies.
# What happens: the fork is a session without a parent, whose messages are copies under new ids, each with the tokens and the cost of the
# original. Both the columns `cost` and `tokens_…` of the session and `opencode stats` count them again, for each fork anew; nothing in
# the database says that they are copies, but for the milliseconds of `time`, which stay. Programs that read the database do likewise
# (ccusage 20.0.24 does). The request for the title, on the other hand, is counted nowhere.
#
# Seen (a scripted server that reports 1,000 input tokens for each request; two turns, then a third in a fork):
#   requests: 4, one of them for the title
#   input tokens of the sessions: 2,000 and 3,000; parent of the fork: None; messages that name another: 0
#   opencode stats: 5.0K
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-fund --no-audit --prefix "$folder/npm" node@22.23.3 opencode-ai@1.18.33 >/dev/null
mkdir -p home/.config/opencode work
cat > server.py <<'PYTHON'
import json
from http.server import BaseHTTPRequestHandler, HTTPServer


class Server(BaseHTTPRequestHandler):
    """Answers every chat completion with one word, for 1,000 input tokens."""

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        with open("requests", "a") as file:
            file.write(f"{len(body.get('tools', []))}\n")
        head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        answer = {"index": 0, "delta": {"role": "assistant", "content": "Hello."}, "finish_reason": None}
        end = {"index": 0, "delta": {}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 1000, "completion_tokens": 50, "total_tokens": 1050}
        chunks = [{**head, "choices": [answer]}, {**head, "choices": [end]}, {**head, "choices": [], "usage": usage}]
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
cat > home/.config/opencode/opencode.json <<JSON
{
  "provider": {
    "p": {
      "npm": "@ai-sdk/openai-compatible",
      "options": {"baseURL": "$(cat url)/v1", "apiKey": "sk-dummy"},
      "models": {"m": {"name": "m", "cost": {"input": 1, "output": 10}}}
    }
  },
  "model": "p/m",
  "autoupdate": false,
  "share": "disabled"
}
JSON
opencode() {
  (cd work && env -i PATH="$folder/npm/node_modules/node/bin:$PATH" HOME="$folder/home" \
    "$folder/npm/node_modules/.bin/opencode" "$@" </dev/null 2>/dev/null)
}
opencode run "Hello." >/dev/null
opencode run --continue "Hello again." >/dev/null
opencode run --continue --fork "And once more." >/dev/null
opencode stats > stats
python3 - <<'PYTHON'
import json
import re
import sqlite3
from pathlib import Path

tools = [int(line) for line in Path("requests").read_text().split()]
database = sqlite3.connect("home/.local/share/opencode/opencode.db")
sessions = database.execute("SELECT id, parent_id, tokens_input FROM session ORDER BY time_created").fetchall()
counted = [tokens for *_, tokens in sessions]
(origin, _, _), (fork, parent, _) = sessions
copies = [data for (data,) in database.execute("SELECT data FROM message WHERE session_id = ?", (fork,))]
naming = sum(origin in data for data in copies)
moments = [
    {json.loads(data)["time"]["created"] for (data,) in database.execute("SELECT data FROM message WHERE session_id = ?", (name,))}
    for name in (origin, fork)
]
(shown,) = re.findall(r"│Input\s+(\S+) │", re.sub(r"\x1b\[[0-9;]*m", "", Path("stats").read_text()))
print(f"requests: {len(tools)}, {tools.count(0)} of them for the title")
print(f"input tokens of the sessions: {counted}; parent of the fork: {parent}; messages that name another: {naming}")
print("opencode stats:", shown)
assert (len(tools), tools.count(0)) == (4, 1), "it changed"
assert (counted, parent, naming) == ([2000, 3000], None, 0), "it changed"
assert moments[0] < moments[1], "it changed"
assert shown == "5.0K", "it changed"
PYTHON
