#!/usr/bin/env bash
# Agno 3.1.10 with its OpenAI chat model: the ids of tool calls that go back to a server are not those that the server gave.
#
# Most would expect: a call comes back with the id that the server gave it, as in every other client of that protocol.
# What happens: an id that does not begin with "call_" is replaced by a number, counted anew in each request from its first message
# on. So with a server that names calls otherwise (vLLM "chatcmpl-tool-…", Kimi "functions.read:0") it never sees its own ids again;
# and as soon as the oldest messages leave, as they do by default after three runs, the ids of all later calls change, and with
# them every byte that a prefix cache holds behind the first of them.
#
# Seen (the second request is the first one without its oldest exchange):
#   server gave  chatcmpl-tool-b -> first request  call_00000000000000000000000000000000001
#   server gave  chatcmpl-tool-b -> second request call_00000000000000000000000000000000000
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check agno==3.1.10 openai==3.57.0
"$folder/venv/bin/python" - <<'PYTHON'
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

from agno.models.message import Message
from agno.models.openai import OpenAIChat

sent = []


class Server(BaseHTTPRequestHandler):
    """Answers every request with one word, and keeps the ids that it was sent."""

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        calls = [call for message in body["messages"] for call in message.get("tool_calls") or []]
        results = [message["tool_call_id"] for message in body["messages"] if message["role"] == "tool"]
        assert [call["id"] for call in calls] == results
        sent.append([(call["function"]["arguments"], call["id"]) for call in calls])
        message = {"role": "assistant", "content": "Done."}
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


def exchange(name):
    call = {"id": f"chatcmpl-tool-{name}", "type": "function", "function": {"name": "read", "arguments": f'"{name}"'}}
    return [
        Message(role="user", content=f"Read {name}."),
        Message(role="assistant", tool_calls=[call]),
        Message(role="tool", tool_call_id=call["id"], content=f"It says {name}."),
        Message(role="assistant", content="Done."),
    ]


server = HTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
model = OpenAIChat(id="m", api_key="k", base_url=f"http://127.0.0.1:{server.server_port}/v1")
history = [message for name in "abc" for message in exchange(name)]
model.response(messages=[*history, Message(role="user", content="Go on.")])
model.response(messages=[*history[4:], Message(role="user", content="Go on.")])
server.shutdown()
first, second = (dict(pairs) for pairs in sent)
print("server gave  chatcmpl-tool-b -> first request ", first['"b"'])
print("server gave  chatcmpl-tool-b -> second request", second['"b"'])
assert first['"b"'] == "call_" + "1".rjust(35, "0"), "the behaviour has changed"
assert second['"b"'] == "call_" + "0" * 35, "the behaviour has changed"
PYTHON
