#!/usr/bin/env bash
# OpenHands SDK 1.58.2, confirmation mode: a message that a person sends while calls wait to be confirmed, before they are.
#
# Most would expect: the calls' results are sent right behind their calls, as both OpenAI and Anthropic demand, and the message behind
# the results. Or the SDK refuses the message, or takes it for a rejection of the calls.
# What happens: `send_message` writes it down at once, and `run()` then confirms the calls. The results stand behind the message for good,
# in each later request too: OpenAI and Anthropic refuse them all, so the session cannot go on. The SDK does see to it that a request
# has whole answers and one result for each call; the order it leaves.
#
# Seen:
#   confirmed without a word: user, assistant (2 calls), tool, tool
#   a message, then confirmed: user, assistant (2 calls), user, tool, tool
#   one turn later: user, assistant (2 calls), user, tool, tool, assistant, user
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3.12 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --no-compile --disable-pip-version-check openhands-sdk==1.58.2
cd "$folder"
export HOME=$folder OPENHANDS_SUPPRESS_BANNER=1 LITELLM_LOCAL_MODEL_COST_MAP=True
venv/bin/python -W ignore - 2>/dev/null <<'PYTHON'
import json
import logging
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

from openhands.sdk import LLM, Action, Agent, Conversation, Observation, Tool, ToolDefinition, register_tool
from openhands.sdk.security.confirmation_policy import AlwaysConfirm
from openhands.sdk.tool import ToolExecutor

logging.disable(logging.WARNING)
sent = []


class Server(BaseHTTPRequestHandler):
    """Makes two calls, then says that it is done, whatever the order of what it is sent."""

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        sent.append([message for message in body["messages"] if message["role"] != "system"])
        message = {"role": "assistant", "content": "Done."}
        if len(sent) == 1:
            function = {"name": "look", "arguments": '{"path": "a"}'}
            calls = [{"id": f"call_{n}", "type": "function", "function": function} for n in range(2)]
            message = {"role": "assistant", "content": None, "tool_calls": calls}
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if len(sent) == 1 else "stop"}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        answer = {"id": "a", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}
        data = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


class Look(Action):
    path: str


class Seen(Observation):
    pass


class Executor(ToolExecutor):
    def __call__(self, action, conversation=None):
        return Seen.from_text("Seen.")


class LookTool(ToolDefinition):
    name = "look"

    @classmethod
    def create(cls, conv_state=None, **_):
        return [cls(description="Looks.", action_type=Look, observation_type=Seen, executor=Executor())]


register_tool("look", LookTool)
server = HTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()


def roles(messages):
    """What a request holds, in order."""
    return ", ".join(m["role"] + (f" ({len(m['tool_calls'])} calls)" if m.get("tool_calls") else "") for m in messages)


def converse(*, speak):
    """Ask, let the calls wait, perhaps say a word, confirm them by going on, and ask again; the last two requests."""
    sent.clear()
    llm = LLM(model="openai/m", api_key="k", base_url=f"http://127.0.0.1:{server.server_port}/v1", usage_id="agent", num_retries=0)
    agent = Agent(llm=llm, tools=[Tool(name="look")], include_default_tools=[])
    conversation = Conversation(agent=agent, workspace=".", visualizer=None)
    conversation.set_confirmation_policy(AlwaysConfirm())
    conversation.send_message("Look at a and b.")
    conversation.run()
    assert conversation.state.execution_status.value == "waiting_for_confirmation"
    if speak:
        conversation.send_message("And mind the tests.")
    conversation.run()
    conversation.send_message("Go on.")
    conversation.run()
    return [roles(messages) for messages in sent[-2:]]


silent, _ = converse(speak=False)
spoken, later = converse(speak=True)
server.shutdown()
print("confirmed without a word:", silent)
print("a message, then confirmed:", spoken)
print("one turn later:", later)
assert silent == "user, assistant (2 calls), tool, tool", "the behaviour has changed"
assert spoken == "user, assistant (2 calls), user, tool, tool", "the behaviour has changed"
assert later.startswith(spoken), "the behaviour has changed"
PYTHON
