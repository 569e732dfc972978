#!/usr/bin/env bash
# DSPy 3.4.1, `dspy.ReAct` and `dspy.ReActV2` where the trajectory outgrows the model's window.
#
# Most would expect: of `ReAct`, that the oldest calls are left out of requests alone, and that the prediction's `trajectory`, from which
# programs are traced and optimised, still tells what was done; and of its successor, that it can do as much.
# What happens: `ReAct` takes them out of the trajectory itself. The calls ran, and nothing says that they did: the prediction begins with the
# sixth. `ReActV2` leaves nothing out: it ends the loop and asks for `submit` with the same history, which is refused for the same reason, so
# that the caller gets the error, and nothing of what was found.
#
# Seen (a model of 2,000 words, results of 400, a scripted server that asks for `look` eight times):
#   ReAct:   8 calls made; the trajectory has 5, 6, 7 and the end
#   ReActV2: 4 calls made; ContextWindowExceededError after two refused requests of the same length
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3.12 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --no-compile --disable-pip-version-check dspy==3.4.1
cd "$folder"
DSPY_CACHEDIR="$folder/cache" LITELLM_LOCAL_MODEL_COST_MAP=True venv/bin/python -W ignore - <<'PYTHON'
import json
import logging
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import dspy

logging.disable(logging.WARNING)
WINDOW = 2_000
requests = []


def fields(**values):
    return "\n\n".join(f"[[ ## {name} ## ]]\n{value}" for name, value in values.items()) + "\n\n[[ ## completed ## ]]"


def answer(text, call):
    """Answer as the adapter of DSPy wants it: which fields, the request says."""
    look = {"name": "look", "args": {"n": call}}
    if "[[ ## tool_calls ## ]]" in text:
        return fields(next_thought="look", tool_calls=json.dumps({"tool_calls": [look]}))
    if "[[ ## next_tool_name ## ]]" not in text.rpartition("Respond with")[2]:
        return fields(reasoning="seen", answer="done")
    if call < 8:
        return fields(next_thought="look", next_tool_name="look", next_tool_args=json.dumps(look["args"]))
    return fields(next_thought="enough", next_tool_name="finish", next_tool_args="{}")


class Server(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        text = json.dumps(request["messages"])
        length = len(text.split())
        requests.append((length, length <= WINDOW))
        if length > WINDOW:
            message = f"This model's maximum context length is {WINDOW} tokens. Your messages resulted in {length} tokens."
            error = {"message": message, "type": "invalid_request_error", "code": "context_length_exceeded"}
            self.reply(400, {"error": error})
        else:
            content = answer(text, sum(taken for _, taken in requests) - 1)
            choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": content}}
            self.reply(200, {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]})

    def reply(self, status, data):
        body = json.dumps(data).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
address = f"http://127.0.0.1:{server.server_port}/v1"
dspy.configure(lm=dspy.LM("openai/gpt-4o", api_base=address, api_key="none", cache=False, num_retries=0))
made = []


def look(n: int) -> str:
    """Look at something."""
    made.append(n)
    return "word " * 400


trajectory = dspy.ReAct("question -> answer", tools=[look], max_iters=12)(question="What is it?").trajectory
kept = [key for key in trajectory if key.startswith("tool_name")]
print("ReAct made", made, "and tells", kept)
if (made, kept) != ([*range(8)], [f"tool_name_{n}" for n in (5, 6, 7, 8)]):
    raise SystemExit("it changed: ReAct")

made.clear()
requests.clear()
try:
    dspy.ReActV2("question -> answer", tools=[look], max_iters=12)(question="What is it?")
    error = ""
except Exception as raised:
    error = type(raised).__name__
refused = [length for length, taken in requests if not taken]
print("ReActV2 made", made, error, "after refused requests of", refused, "words")
if (made, error, len(refused), len(set(refused))) != ([0, 1, 2, 3], "ContextWindowExceededError", 2, 1):
    raise SystemExit("it changed: ReActV2")
PYTHON
