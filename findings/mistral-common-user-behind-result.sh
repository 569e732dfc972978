#!/usr/bin/env bash
# mistral-common 1.11.0 and 1.11.1, Mistral's own check of requests (V3 tokenizer): a turn of the user right behind a tool's result.
#
# Most would expect: roles must alternate, so two turns of the user in a row are refused, as Mistral's chat templates refuse them; and
# what a server takes does not depend on a patch release of its tokenizer.
# What happens: two turns of the user in a row are taken, as one with a blank line between. A turn of the user right behind a result is
# refused up to 1.11.0, and taken from 1.11.1 on. So whether an agent may let a person speak between a result and the answer to it
# depends on the third digit of a dependency of the server.
#
# Seen:
#   1.11.0: behind a result: InvalidMessageStructureException; two in a row: taken, joined by a blank line
#   1.11.1: behind a result: taken; two in a row: taken, joined by a blank line
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
for version in 1.11.0 1.11.1; do
    "$folder/venv/bin/python" -m pip --quiet --disable-pip-version-check install "mistral-common==$version" sentencepiece==0.2.3
    "$folder/venv/bin/python" -W ignore - "$version" <<'PYTHON'
import sys

from mistral_common.exceptions import InvalidMessageStructureException
from mistral_common.protocol.instruct.request import ChatCompletionRequest
from mistral_common.tokens.tokenizers.mistral import MistralTokenizer

version = sys.argv[1]
tokenizer = MistralTokenizer.v3()
call = {"id": "Abc123Xyz", "type": "function", "function": {"name": "read_file", "arguments": "{}"}}
asked = {"role": "user", "content": "Read a.py."}
called = {"role": "assistant", "content": "", "tool_calls": [call]}
result = {"role": "tool", "tool_call_id": "Abc123Xyz", "name": "read_file", "content": "print(1)"}
spoken = {"role": "user", "content": "And b.py."}


def check(messages):
    try:
        text = tokenizer.encode_chat_completion(ChatCompletionRequest(messages=messages)).text
    except InvalidMessageStructureException as error:
        return type(error).__name__
    return "taken, joined by a blank line" if text.count("[INST]") == 1 else "taken"


behind, in_a_row = check([asked, called, result, spoken]), check([asked, spoken])
print(f"{version}: behind a result: {behind}; two in a row: {in_a_row}")
assert behind == {"1.11.0": "InvalidMessageStructureException", "1.11.1": "taken"}[version]
assert in_a_row == "taken, joined by a blank line"
PYTHON
done
