#!/usr/bin/env bash
# OpenAI's Python client 3.57.0 on Linux: the first request of a process starts the program `uname`. Anthropic's 2.14.0 does not.
#
# Most would expect: a client of an HTTP service opens a connection, and starts no other program.
# What happens: for its headers x-stainless-os and the like the client asks Python's `platform.platform()`, which asks for the
# processor, and Python has that from `uname -p`, found by PATH. So the process with the key starts a program that depends on PATH.
#
# Seen:
#   before the first request  []
#   at the first request      [['uname', '-p']]
#   at the second request     []
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check openai==3.57.0
"$folder/venv/bin/python" - <<'PYTHON'
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

from openai import OpenAI


class Server(BaseHTTPRequestHandler):
    """Answers every request with one word."""

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        message = {"role": "assistant", "content": "Hi."}
        answer = {"id": "a", "object": "chat.completion", "created": 1, "model": "m"}
        answer["choices"] = [{"index": 0, "message": message, "finish_reason": "stop"}]
        answer["usage"] = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        data = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


started = []
sys.addaudithook(lambda event, arguments: started.append(list(arguments[1])) if event == "subprocess.Popen" else None)
server = HTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
client = OpenAI(api_key="k", base_url=f"http://127.0.0.1:{server.server_port}/v1")
seen = []
for moment in ("before the first request ", "at the first request     ", "at the second request    "):
    if not moment.startswith("before"):
        client.chat.completions.create(model="m", messages=[{"role": "user", "content": "Hello."}])
    seen.append(started[:])
    started.clear()
    print(moment, seen[-1])
server.shutdown()
assert seen == [[], [["uname", "-p"]], []], "the behaviour has changed"
PYTHON
