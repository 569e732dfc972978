"""A colour means one thing on a page, in the light and in the dark."""

from __future__ import annotations

import re
from collections import defaultdict
from importlib.resources import files
from importlib.resources.abc import Traversable

import pytest

LOOK = files("wane.pages") / "look.css"
REPORT = files("wane.lab.report") / "page" / "report.css"
LIVE = files("wane.proxy.server") / "page" / "page.css"

THEMES = {"light": r":root \{(.*?)\n\}", "dark": r':root\[data-theme="dark"\] \{(.*?)\}'}
MEANINGS = {
    "report": (REPORT, ("wane", "recorded", "reading", "work", "task", "outside", "ink")),
    "live": (LIVE, ("wane", "history-line", "live", "notice", "reading", "work", "task", "outside", "other", "ink")),
}
"""What stands side by side in the charts of a page; a person's messages have the ink."""


def colours(css: str, theme: str) -> dict[str, str]:
    """Return the colours that a style sheet defines for a theme, by name."""
    blocks = re.findall(THEMES[theme], css, re.DOTALL) + re.findall(r"^:root \{(.*)\}$", css, re.MULTILINE)[:1]
    return dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", blocks[0])) if blocks else {}


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("page", MEANINGS)
def test_no_two_meanings_share_a_colour(page: str, theme: str) -> None:
    sheet, meanings = MEANINGS[page]
    values = colours(LOOK.read_text(), theme) | colours(sheet.read_text(), theme)
    meant = defaultdict(set)
    for name in meanings:
        meant[values[name]].add(name)
    assert all(len(names) == 1 for names in meant.values()), dict(meant)


@pytest.mark.parametrize("sheet", [REPORT, LIVE], ids=["report", "live"])
def test_a_page_defines_no_colour_of_the_common_look_again(sheet: Traversable) -> None:
    own = set(re.findall(r"--([a-z-]+): ", sheet.read_text()))
    common = set(re.findall(r"--([a-z-]+): ", LOOK.read_text()))
    assert not own & common


def test_an_items_state_is_a_shape_and_no_colour() -> None:
    rules = re.findall(r"^\.st-[a-z]+ \.mark \{(.*)\}$", REPORT.read_text(), re.MULTILINE)
    assert len(rules) == 4
    allowed = {"piece", "outside", "ink", "surface"}
    for rule in rules:
        assert set(re.findall(r"var\(--([a-z-]+)", rule)) <= allowed, rule
