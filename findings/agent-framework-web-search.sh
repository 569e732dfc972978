#!/usr/bin/env bash
# Microsoft Agent Framework 1.23.0 (agent-framework-openai 1.17.0): a web search of OpenAI's is lost, and its reasoning stays.
#
# Most would expect: with `store: false`, where the session keeps the history, the next turn sends back all output items of the
# last one, as OpenAI asks for with models that reason: each reasoning item together with the item that followed it.
# What happens: the client takes in the `web_search_call` (the message has contents of it) and leaves it out of the next
# request, but sends the reasoning item that led to it. OpenAI's API is known to refuse such a request ("Item 'rs_1' of type
# 'reasoning' was provided without its required following item"), so an agent that has searched once cannot go on.
#
# Seen:
#   contents of the answer:    ['text_reasoning', 'search_tool_call', 'search_tool_result', 'text_reasoning', 'text']
#   items of the next request: ['message', 'reasoning rs_1', 'reasoning rs_2', 'message', 'message']
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check agent-framework-core==1.23.0 \
  agent-framework-openai==1.17.0 openai==3.57.0
"$folder/venv/bin/python" - <<'PYTHON'
import asyncio
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from agent_framework import Agent
from agent_framework.openai import OpenAIChatClient

requests = []
text = {"type": "output_text", "text": "It waxes.", "annotations": []}
OUTPUT = [
    {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "YQ=="},
    {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "moon"}},
    {"type": "reasoning", "id": "rs_2", "summary": [], "encrypted_content": "Yg=="},
    {"type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "content": [text]},
]


class Server(BaseHTTPRequestHandler):
    def do_POST(self):
        requests.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        usage = {"input_tokens": 9, "output_tokens": 9, "total_tokens": 18}
        usage |= {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
        answer = {"id": "resp_1", "object": "response", "created_at": 1, "model": "m", "status": "completed", "tools": []}
        answer |= {"output": OUTPUT, "usage": usage, "parallel_tool_calls": True, "tool_choice": "auto"}
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()


async def main():
    client = OpenAIChatClient(model="m", api_key="k", base_url=f"http://127.0.0.1:{server.server_port}/v1")
    options = {"store": False, "include": ["reasoning.encrypted_content"]}
    agent = Agent(client, "Be brief.", tools=[client.get_web_search_tool()], default_options=options)
    session = agent.create_session()
    first = await agent.run("What does the moon do?", session=session)
    await agent.run("And then?", session=session)
    return [content.type for message in first.messages for content in message.contents]


contents = asyncio.run(main())
items = [f"{item.get('type', 'message')} {item.get('id') or ''}".strip() for item in requests[1]["input"]]
items = [item if item.startswith("reasoning") else item.partition(" ")[0] for item in items]
print("contents of the answer:   ", contents)
print("items of the next request:", items)
assert "search_tool_call" in contents, "the behaviour has changed"
assert "reasoning rs_1" in items and "web_search_call" not in items, "the behaviour has changed"
PYTHON
