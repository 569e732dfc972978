"""The blocks of a window add up to its totals, and colours can be read on any background."""

from __future__ import annotations

import pytest

from tests.core.test_window import FIX, LOOK, episode
from wane import ContextWindow, Item, Kind
from wane.cli.terminal import layout
from wane.cli.terminal.text import COLOURS, GREY


@pytest.mark.parametrize("reported", [0, 6_789, 12_345])
def test_the_blocks_of_a_view_add_up_to_its_totals_before_and_after_each_step(reported: int) -> None:
    items = [Item(Kind.SYSTEM, 333), Item(Kind.USER, 77)]
    for number in range(3):
        items += episode(f"look-{number}", LOOK) + episode(f"fix-{number}", FIX, [f"look-{number}"])
    items.append(Item(Kind.TEXT, 11))
    window = ContextWindow(budget=1_000_000, overhead=1_234)
    for item in items:
        window.add(item)
    window.fit()
    window.observe(reported)
    preview = ContextWindow.restore(window.export())
    preview.budget = 3_000
    report = preview.fit()
    assert len(report.steps) > 3
    removed = [index for step in report.steps for index in step.removed]
    blocks = layout.view_blocks(items, window.episodes, window, removed, done=False)
    assert sum(block.tokens for block in blocks) == report.tokens_before == window.tokens
    assert sum(block.tokens for block in blocks if block.stays) == report.tokens_after
    freed = dict.fromkeys((step.number for step in report.steps), 0)
    for step in report.steps:
        freed[step.number] += step.tokens_before - step.tokens_after
    held = layout.held_by(blocks)
    assert {number: held[number][0] - held[number][1] for number in freed} == freed


@pytest.mark.parametrize("colour", [*COLOURS.values(), GREY])
def test_a_colour_can_be_read_on_black_and_on_white(colour: str) -> None:
    channels = []
    for at in (1, 3, 5):
        share = int(colour[at : at + 2], 16) / 255
        channels.append(share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4)
    luminance = 0.2126 * channels[0] + 0.7152 * channels[1] + 0.0722 * channels[2]
    # No colour has more than 4.58 on both.
    assert min(1.05 / (luminance + 0.05), (luminance + 0.05) / 0.05) > 3.8
