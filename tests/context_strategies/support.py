"""Lives of strategies, and the rules that each of their views is held against."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.lives import turns_of
from tests.oracle import assistant_messages, in_force
from wane.core import Item, Kind, chars
from wane.formats.message_format import Part
from wane.strategies.clear_tools import write_mask
from wane.strategies.registry import get_strategy
from wane.strategies.strategy import Fitted, Slot, Strategy, StrategySettings, Substitute, SummaryNeeded

SUMMARY = "what happened"
SUMMARY_TOKENS = 7


def part_of(item: Item) -> Part:
    """A part of about as many characters as the item has tokens for, four each."""
    text = "" if item.kind is Kind.CALL else "x" * (4 * item.tokens)
    return Part(item.kind, text, item.call_id, item.tool, item.arguments, item.needs)


@dataclass
class Sight:
    """One model call: what had happened, what it shows, and whether the strategy said that it changed something."""

    known: int
    view: list[Slot]
    ran: bool
    asked: list[Slot] | None = None
    done: Mapping[str, Any] | None = None
    same: int = 0


@dataclass
class Life:
    """A strategy's sights of a history."""

    name: str
    items: list[Item]
    settings: StrategySettings
    strategy: Strategy
    sights: list[Sight] = field(default_factory=list)

    def tokens(self, view: Sequence[Slot]) -> int:
        return self.settings.overhead + sum(
            slot.tokens if isinstance(slot, Substitute) else self.items[slot].tokens for slot in view
        )


def live(name: str, items: Sequence[Item], settings: StrategySettings, strategy: Strategy | None = None) -> Life:
    """Feed a history to a strategy, with a `fit` before every model call and one at the end."""
    life = Life(name, list(items), settings, strategy or get_strategy(name, settings))
    known = 0
    for turn in turns_of(items):
        life.sights.append(look(life.strategy, known))
        for item in turn:
            life.strategy.add(item, part_of(item))
        known += len(turn)
    life.sights.append(look(life.strategy, known))
    return life


def look(strategy: Strategy, known: int) -> Sight:
    """What the next model call shows, with a summary if one is wanted."""
    outcome = strategy.fit()
    asked = None
    while isinstance(outcome, SummaryNeeded):
        asked = list(outcome.view)
        outcome = strategy.take_summary(SUMMARY, SUMMARY_TOKENS)
    assert isinstance(outcome, Fitted)
    return Sight(known, list(outcome.view), outcome.ran, asked, outcome.done, outcome.same)


# The history


def calls_of(items: Sequence[Item]) -> dict[int, int]:
    """By result, its call: the first open one of its id."""
    waiting: dict[str, list[int]] = {}
    found = {}
    for index, item in enumerate(items):
        if item.kind is Kind.CALL:
            waiting.setdefault(item.call_id or "", []).append(index)
        elif item.kind is Kind.RESULT:
            found[index] = waiting[item.call_id or ""].pop(0)
    return found


def tail_of(items: Sequence[Item]) -> set[int]:
    """The latest assistant message with its results, and the turns of the user after it."""
    messages = assistant_messages(items)
    latest = messages[-1] if messages else range(len(items), len(items))
    answers = {index for index, call in calls_of(items).items() if call in latest}
    said = {index for index in range(latest.stop, len(items)) if items[index].kind is Kind.USER}
    return {*latest, *answers, *said}


def unchanged_items(view: Sequence[Slot]) -> set[int]:
    """Items that stand in a view as they were."""
    return {slot for slot in view if isinstance(slot, int)}


def items_in_view(view: Sequence[Slot]) -> list[int]:
    """Items that have a place in a view, changed or not."""
    places = [slot if isinstance(slot, int) else slot.index for slot in view]
    return [place for place in places if place is not None]


# The rules: each says what is wrong with a sight, or nothing


def in_order(life: Life, sight: Sight) -> bool:
    """Known items, in order, each once."""
    places = items_in_view(sight.view)
    return places == sorted(set(places)) and all(0 <= place < sight.known for place in places)


def calls_paired(life: Life, sight: Sight) -> bool:
    """A result has its call ahead of it, and a call that was answered has its result."""
    there = set(items_in_view(sight.view))
    pairs = calls_of(life.items[: sight.known]).items()
    return all((result in there) == (call in there) for result, call in pairs)


