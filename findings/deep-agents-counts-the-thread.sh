#!/usr/bin/env bash
# Deep Agents 0.7.32 (LangChain 1.5.2): a middleware of one's own that sends less does not keep the built-in summarisation off.
#
# Most would expect: the summarisation that create_deep_agent adds looks at what is about to be sent, so that a middleware which cuts
# each request to its last messages keeps it from ever running.
# What happens: the user's middleware stands inside of it. It counts the whole thread, of which each request shows a small part, and at
# 85 % of the model's window it summarises all of it, in one request that is larger than any other. Since it begins each later
# request with the summary, the user's own words are gone from then on.
#
# Seen, with a window of 20,000 tokens and requests of at most three messages:
#   largest request with tools: 5,501 characters; request for a summary: 55,596; requests after it that hold the user's words: 0
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check deepagents==0.7.32 langchain==1.5.2
"$folder/venv/bin/python" - <<'PYTHON'
from deepagents import create_deep_agent
from langchain.agents.middleware import wrap_model_call
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult

WORDS = "Never touch the file secret.txt."
sent = []  # of each request: its characters, whether it offers tools, whether it holds the user's words


class Scripted(BaseChatModel):
    """Reads thirty times, and writes summaries where it is asked for one."""

    offers: bool = False

    @property
    def _llm_type(self):
        return "scripted"

    def bind_tools(self, tools, **settings):
        return self.model_copy(update={"offers": True})

    def _generate(self, messages, stop=None, run_manager=None, **settings):
        text = "\n".join(str(message.content) for message in messages)
        sent.append((len(text), self.offers, WORDS in text))
        number = len(sent)
        if not self.offers:
            answer = AIMessage("Files were read.")
        elif number < 30:
            answer = AIMessage("", tool_calls=[{"name": "read", "args": {"path": f"a{number}"}, "id": f"r{number}"}])
        else:
            answer = AIMessage("Done.")
        return ChatResult(generations=[ChatGeneration(message=answer)])


def read(path: str) -> str:
    """Read a file."""
    return f"{path} " * 1_300


@wrap_model_call
def send_little(request, handler):
    """Send the user's words and the last exchange alone."""
    messages = request.messages
    return handler(request.override(messages=[messages[0], *messages[-2:]] if len(messages) > 3 else messages))


model = Scripted(profile={"max_input_tokens": 20_000})
agent = create_deep_agent(model, tools=[read], middleware=[send_little])
agent.invoke({"messages": [("user", WORDS)]}, {"recursion_limit": 200})
summary = next((number for number, (_, offers, _) in enumerate(sent) if not offers), None)
assert summary is not None, "the behaviour has changed: nothing was summarised"
largest = max(size for size, offers, _ in sent if offers)
after = sum(words for _, _, words in sent[summary + 1 :])
print(f"largest request with tools: {largest:,} characters; request for a summary: {sent[summary][0]:,};", end=" ")
print(f"requests after it that hold the user's words: {after}")
assert sent[summary][0] > 4 * largest and after == 0 and len(sent) > summary + 3, "the behaviour has changed"
PYTHON
