"""What the frameworks in `comparison.py` have in common: a way to keep context, and the settings of all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

INSTRUCTIONS = "Do what the user asks for."
SHARE = 0.8  # share of the budget at which what has a threshold begins its work
MOST = 1_000  # model calls of a turn that a framework must allow; the model itself ends a task that takes too many

Tools: TypeAlias = list[Callable[..., str]]
Turn: TypeAlias = Callable[[str], object]
Begin: TypeAlias = Callable[[str, Tools, int], Turn]


class Ended(Exception):  # noqa: N818 - it is no error of ours
    """The framework has ended the session: it takes no more turns."""


@dataclass(frozen=True)
class Contender:
    """A way to keep a framework's context."""

    framework: str
    way: str  # what keeps its context
    begin: Begin  # given the provider's URL, tools and budget, returns what does a turn
