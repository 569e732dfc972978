"""People see one table of words, in the terminal, on pages and in the guide; rules and JSON keep their names."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from tomllib import loads

import pytest

from tests.cli.conftest import Run, plain_surroundings, run
from wane.cli.command_registry import COMMANDS
from wane.lab.columns import COLUMNS, SWEPT
from wane.lab.tuning import DEPTHS, KNOBS
from wane.pages import KIT, Dress
from wane.rewrites import Cause
from wane.words import CAUSES, GLOSSARY, HEADINGS, LEVELS, PURPOSES, SETTINGS, STRATEGIES, TYPES, explain_term

__all__ = ["plain_surroundings", "run"]  # fixtures

ROOT = Path(__file__).parents[1]
GLOSSARY_PAGE = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")

# Words of the rules, the paper and JSON; the table has those that people see instead.
OF_RULES = re.compile(
    r"(?i)\bcwl\b|\bgrounding\b|\brecall at\b|\bexplorations?\b|\bexplor(?:es|ing)\b"
    r"|\b(?:an|the|unfinished|removed) acts?\b|\bacts before\b"
)
# Values of options and settings are typed as they are.
TYPED = re.compile(r"`[^`\n]*`|```.*?```|--strategy \S+|\bcwl \(Wane's own|<!--.*?-->|CWL", re.DOTALL)

# Close to the paper: they introduce its words, or state its rules.
NEAR_THE_PAPER = {"concepts.md", "glossary.md", "tutorial.md", "index.md"}


def typed_apart(text: str) -> str:
    return TYPED.sub("", text)


def guide() -> list[str]:
    """Return the pages that a person reads in order."""

    def pages(entry: object) -> Iterator[str]:
        if isinstance(entry, str):
            yield entry
        elif isinstance(entry, dict):
            for inner in entry.values():
                yield from pages(inner)
        elif isinstance(entry, list):
            for inner in entry:
                yield from pages(inner)

    nav = loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]["nav"]
    (found,) = [list(pages(entry)) for entry in nav if "Guide" in entry]
    return found


@pytest.mark.parametrize("page", sorted(set(guide()) - NEAR_THE_PAPER))
def test_the_guide_speaks_in_words_that_people_see(page: str) -> None:
    text = typed_apart((ROOT / "docs" / page).read_text(encoding="utf-8"))
    assert [match[0] for match in OF_RULES.finditer(text)] == []


def texts(file: Path) -> Iterator[str]:
    """Yield the strings of a module that may be shown: docstrings of options are help, others are not shown."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    shown = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in shown:
            yield node.value
        if isinstance(node, ast.ClassDef) and node.name.endswith("Options"):
            yield ast.get_docstring(node) or ""


TERMINAL = sorted((ROOT / "src" / "wane" / "cli").rglob("*.py"))


@pytest.mark.parametrize("file", TERMINAL, ids=lambda file: str(file.relative_to(ROOT)))
def test_the_terminal_speaks_in_words_that_people_see(file: Path) -> None:
    ids = {*STRATEGIES, *TYPES, *HEADINGS}
    wrong = [text for text in texts(file) if text not in ids and OF_RULES.search(typed_apart(text))]
    assert wrong == []


def test_pages_speak_in_words_that_people_see() -> None:
    # Between quotes; what has no space is a name for the script.
    for file in sorted((ROOT / "src" / "wane").rglob("page/*.js")):
        for _, text in re.findall(r"([\"`])((?:(?!\1).)*)\1", file.read_text(encoding="utf-8")):
            shown = " " in text and not text.startswith("--")
            assert not (shown and OF_RULES.search(text)), (file.name, text)


def test_every_heading_and_every_name_comes_from_the_table() -> None:
    names = {column.name for column in (*COLUMNS, *SWEPT)}
    assert set(HEADINGS) <= names
    assert {column.name: column.title for column in COLUMNS if column.title != column.name} == dict(HEADINGS)
    script = Dress.of([], KIT).script
    (line,) = [line for line in script.split("\n") if line.startswith("const WORDS = ")]
    assert json.loads(line.removeprefix("const WORDS = ").removesuffix(";")) == {
        "strategies": dict(STRATEGIES),
        "types": dict(TYPES),
        "levels": dict(LEVELS),
        "glossary": dict(GLOSSARY),
    }


