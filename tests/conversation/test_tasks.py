"""Tasks (R17) through a conversation: the tool, its answers, recall, and records that keep them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from wane import Conversation, Policy
from wane.conversation.request import DELIMITER_TOOL
from wane.core import RECALL
from wane.core.errors import ConfigError

POLICY = Policy(low_water=0.3, guard=0.0, index_share=0.0)


class Model:
    """Makes calls in a conversation, and reads what they return."""

    def __init__(self, **settings: Any) -> None:
        self.conversation = Conversation(**{"budget": "1k", "policy": POLICY, "tasks": True, **settings})
        self.calls = 0
        self.conversation.append({"role": "user", "content": "Fix it."})

    def call(self, tool: str, output: str = "", **arguments: object) -> str:
        """Call a tool, and return its result; the conversation answers its own."""
        self.conversation.request()
        self.calls += 1
        function = {"name": tool, "arguments": json.dumps(arguments)}
        call = {"id": f"c{self.calls}", "type": "function", "function": function}
        for open_call in self.conversation.append({"role": "assistant", "content": None, "tool_calls": [call]}):
            self.conversation.append(open_call.result(output))
        return str(self.conversation.messages[-1]["content"])

    def mark(self, **arguments: object) -> str:
        return self.call("delimiter", **arguments)

    def look(self, name: str) -> None:
        self.mark(action="start", name=name, type="expl")
        self.call("read", f"{name} says much. " * 60, path=f"{name}.py")
        self.mark(action="end", description=f"{name} is clear")

    def task(self, name: str, *looks: str, **end: object) -> str:
        self.mark(action="start", name=name, type="task")
        for look in looks:
            self.look(look)
        return self.mark(action="end", name=name, description=f"{name} is done", **end)


def names(tool: Any) -> set[str]:
    return set(tool.schema["properties"]["type"]["enum"])


def test_off_the_model_reads_nothing_of_tasks() -> None:
    off, on = Conversation(), Conversation(tasks=True)
    assert off.own_tools == (DELIMITER_TOOL,)
    assert names(off.own_tools[0]) == {"expl", "act"}
    assert names(on.own_tools[0]) == {"expl", "act", "task"}
    assert "abandoned" in on.instructions
    assert "abandoned" not in json.dumps(off.tools) + off.instructions
    assert off.instructions in "\n".join(line for line in on.instructions.splitlines() if "Tasks nest" not in line)


def test_off_a_task_is_refused() -> None:
    model = Model(tasks=False)
    assert '"task" is no type' in model.mark(action="start", name="fix", type="task")


def test_a_value_that_is_none() -> None:
    with pytest.raises(ConfigError, match="tasks is 'yes'; it must be true or false"):
        Conversation(tasks="yes")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="tasks cannot be changed in a conversation"):
        Conversation().change(tasks=True)


def test_one_line_of_each_task_stays() -> None:
    model = Model(budget="2k")
    for number in range(10):
        model.task(f"task-{number}", f"look-{number}-a", f"look-{number}-b")
    model.look("last")
    model.conversation.request()
    view = json.dumps(model.conversation.view)
    assert all(f"task-{number} is done" in view for number in range(9))
    assert "look-0-a is clear" not in view


def test_recall_of_a_task_says_what_came_of_it_and_what_it_holds() -> None:
    model = Model(recall=True)
    model.mark(action="start", name="goal", type="task")
    model.task("way", "a", abandoned=True)
    model.look("b")
    model.mark(action="end", name="goal", description="the port was taken")
    model.look("c")
    model.conversation.request()
    told = model.call(RECALL, name="goal")
    assert told == (
        'Task "goal", whole:\n\nEnded. the port was taken\nRecall what it holds by name:\n'
        '- task "way": way is done\n- expl "b": b is clear'
    )
    assert "Abandoned. way is done" in model.call(RECALL, name="way")
    assert "a says much." in model.call(RECALL, name="a")
    assert 'in episode "a"' in model.call(RECALL, name="goal", search="a says much")
    assert 'in task "way"' in model.call(RECALL, search="way is done")


def test_an_open_task_can_be_recalled_too() -> None:
    model = Model(recall=True)
    model.mark(action="start", name="goal", type="task")
    assert model.call(RECALL, name="goal") == 'Task "goal", whole:\n\nOpen.\nIt holds no episode.'


def test_records_say_whether_there_were_tasks() -> None:
    """A session goes on as it was judged, whatever its settings are now; a change holds for what comes."""
    lived = Model(recall=True)
    lived.task("done", "a", "b")
    lived.mark(action="start", name="open", type="task")
    revived = Conversation(budget="1k", policy=POLICY, recall=True)
    revived.log.follow(lived.conversation.log.records())
    assert revived.window.task is not None
    assert revived.window.task.name == "open"
    assert revived.recall("done") == lived.conversation.recall("done")
    more = {"action": "start", "name": "more", "type": "task"}
    end = {"action": "end", "name": "open", "description": "it is done"}
    assert [verdict.accepted for verdict in revived.window.foresee(map(json.dumps, (more, end)))] == [False, True]


def test_tasks_come_back_with_a_state() -> None:
    lived = Model()
    lived.task("done", "a")
    messages, state = lived.conversation.messages, json.loads(json.dumps(lived.conversation.state()))
    revived = Conversation(budget="1k", policy=POLICY, tasks=True)
    assert revived.restore(state, messages)
    assert [(one.name, one.task and one.task.name) for one in revived.episodes] == [
        (one.name, one.task and one.task.name) for one in lived.conversation.episodes
    ]
