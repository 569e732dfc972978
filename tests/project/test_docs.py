"""The checks of the pages that people read, and the pages themselves."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from scripts import check_docs, help_doc, notices_doc, pictures

import wane
from wane.cli.command_registry import find_commands

ROOT = Path(__file__).parents[2]


def test_a_help_page_that_is_out_of_date_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "cli.md"
    assert help_doc.main(["--check", str(page)]) == 1
    assert help_doc.main([str(page)]) == 0
    assert help_doc.main(["--check", str(page)]) == 0
    page.write_text(page.read_text() + "\n")
    assert help_doc.main(["--check", str(page)]) == 1
    assert "make docs" in capsys.readouterr().err


def test_each_command_has_a_page_and_a_page_without_a_command_goes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page, old = tmp_path / "cli.md", tmp_path / "commands" / "old.md"
    help_doc.main([str(page)])
    made = {path.stem for path in old.parent.iterdir()}
    assert made == {command.name.partition(" ")[0] for command in find_commands().commands}
    old.write_text("# wane old")
    assert help_doc.main(["--check", str(page)]) == 1
    assert "old.md is of no command" in capsys.readouterr().err
    help_doc.main([str(page)])
    assert not old.exists()
    (old.parent / "run.md").unlink()
    assert help_doc.main(["--check", str(page)]) == 1


def test_the_tables_of_notices_are_up_to_date(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = ROOT / "docs" / "notices.md"
    assert notices_doc.main(["--check", str(kept)]) == 0
    page = tmp_path / "notices.md"
    page.write_text(kept.read_text().replace("| the body of a skill |", "| a skill |"))
    assert notices_doc.main(["--check", str(page)]) == 1
    assert "make docs" in capsys.readouterr().err
    assert notices_doc.main([str(page)]) == 0
    assert page.read_text() == kept.read_text()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[a](b.md)", "1: the link b.md leads to no file"),
        ("# One, two\n[a](#one-two) [b](#three)", "2: the link #three leads to no heading"),
        ("[a](README.md#no)", "1: the link README.md#no leads to no heading"),
        ("[a](https://example.org/x) [b](mailto:a@example.org)", None),
        ("`[a](b.md)`", None),
        ("```\n[a](b.md)\n```", None),
        ("```python\nx = \n```", "2: the Python does not compile"),
        ("text\n\n```py\nawait thing()\n```", None),
        ("```text\nx = \n```", None),
        ("```python\nfrom wane import plan, Policy\n```", None),
        ("```python\nfrom wane import plans\n```", "1: wane has no plans"),
        ("```python\nfrom wane.integrations.google_adk import ContextLifecycle\n```", None),
        ("```python\nfrom wane.integrations.google_adk import x\n```", "1: wane.integrations.google_adk has no x"),
        ("```python\nfrom wane.nothing import x\n```", "1: wane.nothing cannot be imported"),
        ("```python\nx = 1", "1: this block of code is not closed"),
        ("1. one\n\n   ```python\n   x = 1\n   ```", None),
    ],
)
def test_what_is_found_on_a_page(tmp_path: Path, text: str, problem: str | None) -> None:
    page = tmp_path / "README.md"
    page.write_text(text)
    found = check_docs.problems(tmp_path)
    if problem is None:
        assert found == []
    else:
        assert len(found) == 1
        assert f"{page}:{problem}" in found[0]


def test_pages_in_docs_are_checked_too(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("[up](../README.md) [beside](b.md)")
    (tmp_path / "README.md").write_text("[down](docs/a.md)")
    assert [problem.rpartition("/")[2] for problem in check_docs.problems(tmp_path)] == [
        "a.md:1: the link b.md leads to no file"
    ]
    assert check_docs.main([str(tmp_path)]) == 1


def test_the_pictures_are_up_to_date(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert pictures.main(["--check", str(ROOT / "docs" / "images")]) == 0
    assert pictures.main(["--check", str(tmp_path)]) == 1
    assert "make docs" in capsys.readouterr().err
    assert pictures.main([str(tmp_path)]) == 0
    assert pictures.main(["--check", str(tmp_path)]) == 0


@pytest.mark.parametrize(
    ("page", "kind"),
    [("conversation.md", wane.Conversation), ("window.md", wane.ContextWindow)],
    ids=["conversation", "window"],
)
def test_the_reference_groups_each_member_once_ten_first(page: str, kind: type) -> None:
    text = (ROOT / "docs" / "reference" / page).read_text(encoding="utf-8")
    first = re.findall(r"^        - (\w+)$", text, re.MULTILINE)
    others = re.findall(rf"^::: wane\.{kind.__name__}\.(\w+)$", text, re.MULTILINE)
    assert len(first) == 10
    assert sorted([*first, *others]) == [name for name in dir(kind) if not name.startswith("_")]


FIRST = {
    "Bedrock": "docs/proxy/your-provider.md#amazon-bedrock",
    "Azure": "docs/proxy/your-provider.md#azure-openai",
    "Ollama, vLLM": "docs/proxy/your-provider.md#ollama-lm-studio-llamacpp-vllm-litellm",
    "OpenRouter": "docs/proxy/your-provider.md#openrouter",
    "a budget": "docs/budget.md",
    "switching it off": "docs/questions.md#can-i-switch-it-off-for-a-while",
    "what is stored": "docs/stored.md",
    "deleting it": "docs/stored.md#delete-a-session-or-all-of-them",
    "what it costs": "docs/questions.md#what-does-it-cost",
}


@pytest.mark.parametrize("question", FIRST)
def test_what_is_asked_first_is_one_page_away_from_the_readme(question: str) -> None:
    assert f"]({FIRST[question]})" in (ROOT / "README.md").read_text(encoding="utf-8")
