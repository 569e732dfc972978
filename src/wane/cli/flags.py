"""Flags that several commands share, by the type of the field that they set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final, Literal, TypeAlias

from wane.core.policy import Overflow, Prologue
from wane.flags import Flag
from wane.lab.names import ReaderName

VERSION: Final = Flag("--version", "Print the version and exit.")
HELP: Final = Flag("-h, --help", "Show this help and exit.")

Json: TypeAlias = Annotated[bool, Flag("--json", "Print JSON instead of tables.")]
Full: TypeAlias = Annotated[bool, Flag("--full", "Show all rows of long tables, and whole texts.")]
Budget: TypeAlias = Annotated[
    str, Flag("--budget", "Tokens that the view may hold: 80k, the default, or 50% of --window.", "TOKENS")
]
Window: TypeAlias = Annotated[
    str, Flag("--window", "The model's window, for a budget in percent. The default is 200k.", "TOKENS")
]
ToolClasses: TypeAlias = Annotated[
    Sequence[str],
    Flag(
        "--tool-class",
        "Class of a tool: bulk leaves first, artifact next, durable stays until its episode leaves. May be repeated.",
        "NAME=CLASS",
    ),
]
FormatName: TypeAlias = Annotated[
    Literal["auto", ReaderName], Flag("--format", "Format of the input; recognised by default.", "FORMAT")
]
WhoMarks: TypeAlias = Annotated[
    Literal["auto", "model", "infer"],
    Flag(
        "--annotate",
        "Who marks episodes: model, infer (from the tool calls), or auto, the default: the model if it marked any.",
        "WHO",
    ),
]
PolicyName: TypeAlias = Annotated[
    Literal["default", "paper"],
    Flag("--policy", "How to evict: default (in batches) or paper (in the smallest steps).", "POLICY"),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyOptions:
    """Settings that override a policy's own, by the names of its fields; None keeps the policy's."""

    low_water: Annotated[
        float | None,
        Flag(
            "--low-water",
            "A pass evicts down to this share of the budget, above 0 to 1. The default is the policy's: 0.5, for paper "
            "1.",
            "SHARE",
        ),
    ] = None
    description_share: Annotated[
        str | None,
        Flag(
            "--description-share",
            "Share of the budget that descriptions of removed explorations may hold, 0 to 1, or none for no limit. The "
            "default is the policy's: 0.2, for paper none.",
            "SHARE",
        ),
    ] = None
    prologue: Annotated[
        Prologue | None,
        Flag(
            "--prologue",
            "Work before the first episode: turns, the default, evicts it like other unannotated work; whole, as in "
            "paper, protects it.",
            "WHAT",
        ),
    ] = None
    overflow: Annotated[
        Overflow | None,
        Flag(
            "--overflow",
            "When no finished work is left to evict: strip, the default, evicts the oldest exchanges of unfinished "
            "work; surface, as in paper, reports that the budget is exceeded.",
            "WHAT",
        ),
    ] = None
