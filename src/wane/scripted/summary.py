"""The summary that a scripted model writes when it is asked for one: bounded, and good at what counts here.

A summary cannot hold everything. This one holds nothing but the user's tasks, word for word, the newest first, as many
as fit into so many tokens. What it costs and what it loses follows from that figure, and from no language model.
"""

from __future__ import annotations

import re
from typing import Final

from wane.core import Kind
from wane.testing import Reply, Request

SUMMARY_TOKENS: Final = 2_000
"""How long a summary is at most, as long as those of common harnesses."""

_SAID: Final = re.compile(r"^(?:User: )?(Task (\d+)\. .*)$", re.MULTILINE)


def summarise(request: Request) -> Reply:
    """Return the summary of what a request holds."""
    turns: dict[int, str] = {}
    for part in request.parts:
        if part.kind is Kind.USER:
            turns |= {int(number): text for text, number in _SAID.findall(part.text)}
    room, kept = 4 * SUMMARY_TOKENS, list[str]()
    for number in sorted(turns, reverse=True):
        room -= len(turns[number]) + 1
        if room < 0:
            break
        kept.append(turns[number])
    return Reply("\n".join(["What the user has asked for:", *reversed(kept)]))
