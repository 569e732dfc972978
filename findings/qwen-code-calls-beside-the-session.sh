#!/usr/bin/env bash
# Qwen Code 0.24.4, with its default settings: who reads a session besides the model that answers, and where that is counted.
#
# Most would expect: memories are extracted once, "after each of your conversations", as the documentation in the package says (features/memory.md),
# from what is new; a session's file has the usage of all that the session cost; and `usage_record.jsonl` has a line for each session.
# What happens: behind each turn, in printed mode, too, a second agent reads the whole conversation once more, under a system prompt
# and tools of its own, so that it shares no prefix with the requests before it: no cache of prefixes helps, and the input of a long
# session doubles. No message of the session's file has its usage, only lines of telemetry between them. And each time that a session is
# resumed, one more line in `usage_record.jsonl` counts it from its beginning, so that the sum of the lines grows with the square of the turns.
#
# Seen, for a session of three turns, resumed twice (a scripted server; each request reports 1,000 input tokens):
#   messages in requests of the session: 2, 4, 6; in those of the second agent: 4, 6, 8; system prompts: 2
#   requests made: 6; by messages of the session's file: 3; by token-usage-….jsonl: 6; by the lines of usage_record.jsonl: 2 + 4 + 6
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-fund --no-audit --prefix "$folder/npm" node@22.23.3 @qwen-code/qwen-code@0.24.4 >/dev/null
mkdir home work
cat > server.py <<'PYTHON'
import json
from http.server import BaseHTTPRequestHandler, HTTPServer


class Server(BaseHTTPRequestHandler):
    """Answers every chat completion with one word, for 1,000 input tokens, and notes what it was sent."""

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        with open("requests", "a") as file:
            system = json.dumps(body["messages"][0])
            file.write(json.dumps([len(body["messages"]), system, len(body.get("tools", []))]) + "\n")
        head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "qwen3-coder-plus"}
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
qwen() {
  (cd work && env -i PATH="$folder/npm/node_modules/node/bin:$PATH" HOME="$folder/home" OPENAI_API_KEY=sk-dummy \
    OPENAI_BASE_URL="$(cat ../url)/v1" OPENAI_MODEL=qwen3-coder-plus \
    "$folder/npm/node_modules/.bin/qwen" --auth-type openai "$@" </dev/null >/dev/null 2>&1)
}
qwen -p "Hello."
qwen --continue -p "Hello again."
qwen --continue -p "And once more."
python3 - <<'PYTHON'
import json
from pathlib import Path


def lines(*paths):
    return [json.loads(line) for path in paths for line in path.read_text().splitlines()]


sent = lines(Path("requests"))
first = sent[0][1]
own = [number for number, system, _ in sent if system == first]
others = [number for number, system, _ in sent if system != first]
prompts = len({system for _, system, _ in sent})
home = Path("home/.qwen")
answers = [line for line in lines(*home.glob("projects/*/chats/*.jsonl")) if line["type"] == "assistant"]
by_call = lines(*home.glob("usage/token-usage-*.jsonl"))
by_session = [line["models"]["qwen3-coder-plus"]["requests"] for line in lines(home / "usage_record.jsonl")]
print(f"messages in requests of the session: {own}; in those of the second agent: {others}; system prompts: {prompts}")
print(f"requests made: {len(sent)}; by messages of the session's file: {len(answers)}; by token-usage: {len(by_call)};", end=" ")
print(f"by the lines of usage_record.jsonl: {by_session}")
assert (own, others, prompts) == ([2, 4, 6], [4, 6, 8], 2), "it changed"
assert all("usageMetadata" in line for line in answers)
assert (len(sent), len(answers), len(by_call), by_session) == (6, 3, 6, [2, 4, 6]), "it changed"
PYTHON
