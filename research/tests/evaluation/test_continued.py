"""Trajectories that Harbor wrote of a session that went on: what they copy counts once."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from wane.lab.readers import read_session

# Harbor's own conversion of a session of pi of which this trial saw only what came after the first lines.
CONVERT = """
import json, sys
from pathlib import Path
from harbor.agents.installed.pi import Pi
folder, copied = Path(sys.argv[1]), int(sys.argv[2])
events = [*enumerate(map(json.loads, (folder / "session.jsonl").read_text().splitlines()), start=1)]
converted = Pi(logs_dir=folder)._convert_session_events_to_trajectory(events, copied_until=copied)
(folder / "trajectory.json").write_text(json.dumps(converted.to_json_dict()))
"""


def turn(number: int) -> list[dict[str, Any]]:
    usage = {"input": 100 * number, "output": 10, "cacheRead": 7, "cacheWrite": 3, "cost": {"total": 0.25 * number}}
    call = {"type": "toolCall", "id": f"c{number}", "name": "read", "arguments": {"path": f"{number}.py"}}
    result = {"role": "toolResult", "toolCallId": f"c{number}", "toolName": "read", "isError": False}
    at = {"timestamp": f"2026-11-30T10:0{number}:00Z", "type": "message"}
    return [
        at | {"message": {"role": "user", "content": [{"type": "text", "text": f"task {number}"}]}},
        at | {"message": {"role": "assistant", "content": [call], "usage": usage}},
        at | {"message": result | {"content": [{"type": "text", "text": f"content {number}"}]}},
    ]


@pytest.mark.wide
def test_steps_that_harbor_copied_are_read_and_count_in_no_figure(python: str, tmp_path: Path) -> None:
    lines = [{"type": "session", "id": "s"}, *turn(1), *turn(2)]
    (tmp_path / "session.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    subprocess.run([python, "-c", CONVERT, tmp_path, "4"], check=True)

    file = tmp_path / "trajectory.json"
    told = json.loads(file.read_text())["final_metrics"]
    (session,) = read_session(file)
    assert [part.text for part in session.parts if part.kind in ("user", "result")] == [
        "task 1",
        "content 1",
        "task 2",
        "content 2",
    ]
    assert [call.inherited for call in session.calls] == [True, False]
    (own,) = session.own_calls
    assert own.usage is not None
    assert (own.usage.total_input, own.usage.output, own.cost) == (
        told["total_prompt_tokens"],
        told["total_completion_tokens"],
        told["total_cost_usd"],
    )
