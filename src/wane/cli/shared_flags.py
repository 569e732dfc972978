"""Flags that several commands share, by the type of the field that they set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any, Final, Literal, TypeAlias

from wane.cli import flag_values
from wane.core import Policy
from wane.core.policy import Overflow, Prologue
from wane.flags import Flag, read_by

VERSION: Final = Flag("--version", "Print the version and exit.")
HELP: Final = Flag("-h, --help", "Show this help and exit.")

DEFAULT_WINDOW: Final = 200_000
"""Window of which a budget in percent is a share, if none is given."""

PRICE: Final = "anthropic:claude-sonnet-4-5"
"""The model whose prices apply if a session recorded none with known prices."""

Json: TypeAlias = Annotated[bool, Flag("--json", "Print JSON instead of tables.")]
Full: TypeAlias = Annotated[bool, Flag("--full", "Show all rows of long tables, and texts in full.")]
Budget: TypeAlias = Annotated[
    str,
    Flag(
        "--budget",
        "Tokens that the view may hold: 80k, the default; 50% of --window; or auto, which goes by what never leaves "
        "and by the window.",
        "TOKENS",
    ),
]
Window: TypeAlias = Annotated[
    int | None,
    Flag(
        "--window",
        "The model's window, beyond which no view grows, and of which a budget in percent is a share. The default is "
        "that of the price list; for a budget in percent, 200k.",
        "TOKENS",
        read=flag_values.window,
    ),
]
ToolClasses: TypeAlias = Annotated[
    Sequence[tuple[str, str]],
    Flag(
        "--tool-class",
        "Class of a tool: its content is evicted first (bulk), next (artifact), or only with its episode (durable), or "
        "is what a person said, and stays (person). May be repeated.",
        "NAME=CLASS",
        read=flag_values.tool_class,
    ),
]
FormatName: TypeAlias = Annotated[
    str,
    Flag(
        "--format",
        "Format of the input; list names all. The default is auto: Wane recognises it.",
        "FORMAT",
        read=read_by("wane.lab.readers.reading:check_format"),
    ),
]
MaxUnpacked: TypeAlias = Annotated[
    int,
    Flag(
        "--max-unpacked",
        "Refuse a compressed file that holds more than this many bytes. The default is 2g.",
        "SIZE",
        read=flag_values.size,
    ),
]
WhoMarks: TypeAlias = Annotated[
    Literal["auto", "model", "infer"],
    Flag(
        "--annotate",
        "Who marks episodes: model (the agent itself), infer (Wane, from the tool calls), or auto (the default: the "
        "program around the agent, or else the agent, or else Wane).",
        "WHO",
    ),
]
StoreName: TypeAlias = Annotated[
    str | None,
    Flag(
        "--store",
        "Where the sessions are, as for wane proxy: a directory, redis://… or postgresql://…. The default is "
        "WANE_PROXY_STORE or, if that is not set, Wane's own directory of sessions.",
        "WHERE",
    ),
]
PolicyName: TypeAlias = Annotated[
    Literal["default", "paper"],
    Flag("--policy", "How to evict: default (in batches) or paper (in the smallest steps).", "POLICY"),
]

IndexShare: TypeAlias = Annotated[
    float | None,
    Flag(
        "--index-share",
        "Share of the budget that the index of evicted content may hold, from 0 (no index) to 1. The default is "
        "the policy's: 0.02, or 0 for paper.",
        "SHARE",
        read=flag_values.share_from_zero,
    ),
]

MinRoom: TypeAlias = Annotated[
    float | None,
    Flag(
        "--min-room",
        "Share of the budget that is left for the work: where what is never evicted leaves less, a larger one is "
        "used, never beyond the window. 0 for a strict budget. The default is the policy's: 0.6, or 0 for "
        "paper.",
        "SHARE",
        read=flag_values.share_from_zero,
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyOptions:
    """Settings that override a policy's own, by the names of its fields; None keeps the policy's."""

    low_water: Annotated[
        float | None,
        Flag(
            "--low-water",
            "Share of the budget that a pass evicts down to: above 0, at most 1. The default is the policy's: 0.3, or "
            "1 for paper.",
            "SHARE",
            read=flag_values.share,
        ),
    ] = None
    description_share: Annotated[
        flag_values.ShareOrNone | None,
        Flag(
            "--description-share",
            "Share of the budget that descriptions of removed episodes may hold, from 0 to 1, or none for no "
            "limit. The default is the policy's: 0.2, or none for paper.",
            "SHARE",
            read=flag_values.share_limit,
        ),
    ] = None
    index_share: IndexShare = None
    min_room: MinRoom = None
    prologue: Annotated[
        Prologue | None,
        Flag(
            "--prologue",
            "What to do with work before the first episode: turns evicts it like other unmarked work, whole protects "
            "it. The default is the policy's: turns, or whole for paper.",
            "WHAT",
        ),
    ] = None
    overflow: Annotated[
        Overflow | None,
        Flag(
            "--overflow",
            "What to do when no finished work is left to evict: strip evicts the oldest exchanges of unfinished work, "
            "surface reports that the budget is exceeded. The default is the policy's: strip, or surface for paper.",
            "WHAT",
        ),
    ] = None

    def applied_to(self, name: str) -> Policy:
        """Return the policy `default` or `paper` with these settings."""
        changes: dict[str, Any] = {key: value for key, value in asdict(self).items() if value is not None}
        if self.description_share == flag_values.NO_SHARE:
            changes["description_share"] = None
        return replace(Policy.paper() if name == "paper" else Policy(), **changes)
