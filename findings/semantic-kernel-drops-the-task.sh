#!/usr/bin/env bash
# Semantic Kernel 1.45.0 (Python), `ChatHistoryTruncationReducer(target_count=N)`.
#
# Most would expect: some N messages stay, the newest, with the system message ahead of them; a call is not parted from its result.
# What happens: the place to cut is moved back for as long as a message is a call or a result, and the person's message ahead of them stops
# it. So of an agent's turn of thirty calls nothing is cut, whatever N is, and what leaves is the one message in front: the person's task.
# The history stays six times as long as the target. `threshold_count`, which is there to find a person's message, does not help: it is
# looked for only behind the place where the target itself would have cut. A second `reduce()` says again that it reduced, and changes nothing.
#
# Seen (a system message, one of the user's, 30 calls with their results; messages before -> after, the user's among them):
#   target 10, threshold 0: 62 -> 61, 0
#   target 10, threshold 5: 62 -> 61, 0
#   target 40, threshold 0: 62 -> 61, 0
#   the same with a sentence of text between every fifth call and the next: target 10: 68 -> 12, 0
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3.12 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --no-compile --disable-pip-version-check semantic-kernel==1.45.0
cd "$folder"
venv/bin/python - <<'PYTHON'
import asyncio
import warnings

warnings.simplefilter("ignore")

from semantic_kernel.contents import (
    ChatHistoryTruncationReducer,
    ChatMessageContent,
    FunctionCallContent,
    FunctionResultContent,
)
from semantic_kernel.contents.utils.author_role import AuthorRole


def history(target, threshold, texts):
    history = ChatHistoryTruncationReducer(target_count=target, threshold_count=threshold)
    history.add_system_message("You are an agent.")
    history.add_user_message("Find the bug.")
    for n in range(30):
        call = FunctionCallContent(id=f"c{n}", name="read", arguments="{}")
        result = FunctionResultContent(id=f"c{n}", name="read", result="text")
        history.add_message(ChatMessageContent(role=AuthorRole.ASSISTANT, items=[call]))
        history.add_message(ChatMessageContent(role=AuthorRole.TOOL, items=[result]))
        if texts and n % 5 == 4:
            history.add_assistant_message("Nothing here.")
    return history


def reduced(target, threshold, texts=False):
    kept = history(target, threshold, texts)
    before = len(kept.messages)
    asyncio.run(kept.reduce())
    after = len(kept.messages)
    again = asyncio.run(kept.reduce())
    if not texts and (again is None or len(kept.messages) != after):
        raise SystemExit("it changed: a second reduction")
    return before, after, sum(message.role == AuthorRole.USER for message in kept.messages)


seen = [reduced(10, 0), reduced(10, 5), reduced(40, 0), reduced(10, 0, texts=True)]
for before, after, users in seen:
    print(f"{before} -> {after}, the user's: {users}")
if seen != [(62, 61, 0), (62, 61, 0), (62, 61, 0), (68, 12, 0)]:
    raise SystemExit("it changed")
PYTHON
