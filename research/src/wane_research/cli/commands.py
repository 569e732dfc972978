"""All commands of this distribution, which `wane` loads by the names of the constants here."""

from __future__ import annotations

from typing import Final

from wane_research.cli.eval.commands import EVAL, EVAL_COMMANDS
from wane_research.cli.lab.commands import LAB, LAB_COMMANDS

COMMANDS: Final = (*LAB_COMMANDS, *EVAL_COMMANDS)  # all of them, in the order of help
GROUPS: Final = {"lab": LAB, "eval": EVAL}  # help texts of the groups, by the first word of their commands
