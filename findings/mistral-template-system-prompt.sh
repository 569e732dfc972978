#!/usr/bin/env bash
# Chat templates of Mistral 7B v0.3, Mixtral 8x22B, Mistral Nemo and Mistral Large (as xinference 1.10.1 ships them): where the system prompt goes.
#
# Most would expect: every prompt begins with the system prompt, as with other models; a server that caches prefixes then reads it from
# its cache.
# What happens: it stands in the last message of the user, and only if that is the last message of all. So a request that ends with a
# tool's result, which is most of an agent's requests, has no system prompt at all: the model sees its rules only before its first
# call of each turn. And with each new turn the prompt changes from its first token on, because the system prompt and the tools move.
#
# Seen, for each of the four:
#   ends with the user's message: system prompt True, tools True
#   ends with a tool's result:    system prompt False, tools True
#   characters that the prompts of two turns have in common at their beginning: 4 of 256 or 258
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
pip=("$folder/venv/bin/python" -m pip --quiet --disable-pip-version-check)
"${pip[@]}" install jinja2==3.1.6
"${pip[@]}" download --no-deps --only-binary :all: --dest "$folder" xinference==1.10.1
"$folder/venv/bin/python" - "$folder"/xinference-*.whl <<'PYTHON'
import json
import os
import sys
import zipfile

from jinja2.sandbox import ImmutableSandboxedEnvironment

MODELS = ("mistral-instruct-v0.3", "mixtral-8x22B-instruct-v0.1", "mistral-nemo-instruct", "mistral-large-instruct")
with zipfile.ZipFile(sys.argv[1]) as wheel:
    families = json.loads(wheel.read("xinference/model/llm/llm_family.json"))
templates = {family["model_name"]: family.get("chat_template") for family in families}


def refuse(message):
    raise ValueError(message)


environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
environment.globals["raise_exception"] = refuse
parameters = {"type": "object", "properties": {"path": {"type": "string"}}}
tools = [{"type": "function", "function": {"name": "read_file", "description": "Reads.", "parameters": parameters}}]
call = {"id": "Abc123Xyz", "type": "function", "function": {"name": "read_file", "arguments": {"path": "a.py"}}}
asked = [{"role": "system", "content": "Never delete files."}, {"role": "user", "content": "What is in a.py?"}]
result = {"role": "tool", "tool_call_id": "Abc123Xyz", "name": "read_file", "content": "print(1)"}
called = [*asked, {"role": "assistant", "content": "", "tool_calls": [call]}, result]
answered = [*asked, {"role": "assistant", "content": "A print."}, {"role": "user", "content": "And in b.py?"}]
for model in MODELS:
    template = environment.from_string(templates[model])

    def prompt(messages):
        return template.render(messages=messages, tools=tools, bos_token="<s>", eos_token="</s>")

    print(model)
    seen = {}
    for name, messages in {"the user's message": asked, "a tool's result": called}.items():
        seen[name] = "Never delete files." in prompt(messages), "read_file" in prompt(messages)
        print(f"  ends with {name}: system prompt {seen[name][0]}, tools {seen[name][1]}")
    shared = len(os.path.commonprefix([prompt(asked), prompt(answered)]))
    print(f"  characters in common at the beginning of two turns' prompts: {shared} of {len(prompt(asked))}")
    assert seen == {"the user's message": (True, True), "a tool's result": (False, True)}
    assert shared < 5
PYTHON
