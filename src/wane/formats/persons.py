"""Words of a person that come as a tool's result (R21): by the tool that asked, and by what clients write around them.

What no mark tells is the tool's. A host names tools of its own with the class `person`, and a framework's format sets
`Part.person` where the framework itself says so.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Rejection(NamedTuple):
    """What a client writes around what a person says of a call: a reason for refusing it, or another plan.

    Attributes:
        mark: how the result begins, or what stands in it.
        source: where it was seen.
        inside: whether it may stand anywhere in the result.
    """

    mark: str
    source: str
    inside: bool = False


REJECTIONS: Final = (
    Rejection("To tell you how to proceed, the user said:", "the program of Claude Code 2.1.332", inside=True),
    Rejection("was NOT written to the file). The user said:", "the same, of a sub-agent's calls", inside=True),
    Rejection(
        "The user rejected permission to use this specific tool call with the following feedback: ",
        "the program of OpenCode 1.18.33",
        inside=True,
    ),
    Rejection("## Approved Plan (edited by user):", "a plan that a person changed, the same", inside=True),
    Rejection("The user rejected this tool call. User feedback: ", "the program of Copilot CLI 1.0.102"),
    Rejection(". The user provided the following feedback: ", "the same, of plans", inside=True),
    Rejection("User rejected the plan. Feedback:", "the program of Kimi Code 2.1.0", inside=True),
    Rejection("Plan rejected. User feedback:", "the program of Gemini CLI 0.61.0"),
    Rejection("The user denied this operation and provided the following feedback:", "the source of Cline 3"),
    Rejection("User rejected the tool call for `", "the source of LangChain 1.5.2, `human_in_the_loop.py`"),
    Rejection(" was rejected by the user. With user feedback: ", "the source of Haystack 3.4.1", inside=True),
    Rejection(": the user refused it and says: ", "Wane's chat", inside=True),
)
"""Rejections and approvals with a person's words, by client."""

_INSIDE: Final = tuple(row.mark for row in REJECTIONS if row.inside)
_BEGINNINGS: Final = tuple(row.mark for row in REJECTIONS if not row.inside)


def is_persons_result(text: str) -> bool:
    """Return whether a tool's result holds what a person said when refusing or approving the call."""
    # Marks are looked for one by one: a pattern of all of them takes ten times as long, and results may be large.
    if text.lstrip().removeprefix("Error: ").startswith(_BEGINNINGS):
        return True
    return any(map(text.__contains__, _INSIDE))
