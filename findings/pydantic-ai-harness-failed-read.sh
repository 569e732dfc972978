#!/usr/bin/env bash
# pydantic-ai-harness 0.36.0 on Pydantic AI 2.68.0, `DeduplicateFileReads`, which keeps of several reads of a file the latest whole, as it
# says.
#
# Most would expect: a read that failed supersedes nothing. The text of the file is what the last read that succeeded gave.
# What happens: in this release the answer to a tool that raises `ModelRetry` is a tool's return, too, and the strategy looks at no
# outcome. The failed read is the latest, so the one copy of the file that the model had is blanked, and the error stays in its place. A
# read of ten lines does the same to a read of the whole where the key is the path alone, as in the class's own example.
#
# Seen (the model's view of the two reads, then of the reads of two ranges):
#   [superseded file read] | The file is locked by another process.
#   [superseded file read] | lines 400 to 410
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3.12 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --no-compile --disable-pip-version-check pydantic-ai-slim==2.68.0 pydantic-ai-harness==0.36.0
cd "$folder"
venv/bin/python - <<'PYTHON'
from pydantic_ai import Agent, ModelRetry
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai_harness.compaction import DeduplicateFileReads


def path(call):
    return call.args_as_dict().get("path") if call.tool_name == "read_file" else None


def run(calls, answers):
    """The results in the last request of an agent that makes these calls and is given these answers."""
    requests, answers = [], iter(answers)

    def model(messages, _):
        requests.append([part.content for message in messages for part in message.parts if isinstance(part, ToolReturnPart)])
        made = len(requests) - 1
        if made == len(calls):
            return ModelResponse(parts=[TextPart("Done.")])
        return ModelResponse(parts=[ToolCallPart("read_file", calls[made], tool_call_id=f"c{made}")])

    agent = Agent(FunctionModel(model), capabilities=[DeduplicateFileReads(file_key=path)])

    @agent.tool_plain
    def read_file(path: str, offset: int = 0, limit: int = 2000) -> str:
        answer = next(answers)
        if answer.startswith("The file is locked"):
            raise ModelRetry(answer)
        return answer

    agent.run_sync("Read the file.")
    return requests[-1]


locked = "The file is locked by another process."
failed = run([{"path": "a.py"}, {"path": "a.py"}], ["def f(): ...", locked])
part = run([{"path": "a.py"}, {"path": "a.py", "offset": 400, "limit": 10}], ["lines 0 to 500", "lines 400 to 410"])
print(*failed, sep=" | ")
print(*part, sep=" | ")
superseded = "[superseded file read]"
if failed != [superseded, locked] or part != [superseded, "lines 400 to 410"]:
    raise SystemExit("it changed")
PYTHON
