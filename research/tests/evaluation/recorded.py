"""A model that repeats recorded runs of tasks: real commands, real output and real graders, but no model.

python -m research.tests.evaluation.recorded TASKS RECORDINGS URL_FILE serves until it is killed.
"""

from __future__ import annotations

import json
import re
import sys
import threading
from pathlib import Path

from wane.testing import Call, Kind, Reply, Request, ScriptedServer

_ID = re.compile(r"toolu_(.+)_(\d+)_\w+$")


def recorded_script(tasks: Path, recordings: Path):
    """A script that answers with the commands recorded for the current task.

    It finds its position in a recording by the ids of the calls in the request alone, so that a session that was rolled
    back continues at the right position.
    """
    begins = {}
    for path in tasks.glob("*/instruction.md"):
        begins[_plain(path.read_text(encoding="utf-8"))[:200]] = path.parent.name
    commands = {}
    for path in recordings.glob("*.json"):
        messages = json.loads(path.read_text(encoding="utf-8"))
        calls = [call["function"]["arguments"] for it in messages for call in it.get("tool_calls") or ()]
        commands[path.stem] = [json.loads(call).get("command", "true") for call in calls]

    def script(request: Request) -> Reply:
        parts = request.parts
        # The last user turn that is a task: a reminder may come after it.
        last, task = -1, ""
        for index, part in enumerate(parts):
            for begin, name in begins.items():
                if part.kind is Kind.USER and begin in _plain(part.text):
                    last, task = index, name
        made = [_ID.match(part.call_id or "") for part in parts[last:] if part.kind is Kind.CALL]
        at = max((int(match[2]) + 1 for match in made if match), default=0)
        todo = commands[task]
        if at >= len(todo):
            return Reply(f"{task} is done.")
        code = f'cd "$(cat /tmp/.cwd 2>/dev/null || pwd)"\n{todo[at]}\npwd > /tmp/.cwd'
        calls = [Call("shell", {"command": code}, id=f"toolu_{task}_{at}_run")]
        if at == 0:
            start = {"action": "start", "name": task, "type": "act", "dependencies": []}
            calls.insert(0, Call("delimiter", start, id=f"toolu_{task}_{at}_start"))
        if at == len(todo) - 1:
            calls.append(Call("delimiter", {"action": "end"}, id=f"toolu_{task}_{at}_end"))
        return Reply(reasoning="As recorded.", calls=tuple(calls))

    return script


def _plain(text: str) -> str:
    return " ".join(text.split())


if __name__ == "__main__":
    with ScriptedServer(recorded_script(Path(sys.argv[1]), Path(sys.argv[2])), keep=2) as server:
        Path(sys.argv[3]).write_text(server.url, encoding="utf-8")
        try:
            threading.Event().wait()
        finally:
            print(*server.refusals, sep="\n")
