#!/usr/bin/env bash
# smolagents 1.26.0, ToolCallingAgent: what the model reads of an answer with several calls.
#
# Most would expect: the calls of an answer come back in the order in which the model made them, each with its own result; and if one
# of them fails, its result is the error, and the others keep theirs.
# What happens: (1) the calls, and their results, are sorted by id, as strings; the results are one text without ids or names.
# Ids of most servers are random, so the order is, too: an order that meant something to the model (write, then read) may come back
# turned round. (2) If one call fails, none of the answer comes back, neither the calls nor the results of those that did their work
# (here a file was written): the model reads the error alone, and cannot know what has already been done.
#
# Seen:
#   made      write (call_b), read (call_a) -> read back: ['read', 'write'] then 'Observation:\nseen\nwritten'
#   made      write (call_c), missing (call_d) -> read back: [] then an error about 'missing'; the tool did write: True
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check smolagents==1.26.0
# A tool must stand in a file.
cat > "$folder/calls.py" <<'PYTHON'
import ast

from smolagents import ChatMessage, LogLevel, MessageRole, Model, TokenUsage, ToolCallingAgent, tool
from smolagents.models import ChatMessageToolCall, ChatMessageToolCallFunction

done = []


@tool
def write(path: str) -> str:
    """Write a file.

    Args:
        path: Its name.
    """
    done.append(path)
    return "written"


@tool
def read(path: str) -> str:
    """Read a file.

    Args:
        path: Its name.
    """
    return "seen"


class Scripted(Model):
    """Gives one answer after the other, and keeps what it was sent, as the clients of real models would send it."""

    def __init__(self, answers):
        super().__init__(model_id="scripted")
        self.answers, self.sent = list(answers), []

    def generate(self, messages, **settings):
        tools = settings.pop("tools_to_call_from", None)
        self.sent.append(self._prepare_completion_kwargs(messages, tools_to_call_from=tools)["messages"][1:])
        calls = [
            ChatMessageToolCall(ChatMessageToolCallFunction({"path": id} if name != "final_answer" else {"answer": id}, name), id, "function")
            for name, id in self.answers.pop(0)
        ]
        return ChatMessage(MessageRole.ASSISTANT, tool_calls=calls, token_usage=TokenUsage(1, 1))


def back(answer):
    """What the model reads after an answer: the names of its calls, and the text behind them."""
    model = Scripted([answer, [("final_answer", "z")]])
    ToolCallingAgent(tools=[write, read], model=model, verbosity_level=LogLevel.OFF).run("Go.")
    texts = [part["text"] for message in model.sent[-1] for part in message["content"]]
    calls = [text.partition("Calling tools:\n")[2] for text in texts if "Calling tools:" in text]
    return [call["function"]["name"] for text in calls for call in ast.literal_eval(text)], texts[-1]


names, text = back([("write", "call_b"), ("read", "call_a")])
print(f"made      write (call_b), read (call_a) -> read back: {names} then {text!r}")
assert names == ["read", "write"] and text == "Observation:\nseen\nwritten", "the behaviour has changed"
done.clear()
names, text = back([("write", "call_c"), ("missing", "call_d")])
print(f"made      write (call_c), missing (call_d) -> read back: {names} then an error about 'missing'; the tool did write: {bool(done)}")
assert (names, done) == ([], ["call_c"]) and "Unknown tool missing" in text and "written" not in text, "the behaviour has changed"
PYTHON
"$folder/venv/bin/python" "$folder/calls.py"
