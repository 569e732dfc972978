#!/usr/bin/env bash
# LlamaIndex 0.14.25, `Memory` and `ChatMemoryBuffer` with a `token_limit`.
#
# Most would expect: the limit is one of the history that the memory hands to the model, calls of tools with it.
# What happens: a call is a block of its own (`ToolCallBlock`), and neither memory counts that block. So an agent that writes files
# keeps all that it ever wrote: twenty turns, each with a call of 1,000 words, stay whole within a limit of 1,000, 20 times over. The same
# words as text are cut to the limit. A turn longer than the limit shows two further ways: `Memory` never parts a turn, so that it hands out
# the whole of it, and `ChatMemoryBuffer` goes from message to message until one is left, a result without its call, which strict
# servers refuse. `FunctionAgent` makes a `ChatMemoryBuffer` where it gets none.
#
# Seen (limit 1,000; a token is a word; messages handed out, words in them):
#   Memory            20 turns with calls of 1,000 words: 80, 20,000    with texts of 1,000 words: 2, 1,000    a turn of 30 calls: 61
#   ChatMemoryBuffer  20 turns with calls of 1,000 words: 80, 20,000    with texts of 1,000 words: 1, 1,000    a turn of 30 calls: 1 (tool)
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3.12 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --no-compile --disable-pip-version-check llama-index-core==0.14.25
cd "$folder"
venv/bin/python - <<'PYTHON'
import asyncio

from llama_index.core.base.llms.types import ChatMessage, TextBlock, ToolCallBlock
from llama_index.core.memory import ChatMemoryBuffer, Memory

LONG = "word " * 1000


def call(n, text):
    return ChatMessage(
        role="assistant", blocks=[ToolCallBlock(tool_call_id=f"c{n}", tool_name="write", tool_kwargs={"text": text})]
    )


def result(n, text):
    return ChatMessage(role="tool", content=text, additional_kwargs={"tool_call_id": f"c{n}"})


def with_calls():
    for n in range(20):
        yield ChatMessage(role="user", content="go")
        yield call(n, LONG)
        yield result(n, "written")
        yield ChatMessage(role="assistant", content="done")


def with_texts():
    for _ in range(20):
        yield ChatMessage(role="user", content="go")
        yield ChatMessage(role="assistant", content=LONG)


def long_turn():
    yield ChatMessage(role="user", content="go")
    for n in range(30):
        yield call(n, "")
        yield result(n, "word " * 100)


def words(message):
    texts = [block.text for block in message.blocks if isinstance(block, TextBlock)]
    texts += [block.tool_kwargs["text"] for block in message.blocks if isinstance(block, ToolCallBlock)]
    return sum(text.count("word") for text in texts)


async def handed_out(kind, history):
    memory = kind.from_defaults(token_limit=1000, tokenizer_fn=str.split)
    await memory.aput_messages([*history()])
    messages = await memory.aget()
    return len(messages), sum(map(words, messages)), messages[0].role.value


async def main():
    seen = {}
    for kind in (Memory, ChatMemoryBuffer):
        seen[kind.__name__] = [await handed_out(kind, history) for history in (with_calls, with_texts, long_turn)]
    for name, rows in seen.items():
        print(name, *rows)
    return seen


seen = asyncio.run(main())
expected = {
    "Memory": [(80, 20000, "user"), (2, 1000, "user"), (61, 3000, "user")],
    "ChatMemoryBuffer": [(80, 20000, "user"), (1, 1000, "assistant"), (1, 100, "tool")],
}
if seen != expected:
    raise SystemExit("it changed")
PYTHON
