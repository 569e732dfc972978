#!/usr/bin/env bash
# LangChain 1.5.2, `ClearToolUsesEdit(clear_at_least=N)`, the edit of `ContextEditingMiddleware`.
#
# Most would expect: `clear_at_least` is what its name and its docstring say, a minimum: as Anthropic's edit of that name, it clears all
# results but the newest `keep`, and does nothing where that would free less than N.
# What happens: it is where clearing ends. The edit starts again from the whole history before each request, clears the oldest results
# until N tokens are free, and stops. So the request stays over `trigger` and grows with the history: at 41,165 tokens, a trigger of
# 4,000 and N of 1, one result of 40 is cleared. Where less than N can be had, it is cleared nevertheless.
#
# Seen (trigger 4,000, keep 3, results of 1,000 tokens; tokens before -> after, results cleared):
#   clear_at_least=0:     10,295 -> 3,309, 7    41,165 -> 4,239, 37
#   clear_at_least=1:     10,295 -> 9,297, 1    41,165 -> 40,167, 1
#   clear_at_least=2000:  10,295 -> 7,301, 3    41,165 -> 38,171, 3
#   clear_at_least=20000: 10,295 -> 3,309, 7    41,165 -> 20,207, 21
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3.12 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --no-compile --disable-pip-version-check langchain==1.5.2 langchain-core==1.8.3
cd "$folder"
venv/bin/python - <<'PYTHON'
from langchain.agents.middleware import ClearToolUsesEdit
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.messages.utils import count_tokens_approximately


def history(calls):
    messages = [HumanMessage("go")]
    for n in range(calls):
        call = {"name": "read", "args": {"p": n}, "id": f"c{n}"}
        messages += [AIMessage("", tool_calls=[call]), ToolMessage("x" * 4000, tool_call_id=f"c{n}", name="read")]
    return messages


def edited(calls, least):
    messages = history(calls)
    before = count_tokens_approximately(messages)
    edit = ClearToolUsesEdit(trigger=4000, clear_at_least=least, keep=3)
    edit.apply(messages, count_tokens=count_tokens_approximately)
    cleared = sum(message.content == "[cleared]" for message in messages)
    return before, count_tokens_approximately(messages), cleared


seen = {least: [edited(calls, least) for calls in (10, 40)] for least in (0, 1, 2000, 20000)}
for least, rows in seen.items():
    print(f"clear_at_least={least}:", *(f"{before:,} -> {after:,}, {cleared}" for before, after, cleared in rows), sep="  ")
expected = {
    0: [(10295, 3309, 7), (41165, 4239, 37)],
    1: [(10295, 9297, 1), (41165, 40167, 1)],
    2000: [(10295, 7301, 3), (41165, 38171, 3)],
    20000: [(10295, 3309, 7), (41165, 20207, 21)],
}
if seen != expected:
    raise SystemExit("it changed")
PYTHON
