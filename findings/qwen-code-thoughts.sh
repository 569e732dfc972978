#!/usr/bin/env bash
# Qwen Code 0.24.4: its session files look like Gemini's API but count otherwise: thoughts are among the candidates.
#
# Most would expect: `usageMetadata` in a file of Qwen Code (a fork of Gemini CLI, with contents of Gemini's API) means what it means
# there, where the total is prompt + candidates + thoughts, so that the output is candidates + thoughts.
# What happens: with a server of OpenAI's protocol, `candidatesTokenCount` is all of the output and `thoughtsTokenCount` a part of it;
# whoever adds the two, as for Gemini, counts the reasoning twice. Only the total tells which of both rules a record follows.
#
# Seen, for an answer of 50 tokens of which 40 are reasoning:
#   candidates 50 thoughts 40 prompt 100 total 150
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
    """Answers every chat completion with a thought and a word: 50 tokens, of which 40 are reasoning."""

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "qwen3-coder-plus"}
        thought = {"index": 0, "delta": {"role": "assistant", "reasoning_content": "A greeting."}, "finish_reason": None}
        answer = {"index": 0, "delta": {"content": "Hello."}, "finish_reason": None}
        end = {"index": 0, "delta": {}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 100, "completion_tokens": 50, "total_tokens": 150}
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
(cd work && env -i PATH="$folder/npm/node_modules/node/bin:$PATH" HOME="$folder/home" OPENAI_API_KEY=sk-dummy \
  OPENAI_BASE_URL="$(cat ../url)/v1" OPENAI_MODEL=qwen3-coder-plus \
  "$folder/npm/node_modules/.bin/qwen" --auth-type openai -p "Hello." </dev/null >/dev/null 2>&1)
python3 - <<'PYTHON'
import json
from pathlib import Path

(file,) = Path("home/.qwen/projects").glob("*/chats/*.jsonl")
records = map(json.loads, file.read_text().splitlines())
(used,) = [record["usageMetadata"] for record in records if record["type"] == "assistant"]
candidates, thoughts = used["candidatesTokenCount"], used["thoughtsTokenCount"]
prompt, total = used["promptTokenCount"], used["totalTokenCount"]
print("candidates", candidates, "thoughts", thoughts, "prompt", prompt, "total", total)
assert (candidates, thoughts, prompt, total) == (50, 40, 100, 150)
assert total != prompt + candidates + thoughts
PYTHON
