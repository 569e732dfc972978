"""The examples of the guide, as they stand there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from wane.testing import Reply, ScriptedServer

GUIDE = Path(__file__).parents[2] / "docs" / "frameworks" / "pydantic-ai.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("example", EXAMPLES, ids=range(len(EXAMPLES)))
def test_the_guides_examples_run(example: str) -> None:
    with ScriptedServer(lambda _: Reply("Done.")) as server:
        exec(example.replace('"anthropic:claude-sonnet-5-5"', "model"), {"model": server.anthropic_model()})
