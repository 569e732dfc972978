#!/usr/bin/env bash
# Microsoft Agent Framework 1.23.0, `ToolResultCompactionStrategy`, which puts a line with the results in the place of an older group of
# calls.
#
# Most would expect: the line says what the tools returned, whichever tool it was, and what the model said beside its calls stays, or is in
# the line.
# What happens: only results of functions and of MCP servers are read. Groups of the shell tool and of the code interpreter, which the
# strategy does take for calls, become "[Tool results: no results]", as an assistant's message: the model then reads as its own words that
# a command that printed 42 gave nothing. What it said beside any call leaves with the group.
#
# Seen:
#   shell, beside "I count first.": [Tool results: no results]
#   code interpreter: [Tool results: no results]
#   function, beside "I look.": [Tool results: read: text of x]
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3.12 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --no-compile --disable-pip-version-check agent-framework-core==1.23.0
cd "$folder"
venv/bin/python -W ignore - <<'PYTHON'
import asyncio

from agent_framework import Content, Message, ToolResultCompactionStrategy, apply_compaction

printed = Content.from_shell_command_output(stdout="42 x", exit_code=0)
shell = [
    Message("assistant", [Content.from_text("I count first."), Content.from_shell_tool_call(call_id="a", commands=["wc -l x"])]),
    Message("tool", [Content.from_shell_tool_result(call_id="a", outputs=[printed])]),
]
code = [
    Message(
        "assistant",
        [
            Content.from_code_interpreter_tool_call(call_id="b", inputs=[Content.from_text("print(6 * 7)")]),
            Content.from_code_interpreter_tool_result(call_id="b", outputs=[Content.from_text("42")]),
        ],
    )
]
function = [
    Message("assistant", [Content.from_text("I look."), Content.from_function_call(call_id="c", name="read", arguments='{"path": "x"}')]),
    Message("tool", [Content.from_function_result(call_id="c", result="text of x")]),
]
messages = [Message("user", ["go"]), *shell, *code, *function, Message("assistant", ["Done."]), Message("user", ["And now?"])]
left = asyncio.run(apply_compaction(messages, strategy=ToolResultCompactionStrategy(keep_last_tool_call_groups=0)))
seen = [(message.role, message.text) for message in left][1:-2]
for name, (_, text) in zip(('shell, beside "I count first."', "code interpreter", 'function, beside "I look."'), seen):
    print(f"{name}: {text}")
nothing = ("assistant", "[Tool results: no results]")
if seen != [nothing, nothing, ("assistant", "[Tool results: read: text of x]")]:
    raise SystemExit("it changed")
PYTHON
