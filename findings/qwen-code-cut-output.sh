#!/usr/bin/env bash
# Qwen Code 0.24.4: with `--output-format json` into a pipe whose reader is busy, all behind the first 65,536 bytes is lost; exit code 0.
#
# Most would expect: the printed JSON is whole, however slowly the other end reads it, as with any program that waits for its writes.
# What happens: the program ends before Node has written out what the pipe did not take at once. A file gets the whole; a pipe whose reader
# begins later gets what its buffer holds, 64 KiB on Linux, which is no JSON. The exit code is 0 in both cases.
#
# Seen, for an answer of 240,000 characters:
#   file: exit code 0, whole JSON: True
#   pipe: exit code 0, bytes: 65536, whole JSON: False
set -euo pipefail
folder=$(mktemp -d)
server=""
trap '[ -z "$server" ] || kill $server; rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-fund --no-audit --prefix "$folder/npm" node@22.23.3 @qwen-code/qwen-code@0.24.4 >/dev/null
mkdir -p home/.qwen work
cat > server.py <<'PYTHON'
import json
from http.server import BaseHTTPRequestHandler, HTTPServer


class Server(BaseHTTPRequestHandler):
    """Answers every chat completion with 240,000 characters."""

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        text = "".join(f"{number:05} " for number in range(40_000))
        choice = {"index": 0, "delta": {"role": "assistant", "content": text}, "finish_reason": None}
        end = {"index": 0, "delta": {}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 100, "completion_tokens": 80_000, "total_tokens": 80_100}
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
while [ ! -s url ]; do sleep 0.1; done
cat > run.py <<'PYTHON'
import json
import subprocess
import sys
import time

folder, path, url = sys.argv[1:]
environ = {"PATH": f"{folder}/npm/node_modules/node/bin:{path}", "HOME": f"{folder}/home", "OPENAI_API_KEY": "sk-dummy"}
environ |= {"OPENAI_BASE_URL": f"{url}/v1", "OPENAI_MODEL": "m"}
command = [f"{folder}/npm/node_modules/.bin/qwen", "--auth-type", "openai", "--output-format", "json", "-p", "Count, please."]
options = {"cwd": f"{folder}/work", "env": environ, "stdin": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


def is_json(data):
    try:
        json.loads(data)
    except ValueError:
        return False
    return True


with open("output", "wb") as file:
    code = subprocess.run(command, stdout=file, **options).returncode
with open("output", "rb") as file:
    print(f"file: exit code {code}, whole JSON: {is_json(file.read())}")
# A reader that does other work until the program has ended, or for two minutes.
with subprocess.Popen(command, stdout=subprocess.PIPE, **options) as process:
    end = time.monotonic() + 120
    while process.poll() is None and time.monotonic() < end:
        time.sleep(0.5)
    data = process.stdout.read()
print(f"pipe: exit code {process.returncode}, bytes: {len(data)}, whole JSON: {is_json(data)}")
PYTHON
python3 run.py "$folder" "$PATH" "$(cat url)" | tee seen
diff seen - <<'SEEN'
file: exit code 0, whole JSON: True
pipe: exit code 0, bytes: 65536, whole JSON: False
SEEN
