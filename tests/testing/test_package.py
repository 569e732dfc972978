"""What `wane.testing` exports, and what it needs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent

import wane.testing
from wane.core.errors import MissingExtraError
from wane.testing import Reply, ScriptedServer


def test_exported_names() -> None:
    assert sorted(wane.testing.__all__) == wane.testing.__all__
    public = {name for name in vars(wane.testing) if not name.startswith("_") and name[0].isupper()}
    assert public == set(wane.testing.__all__)


def _run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_it_serves_with_the_standard_library_alone() -> None:
    loaded = _run(
        "import sys; before = set(sys.modules)\n"
        "from wane.testing import Reply, ScriptedServer\n"
        "with ScriptedServer([Reply('x')]) as server: server.url\n"
        "new = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "print(sorted(new - set(sys.stdlib_module_names)))"
    )
    assert loaded.strip() == "['wane']"


@pytest.mark.full
@pytest.mark.parametrize(
    ("method", "package", "extra"),
    [
        ("openai_model", "openai", "openai"),
        ("openai_responses_model", "pydantic_ai", "openai"),
        ("anthropic_model", "anthropic", "anthropic"),
    ],
)
def test_a_missing_extra(method: str, package: str, extra: str) -> None:
    said = _run(
        f"import sys; sys.modules[{package!r}] = None\n"
        "from wane.core.errors import MissingExtraError\n"
        "from wane.testing import ScriptedServer\n"
        "with ScriptedServer([]) as server:\n"
        f"    try: server.{method}()\n"
        "    except MissingExtraError as error: print(error)"
    )
    assert MissingExtraError("", extra).command in said


@pytest.mark.parametrize("method", ["openai_model", "anthropic_model"])
def test_no_proxy_comes_in_between(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "ALL_PROXY", "http_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with ScriptedServer([Reply("Hello.")]) as server:
        assert Agent(getattr(server, method)()).run_sync("Hi").output == "Hello."


def test_the_example_in_the_docs() -> None:
    page = Path(__file__).parents[2] / "docs" / "testing.md"
    example = page.read_text().partition("```python\n")[2].partition("```")[0]
    names: dict[str, Any] = {}
    exec(example, names)
    names["test_reads_before_it_answers"]()