def tail_stays(life: Life, sight: Sight) -> bool:
    return tail_of(life.items[: sight.known]) <= unchanged_items(sight.view)


def system_stays(life: Life, sight: Sight) -> bool:
    return _all(life, sight, Kind.SYSTEM) <= unchanged_items(sight.view)


def users_stay(life: Life, sight: Sight) -> bool:
    return _all(life, sight, Kind.USER) <= unchanged_items(sight.view)


def first_user_stays(life: Life, sight: Sight) -> bool:
    return set(sorted(_all(life, sight, Kind.USER))[:1]) <= unchanged_items(sight.view)


def calls_intact(life: Life, sight: Sight) -> bool:
    """Only results are changed, and nothing but a summary stands on its own."""
    changed = [slot for slot in sight.view if isinstance(slot, Substitute)]
    return all(slot.index is not None and life.items[slot.index].kind is Kind.RESULT for slot in changed)


def one_summary(life: Life, sight: Sight) -> bool:
    """At most one text that is nobody's, and no changed item."""
    changed = [slot for slot in sight.view if isinstance(slot, Substitute)]
    return len(changed) <= 1 and all(slot.index is None for slot in changed)


def one_summary_and_results(life: Life, sight: Sight) -> bool:
    """At most one text that is nobody's, and only results are changed."""
    changed = [slot for slot in sight.view if isinstance(slot, Substitute)]
    places = [slot.index for slot in changed if slot.index is not None]
    return len(changed) - len(places) <= 1 and all(life.items[place].kind is Kind.RESULT for place in places)


def question_stays(life: Life, sight: Sight) -> bool:
    return _question(life, sight) <= unchanged_items(sight.view)


def _question(life: Life, sight: Sight) -> set[int]:
    """The latest turn of the user: what was said since the model last spoke, or a tool answered."""
    question: list[int] = []
    asking = False
    for index, item in enumerate(life.items[: sight.known]):
        if item.kind is Kind.USER:
            question = [*question, index] if asking else [index]
        asking = item.kind in (Kind.USER, Kind.SYSTEM, Kind.NOTICE) and (asking or item.kind is Kind.USER)
    return set(question)


def starts_again(life: Life, sight: Sight) -> bool:
    """Right after a summary there is nothing but the system items, what stands, the question and the summary."""
    if sight.asked is None:
        return True
    kinds = {life.items[slot].kind for slot in unchanged_items(sight.view) - _system(life, sight)}
    return kinds <= {Kind.USER} and over(life, Sight(sight.known, sight.asked, ran=False))


def head_stays(life: Life, sight: Sight) -> bool:
    """The first four messages, with their results."""
    return _head(life, sight) <= unchanged_items(sight.view)


def only_the_latest_results(life: Life, sight: Sight) -> bool:
    """Older results than the latest ten are shown only if they are short, or the model has not seen them.

    What a person said (R21) and what loaded a tool (R15) stays.
    """
    results = [index for index in range(sight.known) if life.items[index].kind is Kind.RESULT]
    left = set(results[:-10]) & unchanged_items(sight.view) - tail_of(life.items[: sight.known])
    left = {index for index in left if not (life.items[index].person or life.items[index].loads)}
    return all(life.items[index].tokens <= chars(write_mask(1)) for index in left)


def needs_met(life: Life, sight: Sight) -> bool:
    """R12: what an item needs is there as long as it is."""
    there = set(items_in_view(sight.view))
    return all(index + offset in there for index in there for offset in life.items[index].needs)


def _all(life: Life, sight: Sight, kind: Kind) -> set[int]:
    return {index for index in range(sight.known) if life.items[index].kind is kind}


def _system(life: Life, sight: Sight) -> set[int]:
    """System items, and the notices in force (R15)."""
    items = life.items[: sight.known]
    return _all(life, sight, Kind.SYSTEM) | {
        index for index, item in enumerate(items) if item.standing and in_force(items, index)
    }


def _loading(life: Life, sight: Sight) -> set[int]:
    """What loaded a tool, with its calls (R15) and all that these need (R12)."""
    items = life.items[: sight.known]
    calls = calls_of(items)
    loading = {index for index, item in enumerate(items) if item.loads}
    stays = [*loading, *(calls[index] for index in loading if index in calls)]
    for index in stays:
        stays += {index + offset for offset in items[index].needs}.difference(stays)
    return set(stays)


