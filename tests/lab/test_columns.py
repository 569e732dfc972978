"""Each column has one heading, in the terminal, on pages and in the docs, and one key in JSON."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.lab.test_report import Page, page, tale_comparison  # noqa: F401 - fixtures
from wane.cli.lab.replay import REPLAYED, SWEPT_COLUMNS
from wane.lab.columns import COLUMNS, SWEPT, Column
from wane.lab.replaying.replay_figures import Totals

DOCS = Path(__file__).parents[2] / "docs" / "lab"
EVERY = (*COLUMNS, *SWEPT)


def documented_columns() -> list[tuple[str, str]]:
    """Names and keys in the table of columns."""
    text = (DOCS / "replay.md").read_text(encoding="utf-8")
    table = text[text.index("| column | JSON |") :].split("\n\n", 1)[0]
    return re.findall(r"^\| ([^|`]+?) \| `(\w+)`", table, re.MULTILINE)


def test_the_docs_explain_every_column_by_its_heading() -> None:
    assert sorted(documented_columns()) == sorted((column.title, column.key) for column in EVERY)


def test_json_has_every_column_by_its_key() -> None:
    data = Totals().to_dict(Totals())
    assert {column.key for column in COLUMNS} <= data.keys()


def test_a_key_is_the_name_with_its_unit() -> None:
    assert Column("own time", "ms", "").key == "own_time_ms"
    assert Column("fetches/100", "decimal", "").key == "fetches_per_100"
    assert len({column.name for column in EVERY}) == len({column.key for column in EVERY}) == len(EVERY)


@pytest.mark.parametrize("shown", [REPLAYED, SWEPT_COLUMNS], ids=["replay", "sweep"])
def test_the_terminal_takes_its_columns_from_the_same_list(shown: list[Column]) -> None:
    assert set(shown) <= set(EVERY)


def test_pages_take_their_columns_from_the_same_list(page: Page) -> None:  # noqa: F811
    assert [(it["name"], it["key"]) for it in page.data["columns"]] == [(it.name, it.key) for it in COLUMNS]
    for row in page.data["strategies"]:
        assert list(row["values"]) == [column.key for column in COLUMNS]


def test_scripts_of_pages_know_only_these_keys() -> None:
    scripts = Path(__file__).parents[2] / "src" / "wane" / "lab" / "report" / "page"
    keys = {column.key for column in EVERY}
    for name in ("table.js", "sweep.js"):
        assert set(re.findall(r"values\.(\w+)", (scripts / name).read_text(encoding="utf-8"))) <= keys
