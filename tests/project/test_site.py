"""The site of the documentation: its pages are gathered, each is in the navigation, and a built one is checked."""

from __future__ import annotations

from pathlib import Path

import pytest
from scripts import site_check, site_pages

ROOT = Path(__file__).parents[2]


def test_the_navigation_leads_to_each_page_and_nowhere_else() -> None:
    assert site_pages.problems(ROOT) == []


def test_the_guide_can_be_read_in_an_afternoon() -> None:
    # What people read in order. What they look up (commands, reference) and the project's own pages are apart.
    assert sum(site_pages.guide_words(ROOT).values()) <= 25_000


def test_a_page_that_the_navigation_lacks_is_told(tmp_path: Path) -> None:
    (tmp_path / "docs" / "lab").mkdir(parents=True)
    (tmp_path / "docs" / "lab" / "new.md").write_text("# New")
    nav = ", ".join(f'"{page}"' for page in [*site_pages.FROM_ROOT.values(), "gone.md"])
    (tmp_path / "zensical.toml").write_text(f'[project]\nnav = [{{"A" = [{{"B" = "index.md"}}, {nav}]}}]')
    assert site_pages.problems(tmp_path) == [
        "zensical.toml: docs/lab/new.md is not in the navigation",
        "zensical.toml: the navigation leads to gone.md, which does not exist",
    ]


@pytest.mark.parametrize(
    ("page", "text", "moved"),
    [
        ("README.md", "[a](docs/lab/README.md#x)", "[a](lab/README.md#x)"),
        ("README.md", "![a picture](docs/images/a.svg)", "![a picture](images/a.svg)"),
        ("README.md", "[a](CHANGELOG.md) and [b](#b)", "[a](project/changelog.md) and [b](#b)"),
        ("CHANGELOG.md", "[a](docs/journal.md)", "[a](../journal.md)"),
        ("benchmarks/README.md", "[a](../README.md#speed)", "[a](../index.md#speed)"),
        (
            "docs/lab/a.md",
            "[a](../images/a.svg) [b](b.md) [c](../../README.md)",
            "[a](../images/a.svg) [b](b.md) [c](../index.md)",
        ),
        ("docs/demo.md", "[`wane/scripted`](../src/wane/scripted) has it", "`wane/scripted` has it"),
        ("docs/demo.md", "[a](https://example.org/x.md)", "[a](https://example.org/x.md)"),
        ("docs/a.md", "| `/cwl [on\\|off]` | a \\| b |", "| `/cwl [on|off]` | a \\| b |"),
        ("docs/agent.md", "[why](decisions/agents.md)", "why"),
        ("README.md", "```\n[a](docs/a.md)\n```\n[a](docs/a.md)", "```\n[a](docs/a.md)\n```\n[a](a.md)"),
    ],
)
def test_links_lead_where_they_should_from_a_pages_new_place(page: str, text: str, moved: str) -> None:
    target = site_pages.place(ROOT / page, ROOT)
    assert target is not None
    assert site_pages.adapt_links(text, ROOT / page, target, ROOT) == moved


def test_all_pages_are_gathered(tmp_path: Path) -> None:
    (tmp_path / "site" / "old").mkdir(parents=True)
    site_pages.gather(tmp_path / "site", ROOT)
    found = {page.relative_to(tmp_path / "site").as_posix() for page in (tmp_path / "site").rglob("*.md")}
    assert {"index.md", "project/changelog.md", "lab/README.md"} <= found
    assert (tmp_path / "site" / "images" / "demo.svg").exists()
    assert not (tmp_path / "site" / "old").exists()
    assert not (tmp_path / "site" / "decisions").exists()
    assert (tmp_path / "site" / "project" / "changelog.md").read_text().startswith(site_pages.UNSEARCHED)


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ('<a href="b.html#x">b</a> <a href="#y" id="y">y</a> <a href="https://example.org">e</a>', None),
        ('<a href="c.html">c</a>', "a.html: the link c.html leads nowhere"),
        ('<a href="b.html#z">b</a>', "a.html: the link b.html#z leads nowhere"),
        ('<a href="#z">b</a>', "a.html: the link #z leads nowhere"),
        ('<img src="a.svg">', "a.html: the link a.svg leads nowhere"),
        ('<script src="https://example.org/a.js"></script>', "a.html: loads https://example.org/a.js"),
        ('<link rel="stylesheet" href="//example.org/a.css">', "a.html: loads //example.org/a.css"),
    ],
)
def test_what_is_found_in_a_site(tmp_path: Path, body: str, problem: str | None) -> None:
    (tmp_path / "a.html").write_text(body)
    (tmp_path / "b.html").write_text('<h1 id="x">B</h1>')
    assert list(site_check.problems(tmp_path)) == ([] if problem is None else [problem])
    assert site_check.main([str(tmp_path)]) == (0 if problem is None else 1)


def test_the_words_of_the_guide_are_counted(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("# One two\n\n| three | four |")
    (tmp_path / "docs" / "b.md").write_text("not counted")
    (tmp_path / "README.md").write_text("One.")
    (tmp_path / "zensical.toml").write_text(
        '[project]\nnav = [{"Guide" = ["index.md", {"A" = "a.md"}]}, {"B" = "b.md"}]'
    )
    # As `wc -w` counts: the signs of Markdown are words too.
    assert site_pages.guide_words(tmp_path) == {"a.md": 8, "index.md": 1}
