#!/usr/bin/env bash
# Agno 3.1.10: a tool does not get the text that the model wrote.
#
# Most would expect: a tool with a parameter of type `str` that the model calls with {"pattern": "None"} gets the string "None".
# What happens: Agno replaces some strings by other values before the call, whatever the schema says: "none" and "null" (in any
# case, with spaces around) become None, "true" and "false" become booleans. A search for the word None is a search for nothing;
# with a parameter of type `str` the call fails, and the model is told that its string is no string. The history keeps what the
# model wrote, so nothing in a transcript shows it.
#
# Seen:
#   wrote 'None'  -> tool got None
#   wrote ' null ' -> tool got None
#   wrote 'TRUE'  -> tool got True
#   wrote 'nones' -> tool got 'nones'
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check agno==3.1.10 openai==3.57.0
"$folder/venv/bin/python" - <<'PYTHON'
import json

from agno.tools.function import Function
from agno.utils.functions import get_function_call

seen = {}
tool = Function(name="search", parameters={"type": "object", "properties": {"pattern": {"type": "string"}}})
for text in ("None", " null ", "TRUE", "nones"):
    call = get_function_call("search", json.dumps({"pattern": text}), functions={"search": tool})
    seen[text] = call.arguments["pattern"]
    print(f"wrote {text!r} -> tool got {seen[text]!r}")
assert seen == {"None": None, " null ": None, "TRUE": True, "nones": "nones"}, "the behaviour has changed"
PYTHON
