#!/usr/bin/env bash
# anthropic 2.14.0: whether the usage of one and the same answer tells what an advisor read, by how it is asked for.
#
# Most would expect: `messages.stream(…).get_final_message()` and `messages.create(…)` give the same usage, as they give the same content.
# What happens: an answer with an advisor reports its passes in `usage.iterations`, and only there what the advisor cost: its tokens are in
# none of the sums. `messages.create` keeps the field, although its type does not name it, and so does the stream of `beta.messages`. The
# stream helper of `messages` copies from the last event the fields that it knows, so that the final message has no `iterations`, not
# even as an extra field, while the raw event that the same stream yields a moment before has it.
#
# Seen:
#   messages.create            iterations: message, advisor_message, message
#   messages.stream, raw event iterations: message, advisor_message, message
#   messages.stream, final     iterations: None
#   beta.messages.stream       iterations: message, advisor_message, message
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check anthropic==2.14.0
"$folder/venv/bin/python" - <<'PYTHON'
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import anthropic


def passed(kind, read, **more):
    cache = {"cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}
    return {"type": kind, "input_tokens": read, "output_tokens": 10, **cache, **more}


ITERATIONS = [passed("message", 1000), passed("advisor_message", 90000, model="claude-opus-5-5"), passed("message", 1200)]
USAGE = {"input_tokens": 2200, "output_tokens": 20, "iterations": ITERATIONS}
CONTENT = {"type": "text", "text": "Done."}
MESSAGE = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-5-5", "stop_sequence": None}


def event(kind, **data):
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **data})}\n\n"


STREAM = "".join(
    [
        event(
            "message_start",
            message={**MESSAGE, "content": [], "stop_reason": None, "usage": {"input_tokens": 1000, "output_tokens": 1}},
        ),
        event("content_block_start", index=0, content_block={"type": "text", "text": ""}),
        event("content_block_delta", index=0, delta={"type": "text_delta", "text": "Done."}),
        event("content_block_stop", index=0),
        event("message_delta", delta={"stop_reason": "end_turn", "stop_sequence": None}, usage=USAGE),
        event("message_stop"),
    ]
)


class Server(BaseHTTPRequestHandler):
    def do_POST(self):
        streams = json.loads(self.rfile.read(int(self.headers["content-length"]))).get("stream")
        whole = {**MESSAGE, "content": [CONTENT], "stop_reason": "end_turn", "usage": USAGE}
        data = (STREAM if streams else json.dumps(whole)).encode()
        self.send_response(200)
        self.send_header("content-type", "text/event-stream" if streams else "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


def kinds(usage):
    iterations = usage.model_dump().get("iterations")
    return iterations and [iteration["type"] for iteration in iterations]


server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
client = anthropic.Anthropic(api_key="k", base_url=f"http://127.0.0.1:{server.server_port}")
ask = {"model": "claude-sonnet-5-5", "max_tokens": 100, "messages": [{"role": "user", "content": "Go."}]}
seen = {"messages.create": kinds(client.messages.create(**ask).usage)}
with client.messages.stream(**ask) as stream:
    for part in stream:
        if part.type == "message_delta":
            seen["messages.stream, raw event"] = kinds(part.usage)
    seen["messages.stream, final"] = kinds(stream.get_final_message().usage)
with client.beta.messages.stream(**ask) as stream:
    seen["beta.messages.stream"] = kinds(stream.get_final_message().usage)
server.shutdown()
for name, types in seen.items():
    print(f"{name:26} iterations: {types and ', '.join(types)}")
every = ["message", "advisor_message", "message"]
assert list(seen.values()) == [every, every, None, every], seen
PYTHON
