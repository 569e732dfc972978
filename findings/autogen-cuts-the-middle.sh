#!/usr/bin/env bash
# AutoGen 0.7.5, `TokenLimitedChatCompletionContext(token_limit=N)`.
#
# Most would expect: the most recent messages, as its docstring says, as many as N tokens hold.
# What happens: the message in the middle is taken out, again and again, so that the oldest and the newest ones stay. They are taken one at a
# time: a call leaves while its result stays, or the other way round. Only a result that has become the very first message is removed, too.
# So half of the requests that were cut have a call or a result without the other, which OpenAI's and Anthropic's APIs refuse.
# `HeadAndTailChatCompletionContext`, in the same package, does see to both of its ends.
#
# Seen (one message of the user's and 20 calls with results; a scripted model that counts words; of the limits from 100 to 1,900):
#   the oldest call is there at each limit from 200 on; a call without its result, or a result without its call, at 10 of 19 limits
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3.12 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --no-compile --disable-pip-version-check autogen-core==0.7.5 autogen-ext==0.7.5
cd "$folder"
venv/bin/python -W ignore - <<'PYTHON'
import asyncio

from autogen_core import FunctionCall
from autogen_core.model_context import TokenLimitedChatCompletionContext
from autogen_core.models import AssistantMessage, FunctionExecutionResult, FunctionExecutionResultMessage, UserMessage
from autogen_ext.models.replay import ReplayChatCompletionClient


class Words(ReplayChatCompletionClient):
    """A scripted model that counts words."""

    def count_tokens(self, messages, *, tools=()):
        return sum(len(str(message.content).split()) for message in messages)


def history():
    yield UserMessage(content="Find the bug.", source="user")
    for n in range(20):
        yield AssistantMessage(content=[FunctionCall(id=f"c{n}", name="read", arguments="{}")], source="agent")
        result = FunctionExecutionResult(call_id=f"c{n}", name="read", content="word " * 100, is_error=False)
        yield FunctionExecutionResultMessage(content=[result])


async def cut(limit):
    context = TokenLimitedChatCompletionContext(Words([]), token_limit=limit, initial_messages=[*history()])
    messages = await context.get_messages()
    calls = {part.id for m in messages if isinstance(m, AssistantMessage) for part in m.content}
    results = {part.call_id for m in messages if isinstance(m, FunctionExecutionResultMessage) for part in m.content}
    return calls, results


seen = {limit: asyncio.run(cut(limit)) for limit in range(100, 2000, 100)}
parted = [limit for limit, (calls, results) in seen.items() if calls != results]
oldest = [limit for limit, (calls, _) in seen.items() if "c0" in calls]
print("a call without its result, or a result without its call, at limits of", *parted)
print("the oldest call is there at limits of", *oldest)
if parted != [200, 400, 600, 800, 1000, 1200, 1400, 1500, 1700, 1900] or oldest != [*range(200, 2000, 100)]:
    raise SystemExit("it changed")
PYTHON
