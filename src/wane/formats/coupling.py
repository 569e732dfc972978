"""What must stay together in an answer (R12): one rule for all formats, over what each says of its parts.

A format states the facts of each part as a `Tie`: how a server recognises it, which parts are pieces of one thing, what
text may cite. `couple` turns them into needs:

- A call needs all reasoning before it. DeepSeek and Kimi demand it as text, Anthropic and OpenAI know it by a
  signature. Some clients of Chat Completions, which has no order, keep reasoning behind the calls (`unordered`).
- A text needs all reasoning before it that is text itself, or may be demanded as text (`demanded`): DeepSeek V4
  demands that of each answer of a turn with calls, the last one included, which has none.
- A call without a signature needs the signed call before it, by which Gemini takes both.
- Signed reasoning needs a part behind it, because no answer may end in it: the next text, since texts are evicted last,
  or else the next part. OpenAI demands the very next one (`PLACED`), and may refuse it without its reasoning (`NAMED`).
- Parts with a common bond need each other: a call that the provider ran and its result, a program and its calls.
- Text with citations needs the results of the provider's tools that it may cite.
- A mark between two runs of reasoning, which the provider would refuse as one, stays as long as any of them.

`docs/servers.md` says which server demands what, with sources.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import Enum
from typing import Final

from wane.core import Kind
from wane.core.light import light_dataclass
from wane.formats.message_format import Located, LocationT, Part


class Seal(Enum):
    """How a server recognises what a model wrote before."""

    NONE = "none"
    """By nothing: reasoning that is plain text, or any other part."""
    SIGNED = "signed"
    """By a signature. Reasoning must then not be the last part of its answer."""
    PLACED = "placed"
    """By a signature and by the part right behind it, without which it is refused."""
    NAMED = "named"
    """By its id: also the part right behind it is refused without it."""


@light_dataclass(frozen=True, slots=True)
class Tie:
    """What ties a part of an answer to others.

    Attributes:
        seal: how a server recognises it, if it is reasoning or a call.
        bonds: names of things that it is a piece of; parts with a common name need each other.
        served: whether it is a call that the provider ran, or its result.
        cites: whether it may cite results of the provider's tools.
        divides: whether it separates two runs of reasoning.
        demanded: whether it is signed reasoning that a server may demand beside a text, as if it were text itself.
        free: whether it is reasoning without a seal that no server of its API demands.
        unordered: whether it is reasoning that belongs to calls before it, too, if they have no other.
    """

    seal: Seal = Seal.NONE
    bonds: tuple[str, ...] = ()
    served: bool = False
    cites: bool = False
    divides: bool = False
    demanded: bool = False
    free: bool = False
    unordered: bool = False


UNTIED: Final = Tie()
SIGNED: Final = Tie(Seal.SIGNED)
PLACED: Final = Tie(Seal.PLACED)
NAMED: Final = Tie(Seal.NAMED)


def couple(located: Sequence[Located[LocationT]], ties: Sequence[Tie]) -> list[Located[LocationT]]:
    """Return the parts of an answer, each with its location, with what each of them needs (R12).

    Args:
        located: the parts, each with its location.
        ties: the tie of each part.
    """
    if len(located) < 2:
        return list(located)
    parts = [part for _, part in located]
    coupled = couple_parts(parts, ties)
    return [(location, part) for (location, _), part in zip(located, coupled, strict=True)]


def couple_parts(parts: Sequence[Part], ties: Sequence[Tie]) -> list[Part]:
    """Return the parts of an answer with what each of them needs (R12).

    Args:
        parts: the parts.
        ties: the tie of each part.
    """
    if all(tie is UNTIED for tie in ties) and not any(part.kind is Kind.REASONING for part in parts):
        return list(parts)  # most answers
    needs: list[set[int]] = [set() for _ in parts]
    reasoning = [n for n, part in enumerate(parts) if part.kind is Kind.REASONING and not ties[n].free]
    plain = [n for n in reasoning if ties[n].seal is Seal.NONE or ties[n].demanded]
    marks = [n for n, tie in enumerate(ties) if tie.divides]
    hubs: dict[str, int] = {}
    served: list[int] = []
    signed_call: int | None = None
    for position, (part, tie) in enumerate(zip(parts, ties, strict=True)):
        for bond in tie.bonds:
            hub = hubs.setdefault(bond, position)
            if hub != position:
                needs[position].add(hub)
                needs[hub].add(position)
        if part.kind is Kind.CALL:
            before = [n for n in reasoning if n < position]
            needs[position].update(before or [n for n in reasoning if ties[n].unordered][:1])
            if tie.seal is not Seal.NONE:
                signed_call = position
            elif signed_call is not None:
                needs[position].add(signed_call)
        elif part.kind is Kind.TEXT:
            needs[position].update([n for n in plain if n < position] or [n for n in plain if ties[n].unordered][:1])
        elif part.kind is Kind.REASONING:
            needs[position].update(_companions(parts, ties, position, marks))
        if tie.cites:
            needs[position].update(served)
        if tie.divides:
            needs[position].update(_anchor(parts, position, marks) or [position - 1] * (position > 0))
        if tie.served:
            served.append(position)
        if position and ties[position - 1].seal is Seal.NAMED:
            needs[position].add(position - 1)
    return [_with_needs(part, position, needs[position]) for position, part in enumerate(parts)]


def _companions(parts: Sequence[Part], ties: Sequence[Tie], position: int, marks: Sequence[int]) -> list[int]:
    """Return the parts without which a server refuses reasoning."""
    seal = ties[position].seal
    if seal is Seal.NONE:
        return []
    if seal is Seal.SIGNED:
        return [*_anchor(parts, position, marks), *marks]
    return [position + 1] if position + 1 < len(parts) else []


def _anchor(parts: Sequence[Part], position: int, excluded: Collection[int]) -> list[int]:
    """Return the position of the part that keeps reasoning from being the last, as a list; empty if there is none."""
    later = [n for n in range(position + 1, len(parts)) if n not in excluded]
    return [n for n in later if parts[n].kind is Kind.TEXT][:1] or later[:1]


def _with_needs(part: Part, position: int, needed: set[int]) -> Part:
    if not needed:
        return part
    needs = tuple(sorted([need - position for need in needed]))
    # Spelled out: `replace` takes three times as long, and histories are taken apart on every request.
    return Part(
        part.kind,
        part.text,
        part.call_id,
        part.tool,
        part.arguments,
        needs,
        part.extra_tokens,
        part.system,
        part.person,
        part.loads,
        part.withdraws,
    )
