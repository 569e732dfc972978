"""The part of a system prompt about the `delimiter` protocol, built from the policy in force so that it is true.

Every request carries it, so it is short: at most 300 tokens in every variant, and 60 more for tasks.
"""

from __future__ import annotations

from typing import Final

from wane.core.policy import Policy

_PROTOCOL: Final = """\
Your context window is limited: finished work leaves it, episode by episode. Mark them with `delimiter`.
- Start one before your first tool call; end it before you answer the user. Each is one question (`expl`) or one \
change (`act`, a few reads included), some 3 to 15 calls.
- Its name says task and object (`login-500-find-cause`): it may be all that is left.
- End an `expl` only after you have read its results. Write a description that replaces them: the answer first, then \
path:line, exact names and values, what you ruled out, what is open. Where one suffices, do not explore anew.
- `dependencies` of an `act`: the `expl` episodes it will use, `[]` if none.
- Name the episode in its end, too. If you see an end without its start, the episode has left the window.
- Call `delimiter` in one message with other tools: an end, the next start, its first call."""

_TASKS: Final = """\
- Episodes with one goal make a task: start it first (type `task`, a name), and end it last, by its name and with a \
description of what came of it, which may be all that is left. Tasks nest. Gave that way up? End it with \
`"abandoned":true`."""

_RECALL: Final = "- To see exactly what has left, `recall` it by its name or by a search."


def guidance(
    policy: Policy | None = None, *, recall: bool = False, leaving: str | None = None, tasks: bool = False
) -> str:
    """Return the part of the system prompt for a model that marks its own work.

    Args:
        policy: what a pass evicts, and how far; `Policy()` if None.
        recall: whether the model has the tool `recall`.
        leaving: how finished work leaves, in words for the model, where no policy decides it.
        tasks: whether it may group episodes in tasks (R17).
    """
    lines = [_PROTOCOL]
    if tasks:
        lines.append(_TASKS)
    lines.append(f"- {leaving or _leaving(policy or Policy())}")
    if recall:
        lines.append(_RECALL)
    return "\n".join(lines)


def _leaving(policy: Policy) -> str:
    """Say how work leaves under a policy (R8, R11, R13, R16)."""
    first = "what went unused longest leaves first"
    if policy.order == "paper":
        first = "finished acts leave first, then the oldest explorations"
    descriptions = "descriptions stay longer"
    if policy.description_share is None:
        descriptions = "descriptions stay"
    elif not policy.description_share:
        descriptions = "descriptions leave too"
    after = "If that is not enough, open episodes are cut" if policy.overflow == "strip" else "Open episodes stay whole"
    return (
        f"When the window is full, {first}; {descriptions}. {after}. "
        "User messages never leave; what your acts did is in the environment."
    )
