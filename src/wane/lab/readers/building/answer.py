"""The output of one model call, and which of its parts a provider accepts only together (R12)."""

from __future__ import annotations

from collections.abc import Sequence

from wane.core import Kind
from wane.formats.anthropic import SEAL
from wane.formats.base import Couplings, Part
from wane.formats.values import raw_text, sealed_tokens
from wane.lab.readers.building.blocks import Content
from wane.lab.readers.building.values import text


class Answer:
    """The output of one model call, collected block by block; empty text and empty reasoning are left out.

    Attributes:
        parts: its parts.
        signed: positions of reasoning with its provider's signature.
    """

    def __init__(self) -> None:
        self.parts: list[Part] = []
        self.signed: list[int] = []

    def text(self, content: Content) -> None:
        """Append the model's words."""
        if content:
            self.parts.append(content.part(Kind.TEXT))

    def reasoning(self, words: str, seal: object = None, *, signed: bool = False) -> None:
        """Append the model's reasoning.

        Args:
            words: its text.
            seal: the encrypted reasoning; it gives the size of reasoning without text.
            signed: whether the provider knows it again by a signature.
        """
        extra = 0 if words else sealed_tokens(seal, SEAL)
        if words or extra:
            self.signed += [len(self.parts)] * signed
            self.parts.append(Part(Kind.REASONING, words, extra_tokens=extra))

    def call(self, call_id: object, tool: object, arguments: object) -> None:
        """Append a call: its id, the tool's name, and the arguments as text or JSON data."""
        self.parts.append(Part(Kind.CALL, call_id=text(call_id), tool=text(tool), arguments=raw_text(arguments)))

    def extend(self, answer: Answer) -> None:
        """Append the parts of another answer that this one does not hold."""
        for position, part in enumerate(answer.parts):
            if part not in self.parts:
                self.signed += [len(self.parts)] * (position in answer.signed)
                self.parts.append(part)

    def coupled(self) -> list[Part]:
        """Return the parts with signed reasoning coupled, as Anthropic and Google require it.

        Calls need the reasoning before them, and reasoning needs an item after it, because no answer may end in it.
        """
        couplings, parts = Couplings(), self.parts
        texts = [position for position, part in enumerate(parts) if part.kind is Kind.TEXT]
        for signed in self.signed:
            if signed + 1 < len(parts):
                # Text is evicted last.
                couplings.add(signed, next((position for position in texts if position > signed), signed + 1))
        for position, part in enumerate(parts):
            if part.kind is Kind.CALL:
                couplings.add(position, *(signed for signed in self.signed if signed < position))
        return [couplings.apply(position, part) for position, part in enumerate(parts)]


def couple_items(parts: Sequence[Part]) -> list[Part]:
    """Return an answer of OpenAI's Responses, in which reasoning and the item after it need each other."""
    couplings = Couplings()
    for position, part in enumerate(parts[:-1]):
        if part.kind is Kind.REASONING:
            couplings.mutual(position, position + 1)
    return [couplings.apply(position, part) for position, part in enumerate(parts)]
