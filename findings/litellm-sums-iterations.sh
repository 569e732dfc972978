#!/usr/bin/env bash
# LiteLLM 1.110.2, `completion` with Anthropic's models: an answer for which the server compacted, or asked an advisor.
#
# Most would expect: `usage.prompt_tokens` is what the request held, as Anthropic's own `input_tokens` is, so that an agent can tell from it
# how full the window is; and the advisor's tokens cost what the advisor costs, whose name stands beside them in the answer.
# What happens: `completion` adds up all of Anthropic's `iterations`. After a compaction the prompt looks nine times as long as it is: who
# compacts or truncates by `prompt_tokens` does so again at once, on a history that has just become short. The sum gets one price, that of
# the model that was asked for: Opus advising Haiku is paid as Haiku, a quarter of the whole. The unified `anthropic_messages` of the same
# package hands `input_tokens` on as they are.
#
# Seen (Anthropic's answers as its documentation has them, from a server on this machine; plain and streamed alike):
#   compaction of 180,000 + 3,500 tokens, answer to 23,000 + 1,000:  prompt_tokens 203,000; anthropic_messages: 23,000
#   Haiku 4.5, 1,900 + 580, asks Opus 4.6, 10,000 + 1,000:           $0.0198; by the two models' prices in the same package $0.0798
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3.12 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --no-compile --disable-pip-version-check litellm==1.110.2
cd "$folder"
LITELLM_LOCAL_MODEL_COST_MAP=True LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS=True venv/bin/python -W ignore - <<'PYTHON'
import asyncio
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import litellm


def entry(kind, input_tokens, output_tokens, **more):
    counts = {"input_tokens": input_tokens, "output_tokens": output_tokens}
    return {"type": kind, **counts, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, **more}


def usage(*entries):
    own = [entry for entry in entries if entry["type"] == "message"]
    total = entry("", sum(e["input_tokens"] for e in own), sum(e["output_tokens"] for e in own))
    return {**total, "type": None, "iterations": entries}


USAGE = {
    "claude-opus-4-6": usage(entry("compaction", 180_000, 3_500), entry("message", 23_000, 1_000)),
    "claude-haiku-4-5": usage(
        entry("message", 400, 80),
        entry("advisor_message", 10_000, 1_000, model="claude-opus-4-6"),
        entry("message", 1_500, 500),
    ),
}


def events(message):
    block = {"index": 0, "content_block": {"type": "text", "text": ""}}
    yield "message_start", {"message": {**message, "content": [], "stop_reason": None, "usage": entry("", 1, 1)}}
    yield "content_block_start", block
    yield "content_block_delta", {"index": 0, "delta": {"type": "text_delta", "text": "Done."}}
    yield "content_block_stop", {"index": 0}
    yield "message_delta", {"delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": message["usage"]}
    yield "message_stop", {}


class Anthropic(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        model, text = request["model"], {"type": "text", "text": "Done."}
        message = {"id": "msg_1", "type": "message", "role": "assistant", "model": model, "content": [text]}
        message |= {"stop_reason": "end_turn", "stop_sequence": None, "usage": USAGE[model]}
        if request.get("stream"):
            rows = [f"event: {name}\ndata: {json.dumps({'type': name, **data})}\n\n" for name, data in events(message)]
            self.reply("text/event-stream", "".join(rows))
        else:
            self.reply("application/json", json.dumps(message))

    def reply(self, kind, text):
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Anthropic)
threading.Thread(target=server.serve_forever, daemon=True).start()
ADDRESS = {"api_base": f"http://127.0.0.1:{server.server_port}", "api_key": "none", "max_tokens": 100}
GO = {"messages": [{"role": "user", "content": "go"}], **ADDRESS}


def asked(model):
    plain = litellm.completion(model=f"anthropic/{model}", **GO)
    chunks = litellm.completion(model=f"anthropic/{model}", stream=True, stream_options={"include_usage": True}, **GO)
    streamed = litellm.stream_chunk_builder([*chunks])
    return [(answer.usage.prompt_tokens, round(litellm.completion_cost(answer), 4)) for answer in (plain, streamed)]


def cost(model, input_tokens, output_tokens):
    return sum(litellm.cost_per_token(model, prompt_tokens=input_tokens, completion_tokens=output_tokens))


compacted, advised = asked("claude-opus-4-6"), asked("claude-haiku-4-5")
unified = asyncio.run(litellm.anthropic_messages(model="anthropic/claude-opus-4-6", **GO))["usage"]["input_tokens"]
right = round(cost("claude-haiku-4-5", 1_900, 580) + cost("claude-opus-4-6", 10_000, 1_000), 4)
print("compaction:", compacted, "anthropic_messages:", unified)
print("advisor:", advised, "by the two models' prices:", right)
if (compacted, unified) != ([(203_000, 1.1275)] * 2, 23_000) or (advised, right) != ([(11_900, 0.0198)] * 2, 0.0798):
    raise SystemExit("it changed")
PYTHON
