#!/usr/bin/env bash
# LiteLLM 1.110.2, `trim_messages(messages, model, max_tokens=N)`, on an agent's turn.
#
# Most would expect: what comes back holds at most N tokens, as `max_tokens` says; the newest messages stay, each result beside its call.
# What happens: the results at the end of the history are set aside first and put back at the end, uncounted. So a request that ends with a
# result, as each of an agent's does but the first, is always longer than N by that result. The cut itself goes message by message, so the
# view begins, behind the system prompt, with a result whose call is gone, and a part of that result's middle is left out. The
# person's task leaves first. OpenAI refuses such a request for the result without a call.
#
# Seen (20 calls with results of 300 tokens each, 6,380 in all; tokens that come back, and the first two messages):
#   max_tokens=500:   800, system, tool
#   max_tokens=2000: 2301, system, tool
#   max_tokens=4000: 4300, system, tool
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3.12 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --no-compile --disable-pip-version-check litellm==1.110.2
cd "$folder"
LITELLM_LOCAL_MODEL_COST_MAP=True venv/bin/python -W ignore - <<'PYTHON'
from litellm import token_counter
from litellm.utils import trim_messages

MODEL = "gpt-4o"


def history():
    yield {"role": "system", "content": "You are an agent."}
    yield {"role": "user", "content": "Find the bug."}
    for n in range(20):
        function = {"name": "read", "arguments": '{"path": "xxxxxxxxxx"}'}
        call = {"id": f"c{n}", "type": "function", "function": function}
        yield {"role": "assistant", "content": None, "tool_calls": [call]}
        yield {"role": "tool", "tool_call_id": f"c{n}", "content": "word " * 300}


def trimmed(limit):
    messages = trim_messages([*history()], model=MODEL, max_tokens=limit)
    calls = [call["id"] for message in messages for call in message.get("tool_calls") or []]
    first = messages[1]
    lost = first["role"] == "tool" and first["tool_call_id"] not in calls
    return token_counter(model=MODEL, messages=messages), [message["role"] for message in messages[:2]], lost


seen = {limit: trimmed(limit) for limit in (500, 2000, 4000)}
for limit, (tokens, roles, lost) in seen.items():
    print(f"max_tokens={limit}: {tokens},", *roles, "(its call is gone)" if lost else "")
begin = ["system", "tool"]
if seen != {500: (800, begin, True), 2000: (2301, begin, True), 4000: (4300, begin, True)}:
    raise SystemExit("it changed")
PYTHON
