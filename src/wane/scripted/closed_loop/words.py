"""The words that repository and tasks are made of."""

from __future__ import annotations

from typing import Final


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


AREAS: Final = _words(
    "harbor kiln orchard foundry tannery quarry granary bindery dairy forge loom mint press smithy vineyard wharf"
)
"""Names of sub-packages."""

MODULES: Final = _words("arrivals balance carriers dispatch estimates fixtures gauges handling intake journal")
"""Names of modules."""

VERBS: Final = _words("adjust blend clamp derive extend fold gather hedge inspect join level merge order pool")
"""First words of functions that are there at the beginning."""

NOUNS: Final = _words("batch crate drum entry freight grade haul index job keg load margin notice order")
"""Second words of functions that are there at the beginning."""

TOPICS: Final = _words(
    "freight salt timber wool copper barley glass hides lamp ink rope tar wax pepper tin cider marble linen sugar slate"
    " honey canvas indigo saffron amber cork flint hemp jute lime"
)
"""What the user decides a surcharge for."""

FIRST: Final = _words(
    "berth quay ledger tally ballast tare stack crane hoist anchor beam cellar draft fender gantry hatch"
)
"""First words of functions that tasks add."""

SECOND: Final = _words("spread count due levy reserve outlay toll yield surplus advance")
"""Second words of functions that tasks add."""

SAYINGS: Final = (
    "Values come in the smallest unit, and go out in the same.",
    "A negative value stands for a return, and is treated as any other.",
    "The factor was agreed on with those who weigh, and is reviewed once a year.",
    "Callers that need another rounding do it themselves, as this one is what the books show.",
    "The result stays below the modulus, which is that of the paper forms in use.",
    "Nothing is kept between calls, so that two shifts may count at the same time.",
    "Where the scales are read twice, the later reading counts, and the earlier one is not told.",
    "What is asked for here is answered from the figures of the day, never from those of the month.",
)
"""Sentences for the comments."""