def over(life: Life, sight: Sight) -> bool:
    return life.tokens(sight.view) > life.settings.budget


def budget_held(life: Life, sight: Sight) -> bool:
    """Held whenever what must stay leaves room for it: system items, the first turn of the user and the tail."""
    return _budget_held_with(life, sight, set())


def budget_held_with_a_head(life: Life, sight: Sight) -> bool:
    """Likewise, with the head."""
    return _budget_held_with(life, sight, _head(life, sight))


def _budget_held_with(life: Life, sight: Sight, must: set[int]) -> bool:
    if not over(life, sight):
        return True
    must = must | tail_of(life.items[: sight.known]) | _system(life, sight)
    must |= set(sorted(_all(life, sight, Kind.USER))[:1]) | _loading(life, sight)
    spare = unchanged_items(sight.view) - must - set(_after(life, sight))
    return not any(life.items[index].tokens for index in spare)


def _head(life: Life, sight: Sight) -> set[int]:
    items = life.items[: sight.known]
    calls, messages = calls_of(items), assistant_messages(items)
    own = {index: run.start for run in messages for index in run}
    starts = [own.get(calls.get(index, index), calls.get(index, index)) for index in range(len(items))]
    first = sorted(set(starts))[:4]
    return {index for index, start in enumerate(starts) if start in first}


def budget_held_beside_a_summary(life: Life, sight: Sight) -> bool:
    """Likewise, but the first turn of the user may go; held whenever the summary leaves room for the rest of it.

    No summary is asked for while a call of the latest answer has no result.
    """
    if not over(life, sight) or _waits(life, sight):
        return True
    must = tail_of(life.items[: sight.known]) | _system(life, sight) | set(_after(life, sight)) | _loading(life, sight)
    if life.name == "acon":
        must |= _question(life, sight)
    least = [slot for slot in sight.view if isinstance(slot, Substitute) or slot in must]
    return len(least) == len(sight.view) or life.tokens(least) > life.settings.budget


def _waits(life: Life, sight: Sight) -> bool:
    items = life.items[: sight.known]
    answered = calls_of(items).values()
    latest = assistant_messages(items)[-1:]
    return any(items[at].kind is Kind.CALL and at not in answered for run in latest for at in run)


def _after(life: Life, sight: Sight) -> range:
    """Whatever stands behind the beginning of the latest assistant message, such as late results of earlier ones."""
    messages = assistant_messages(life.items[: sight.known])
    return range(messages[-1].start if messages else 0, sight.known)


Rule = Callable[[Life, Sight], bool]


def broken(life: Life, rule: Rule) -> list[Sight]:
    """The sights that break a rule."""
    return [sight for sight in life.sights if not rule(life, sight)]


def untruthful(life: Life) -> list[Sight]:
    """The sights that hide a change of what was shown before, or speak of one where all is as it was.

    What they say to be the same as before must be.
    """
    before, known = list[Slot](), 0
    wrong = []
    for sight in life.sights:
        changed = sight.view[: len(before)] != before
        grown = sight.view == [*before, *range(known, sight.known)]
        claimed = sight.same if sight.asked is None else 0
        unlike = claimed > len(before) or sight.view[:claimed] != before[:claimed]
        if (changed and not sight.ran) or (grown and sight.ran) or unlike:
            wrong.append(sight)
        before, known = sight.view, sight.known
    return wrong


def find_returns(life: Life) -> list[Sight]:
    """The sights that show what an earlier one had no longer shown as it was."""
    before = None
    wrong = []
    for sight in life.sights:
        if before is not None and any(
            index < before.known for index in unchanged_items(sight.view) - unchanged_items(before.view)
        ):
            wrong.append(sight)
        before = sight
    return wrong


def work(*results: tuple[int, ...], user: int = 10) -> list[Item]:
    """A task, and messages each of a call for every result of so many tokens."""
    items = [Item(Kind.SYSTEM, 10, message=0), Item(Kind.USER, user, message=1)]
    for number, sizes in enumerate(results):
        calls = [f"c{number}.{place}" for place in range(len(sizes))]
        items += [Item(Kind.CALL, 5, call, "read", "{}", 2 * number + 2) for call in calls]
        sized = zip(calls, sizes, strict=True)
        items += [Item(Kind.RESULT, size, call, message=2 * number + 3) for call, size in sized]
    return items
