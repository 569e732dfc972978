"""The content of the current view, updated by the changes since the last one."""

from __future__ import annotations

from collections.abc import Sequence

from wane.lab.cache.lineage import common_prefix
from wane.lab.loss.index import NONE, Index
from wane.strategies.base import Slot, Substitute


class ViewContents:
    """The current view of one run.

    A view usually begins like the previous one, except where a strategy acted. So the shared beginning is compared as a
    whole, and only the rest slot by slot.

    Attributes:
        unchanged: by item, 1 if the view holds it unchanged, else 0.
        in_texts: identifiers in the texts of substitutes.
        summaries: summaries whose text is unknown.
        lost_users: user turns that were missing or changed in this view or an earlier one.
        broken: calls whose pair is broken: the view holds them or their result alone.
    """

    def __init__(self, index: Index) -> None:
        self._index = index
        self._view: list[Slot] = []
        self._before = 0
        self._standing: set[int] = set()
        self._holds: dict[str, frozenset[int]] = {}
        self._is_user = bytearray(len(index.partner))
        for user in index.users:
            self._is_user[user] = 1
        self.unchanged = bytearray(len(index.partner))
        self.in_texts: set[int] = set()
        self.summaries: list[Substitute] = []
        self.lost_users: set[int] = set()
        self.broken: set[int] = set()

    def show(self, view: Sequence[Slot], before: int, same: int = 0) -> None:
        """Take the view of the next model call.

        Args:
            view: its slots.
            before: number of items before the call.
            same: leading slots that are known to be those of the last view.
        """
        same = common_prefix(self._view, view, same)
        removed, removed_texts = _split(self._view[same:])
        entered, entered_texts = _split(view[same:])
        self._view[same:] = view[same:]
        changed = removed ^ entered
        for item in removed - entered:
            self.unchanged[item] = 0
        for item in entered - removed:
            self.unchanged[item] = 1
        if removed_texts != entered_texts:
            changed |= self._take_substitutes([slot for slot in self._view if isinstance(slot, Substitute)])
        changed.update(range(self._before, before))
        self._before = before
        self._check(changed)

    def _take_substitutes(self, substitutes: list[Substitute]) -> set[int]:
        """Note the texts in the view, and return the items whose substitutes came or went."""
        texts = {slot.text for slot in substitutes}
        standing = {slot.index for slot in substitutes if slot.index is not None}
        changed = standing ^ self._standing
        self._standing = standing
        # Texts that are gone are dropped: shortened results can be many and long.
        cached = self._holds
        self._holds = {text: cached[text] if text in cached else self._index.holds(text) for text in texts}
        self.in_texts = set().union(*self._holds.values())
        self.summaries = [slot for slot in substitutes if not slot.text and slot.tokens and slot.index is None]
        return changed

    def _check(self, changed: set[int]) -> None:
        """Check the pairs and user turns among items that changed or are new."""
        partners, unchanged, standing = self._index.partner, self.unchanged, self._standing
        for item in changed:
            partner = partners[item]
            if partner != NONE:
                alone = (unchanged[item] or item in standing) != (unchanged[partner] or partner in standing)
                # A call whose result has not come yet is pending.
                if alone and max(item, partner) < self._before:
                    self.broken.add(min(item, partner))
                else:
                    self.broken.discard(min(item, partner))
            elif self._is_user[item] and not unchanged[item]:
                self.lost_users.add(item)


def _split(slots: Sequence[Slot]) -> tuple[set[int], list[Substitute]]:
    texts = [slot for slot in slots if isinstance(slot, Substitute)]
    return {slot for slot in slots if not isinstance(slot, Substitute)}, texts
