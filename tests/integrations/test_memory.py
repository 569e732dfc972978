"""Wane beside a memory across sessions: the example of docs/memory.md, with Mem0 and without a model."""

from __future__ import annotations

import hashlib
import re
import runpy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from wane import Conversation

# Mem0 takes seconds to load.
pytestmark = pytest.mark.full

PAGE = Path(__file__).parents[2] / "docs" / "memory.md"
SIZE = 256


@pytest.fixture
def begin(tmp_path: Path) -> Callable[..., Conversation[dict[str, Any]]]:
    """The function of the page."""
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    file = tmp_path / "page.py"
    file.write_text(code, encoding="utf-8")
    made: Callable[..., Conversation[dict[str, Any]]] = runpy.run_path(str(file))["begin"]
    return made


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Mem0 on disk; it reads its settings from the environment when it is loaded."""
    monkeypatch.setenv("MEM0_TELEMETRY", "False")
    monkeypatch.setenv("MEM0_DIR", str(tmp_path / "mem0"))
    mem0 = pytest.importorskip("mem0", reason="Mem0 is not installed")
    pytest.importorskip("langchain", reason="Mem0 takes embeddings of our own through LangChain")
    from langchain_core.embeddings import Embeddings
    from langchain_core.language_models import FakeListChatModel

    class Words(Embeddings):
        """Counts of words: no model."""

        def embed_query(self, text: str) -> list[float]:
            counts = [0.0] * SIZE
            for word in re.findall(r"\w+", text.lower()):
                counts[int(hashlib.sha256(word.encode()).hexdigest(), 16) % SIZE] += 1
            length = sum(count * count for count in counts) ** 0.5 or 1.0
            return [count / length for count in counts]

        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return [self.embed_query(text) for text in texts]

    store = {"path": str(tmp_path / "store"), "embedding_model_dims": SIZE, "collection_name": "memories"}
    made = mem0.Memory.from_config(
        {
            "embedder": {"provider": "langchain", "config": {"model": Words()}},
            # It wants one, and never calls it.
            "llm": {"provider": "langchain", "config": {"model": FakeListChatModel(responses=[])}},
            "vector_store": {"provider": "qdrant", "config": store},
            "history_db_path": str(tmp_path / "history.db"),
        }
    )
    yield made
    made.vector_store.client.close()


def mark(number: int, arguments: str) -> dict[str, Any]:
    call = {"id": f"c{number}", "type": "function", "function": {"name": "delimiter", "arguments": arguments}}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def test_a_session_is_told_what_an_earlier_one_learned(begin: Callable[..., Any], memory: Any) -> None:
    learned = "The login token is parsed by parse_token in src/auth.py."
    first = begin(memory, "ada", "Find out where the login token is parsed.", budget=2_000)
    assert [message["role"] for message in first.messages] == ["user"]
    first.request()
    first.append(mark(1, '{"action": "start", "name": "look", "type": "expl"}'))
    first.request()
    first.append(mark(2, f'{{"action": "end", "description": "{learned}"}}'))
    first.request()

    second = begin(memory, "ada", "Make the login token expire.", budget=2_000)
    told, task = second.request().messages
    assert told == {"role": "system", "content": f"Learned in earlier sessions:\n- {learned}"}
    assert task == {"role": "user", "content": "Make the login token expire."}
    # What is remembered is one user's.
    other = begin(memory, "ben", "Make the login token expire.", budget=2_000)
    assert [message["role"] for message in other.messages] == ["user"]


def test_what_is_remembered_is_what_was_said_whatever_has_left_the_view(begin: Callable[..., Any], memory: Any) -> None:
    session = begin(memory, "ada", "Explore.", budget="0.15k")
    for number in range(6):
        session.append(mark(2 * number, f'{{"action": "start", "name": "e{number}", "type": "expl"}}'))
        session.request()
        session.append(mark(2 * number + 1, f'{{"action": "end", "description": "lesson {number} of exploring"}}'))
        session.request()
    session.append({"role": "user", "content": "Go on."})
    session.append({"role": "assistant", "content": "Done."})
    shown = str(session.request().messages)
    assert "lesson 0" not in shown
    found = memory.search("lesson 0 of exploring", filters={"user_id": "ada"}, top_k=10)["results"]
    assert {it["memory"] for it in found} == {f"lesson {number} of exploring" for number in range(6)}
