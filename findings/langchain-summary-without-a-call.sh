#!/usr/bin/env bash
# LangChain 1.5.2, an agent with `SummarizationMiddleware(model, trigger=("tokens", 20000))` and all its other defaults, that is given one
# task and works on it by calls.
#
# Most would expect: at 20,000 tokens the summarising model is asked, and what it writes stands for the older part.
# What happens: what is to be summarised is first cut to its newest 4,000 tokens (`trim_tokens_to_summarize`), which must begin with a
# person's message. The only one stands at the head, so nothing remains, no model is asked, and the whole older part, the task with it,
# gives way to one sentence: that the conversation was too long to summarize. It does so again each time; the agent ends its run without
# the task. (Known there as issue 39261, closed; it is so in this release, too.)
#
# Seen:
#   requests: 61; with the task: 16; calls of the summarising model: 0
#   first message of the others: Here is a summary of the conversation to date: Previous conversation was too long to summarize.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3.12 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --no-compile --disable-pip-version-check langchain==1.5.2 langchain-core==1.8.3
cd "$folder"
venv/bin/python - <<'PYTHON'
from langchain.agents import create_agent
from langchain.agents.middleware import SummarizationMiddleware
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.tools import tool

TASK = "Find the function that parses dates, and rename it to read_date."
worked, summarised = [], []


class Worker(GenericFakeChatModel):
    def bind_tools(self, tools, **options):
        return self

    def _generate(self, messages, *args, **options):
        worked.append(list(messages))
        return super()._generate(messages, *args, **options)


class Summariser(GenericFakeChatModel):
    def _generate(self, messages, *args, **options):
        summarised.append(list(messages))
        return super()._generate(messages, *args, **options)


@tool
def read(path: str) -> str:
    """Reads a file."""
    return "line of text\n" * 400


def answers():
    for n in range(60):
        yield AIMessage("", tool_calls=[{"name": "read", "args": {"path": f"f{n}"}, "id": f"c{n}"}])
    yield AIMessage("Done.")


summary = SummarizationMiddleware(Summariser(messages=iter(lambda: AIMessage("A summary."), None)), trigger=("tokens", 20000))
agent = create_agent(Worker(messages=answers()), tools=[read], middleware=[summary])
agent.invoke({"messages": [("user", TASK)]}, {"recursion_limit": 500})
with_task = [messages for messages in worked if any(TASK in str(message.content) for message in messages)]
heads = {" ".join(str(messages[0].content).split()) for messages in worked if messages not in with_task}
seen = (len(worked), len(with_task), len(summarised), heads)
print(f"requests: {seen[0]}; with the task: {seen[1]}; calls of the summarising model: {seen[2]}")
print("first message of the others:", *sorted(heads))
sentence = "Here is a summary of the conversation to date: Previous conversation was too long to summarize."
if seen != (61, 16, 0, {sentence}):
    raise SystemExit("it changed")
PYTHON
