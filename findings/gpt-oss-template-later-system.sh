#!/usr/bin/env bash
# gpt-oss' chat template (as xinference 1.10.1 and llama.cpp ship it): what becomes of a system or developer message behind the first turn.
#
# Most would expect: it is shown where it stands, as the model's own format (Harmony) and OpenAI's APIs do with developer messages, or
# the template refuses it, as it refuses an answer with calls that has both a text and reasoning.
# What happens: it is left out, without a word. Whatever a program says that way in mid-session (a mode that was switched, a reminder,
# a note on its memory) never reaches the model behind llama.cpp, vLLM with this template, or Transformers. A message of the user does.
#
# Seen:
#   system, later: not shown
#   developer, later: not shown
#   user, later: shown
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
pip=("$folder/venv/bin/python" -m pip --quiet --disable-pip-version-check)
"${pip[@]}" install jinja2==3.1.6
"${pip[@]}" download --no-deps --only-binary :all: --dest "$folder" xinference==1.10.1
"$folder/venv/bin/python" - "$folder"/xinference-*.whl <<'PYTHON'
import json
import sys
import zipfile
from datetime import datetime

from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

with zipfile.ZipFile(sys.argv[1]) as wheel:
    families = json.loads(wheel.read("xinference/model/llm/llm_family.json"))
(source,) = {family["chat_template"] for family in families if family["model_name"] == "gpt-oss"}


def refuse(message):
    raise ValueError(message)


environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
environment.filters["tojson"] = lambda value, **_: json.dumps(value)
environment.globals["raise_exception"] = refuse
environment.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
template = environment.from_string(source)
seen = {}
for role in ("system", "developer", "user"):
    messages = [
        {"role": "system", "content": "You code."},
        {"role": "user", "content": "Hello."},
        {"role": "assistant", "content": "Hello!"},
        {"role": role, "content": "Plan mode is on."},
        {"role": "user", "content": "Fix it."},
    ]
    prompt = template.render(messages=messages, add_generation_prompt=True)
    assert "You code." in prompt and "Fix it." in prompt
    seen[role] = "Plan mode is on." in prompt
    print(f"{role}, later: {'shown' if seen[role] else 'not shown'}")
assert seen == {"system": False, "developer": False, "user": True}
PYTHON
