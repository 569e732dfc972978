#!/usr/bin/env bash
# ccusage 20.0.24 on sessions of Qwen Code 0.24.4, by OpenAI's protocol.
#
# Most would expect: the total of a session is what the server reported, 1,050 tokens for an answer to 1,000, and its cost is that of 400 new
# tokens, 600 from the cache and 50 of output. Each line of the file has the total, too (`totalTokenCount`).
# What happens: the cached tokens, a part of the prompt in that file, are counted beside it, and cost their own price on top of the full one.
# The thoughts, a part of the candidates, are counted and priced beside them. So the total is 1.6 times what it is, and the cost twice.
# Of Gemini CLI, from which that format comes, it takes the cached tokens out of the prompt. A session that was forked
# (`--fork-session`) counts all turns of its origin again, although each copied line names it in `forkedFrom`.
#
# Seen (one turn; then the same turn and one more in a fork, with $1, $0.1 and $5 for a million tokens):
#   one turn:    reported 1,050, counted 1,690; $0.00071 by the prices, $0.00151 by ccusage
#   with a fork: reported 2,100, counted 5,070
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-fund --no-audit --prefix "$folder/npm" node@22.23.3 @qwen-code/qwen-code@0.24.4 ccusage@20.0.24 >/dev/null
mkdir -p home/.qwen work
echo '{"memory": {"enableManagedAutoMemory": false}}' > home/.qwen/settings.json
cat > server.py <<'PYTHON'
import json
from http.server import BaseHTTPRequestHandler, HTTPServer


class Server(BaseHTTPRequestHandler):
    """Answers with a thought and a word: 1,000 tokens in, 600 of them cached, 50 out, 40 of them reasoning."""

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        with open("requests", "a") as file:
            file.write("1050\n")
        head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "qwen3-coder-plus"}
        thought = {"index": 0, "delta": {"role": "assistant", "reasoning_content": "A greeting."}, "finish_reason": None}
        answer = {"index": 0, "delta": {"content": "Hello."}, "finish_reason": None}
        end = {"index": 0, "delta": {}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 1000, "completion_tokens": 50, "total_tokens": 1050}
        usage["prompt_tokens_details"] = {"cached_tokens": 600}
        usage["completion_tokens_details"] = {"reasoning_tokens": 40}
        chunks = [{**head, "choices": [choice]} for choice in (thought, answer, end)]
        chunks.append({**head, "choices": [], "usage": usage})
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
own() { (cd work && env -i PATH="$folder/npm/node_modules/node/bin:$PATH" HOME="$folder/home" OPENAI_API_KEY=sk-dummy \
  OPENAI_BASE_URL="$(cat ../url)/v1" OPENAI_MODEL=qwen3-coder-plus "$folder/npm/node_modules/.bin/$@" </dev/null); }
own qwen --auth-type openai -p "Hello." >/dev/null 2>&1
own ccusage qwen daily --json --offline > one
own qwen --auth-type openai --continue --fork-session -p "And once more." >/dev/null 2>&1
own ccusage qwen daily --json --offline > forked
python3 - <<'PYTHON'
import json
from pathlib import Path

one, forked = (json.loads(Path(name).read_text())["totals"] for name in ("one", "forked"))
reported = sum(map(int, Path("requests").read_text().split()))
right = (400 * 1 + 600 * 0.1 + 50 * 5) / 1e6
print(f"one turn: reported 1050, counted {one['totalTokens']}; ${right:.5f} by the prices, ${one['totalCost']:.5f} by ccusage")
print(f"with a fork: reported {reported}, counted {forked['totalTokens']}")
assert (reported, one["totalTokens"], forked["totalTokens"]) == (2100, 1690, 5070), "it changed"
assert round(one["totalCost"], 5) == 0.00151, "it changed"
PYTHON
