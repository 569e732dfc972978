#!/usr/bin/env bash
# Strands Agents 1.62.0 with its own default provider (Bedrock's Converse): both of its conversation managers.
#
# Most would expect: what a manager leaves can be sent to the framework's own default provider, which demands that user and assistant
# alternate ("A conversation must alternate between user and assistant roles").
# What happens: `SlidingWindowConversationManager(pin_first=1)`, which keeps the person's first turn, begins the rest with a user's turn
# on purpose, and `SummarizingConversationManager` puts its summary there as a user's message, before a turn that the cut left first.
# Either way two user messages stand in a row, in this request and in each later one, and Strands sends them as they are.
#
# Seen (roles of the last request):
#   sliding window of 4, the first turn pinned: user, user, assistant, user, assistant, user
#   summary, four messages kept: user, user, assistant, user, assistant, user, assistant, user
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3.12 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --no-compile --disable-pip-version-check strands-agents==1.62.0 boto3==1.44.8
cd "$folder"
venv/bin/python -W ignore - <<'PYTHON'
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import boto3
from strands import Agent
from strands.agent.conversation_manager import SlidingWindowConversationManager, SummarizingConversationManager
from strands.models import BedrockModel

sent = []


class Server(BaseHTTPRequestHandler):
    """Answers each request of Converse with one word."""

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        sent.append([message["role"] for message in body["messages"]])
        message = {"role": "assistant", "content": [{"text": "Answer."}]}
        usage = {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2}
        answer = {"output": {"message": message}, "stopReason": "end_turn", "usage": usage, "metrics": {"latencyMs": 1}}
        data = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


server = HTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()


def agent(manager):
    session = boto3.Session(aws_access_key_id="x", aws_secret_access_key="x", region_name="us-east-1")
    address = f"http://127.0.0.1:{server.server_port}"
    model = BedrockModel(model_id="anthropic.claude-sonnet-4-5-20250929-v1:0", endpoint_url=address, boto_session=session, streaming=False)
    return Agent(model=model, conversation_manager=manager, callback_handler=None)


sliding = agent(SlidingWindowConversationManager(window_size=4, pin_first=1))
for turn in range(4):
    sliding(f"turn {turn}")
window = sent[-1]

summarizing = agent(SummarizingConversationManager(preserve_recent_messages=4))
for turn in range(4):
    summarizing(f"turn {turn}")
summarizing.conversation_manager.reduce_context(summarizing)
summarized = [message["role"] for message in summarizing.messages]
summarizing("turn 4")
summary = sent[-1]

print("sliding window of 4, the first turn pinned:", ", ".join(window))
print("summary, four messages kept:", ", ".join(summary))
expected_window = ["user", "user", "assistant", "user", "assistant", "user"]
if window != expected_window or summary != [*summarized, "user"] or summary[:2] != ["user", "user"]:
    raise SystemExit("it changed")
PYTHON