def test_every_setting_that_a_tuning_tries_is_explained() -> None:
    tried = {name.replace("_", " ") for name in (*DEPTHS, *KNOBS)}
    assert set(SETTINGS) == tried
    assert all(explain_term(name) for name in (*DEPTHS, *KNOBS))


def test_the_glossary_has_the_same_meanings_and_names() -> None:
    rows = dict(re.findall(r"^\| (.*?) \| (.*) \|$", re.sub(r"\[(.*?)\]\(.*?\)", r"\1", GLOSSARY_PAGE), re.MULTILINE))
    assert {word: rows.get(word) for word in GLOSSARY} == dict(GLOSSARY)
    assert list(GLOSSARY) == sorted(GLOSSARY)
    for table in (STRATEGIES, HEADINGS, TYPES, LEVELS, CAUSES):
        assert {words: rows.get(words) for name, words in table.items() if words != name} == {
            words: f"`{name}`" for name, words in table.items() if words != name
        }


def test_the_first_sentence_of_a_report_has_no_term() -> None:
    terms = [word for word in GLOSSARY if word not in ("call", "cache")]
    pattern = re.compile(rf"(?i)\b(?:{'|'.join(terms)})(?:e?s)?\b")
    assert {name: pattern.findall(text) for name, text in PURPOSES.items()} == {name: [] for name in PURPOSES}
    assert all(text.count(".") == 1 and text.endswith(".") for text in PURPOSES.values())
    assert set(PURPOSES) <= {command.name for command in COMMANDS}


def test_a_word_is_explained_in_the_terminal(run: Run) -> None:
    done = run("words", "budgets")
    assert " ".join(done.out.split()) == f"budgets: {GLOSSARY['budget']}."
    every = run("words").out
    assert all(word in every for word in (*GLOSSARY, *HEADINGS.values(), "cwl", "nothing set aside"))
    done = run("words", "buget")
    assert (done.code, "did you mean budget?" in done.err) == (2, True)


@pytest.mark.parametrize(
    ("term", "said"),
    [
        ("still in view", "still in view: share still in view of the names and paths"),
        ("grounding", "edits with the file in view: share of the edits"),
        ("Cache rewrites", "cache rewrites: share of the requests that did not continue the one before"),
        ("act", "work: a kind of episode; in JSON, settings and options act."),
        ("cwl", "Wane: a strategy; in JSON, settings and options cwl."),
        ("complete", "complete: a level; in JSON, settings and options none."),
        ("ratio", "ratio: that cost relative to never evicting"),
        ("idle", "A pause longer than the cache lives: why a provider's cache broke; in JSON"),
        (
            "a setting changed",
            "A setting changed: why a provider's cache broke; in JSON, settings and options settings.",
        ),
        ("unmarked", "unmarked: said of work outside named pieces of work"),
        ("overflow", "overflow: what a pass does if finished work is not enough"),
        ("prologue", "prologue: the agent's work before its first accepted start."),
    ],
)
def test_headings_and_the_names_of_the_rules_are_explained_too(run: Run, term: str, said: str) -> None:
    done = run("words", term)
    assert done.code == 0, done.err
    assert said in " ".join(done.out.split())


def test_every_cause_of_a_broken_cache_has_words() -> None:
    assert set(CAUSES) == set(Cause)


def test_a_word_with_two_meanings_has_both(run: Run) -> None:
    out = " ".join(run("words", "recall").out.split())
    assert f"recall: {GLOSSARY['recall']}." in out
    assert "still in view: share" in out


def test_plurals_are_explained() -> None:
    assert explain_term("Passes") == GLOSSARY["pass"]
    assert explain_term("views") == GLOSSARY["view"]
    assert explain_term("nonsense") == ""
