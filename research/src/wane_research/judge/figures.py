"""The figures of a judging: how much of what the history is worth to the model each view keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from statistics import NormalDist, fmean

from wane_research.evaluation.statistics import LEVEL, Interval, bootstrap, detectable, score
from wane_research.judge.judging import ALL, USERS, Judgement

Losses = dict[str, dict[int, float]]  # nats a token, by session and call


@dataclass(frozen=True, slots=True)
class Row:
    """What one arm came to. Every session counts the same."""

    arm: str
    view: float  # mean tokens of a view
    loss: float  # nats a token of the next call
    above: float  # the same, above that with the whole history
    interval: Interval | None  # of 95 %, from sessions and calls drawn again; None for the whole history
    worth: float  # share of the way from the user's words alone to the whole history
    worth_interval: Interval | None  # the same of the interval's ends, the length of the way held fixed
    name_loss: float | None  # nats a token in names that the history holds; None if no judged call has any
    # Nats a token above the whole history where a name of the call had left the reference arm's view; None if there is
    # no such call
    gone: float | None
    others: float | None  # the same of all other calls
    recall: float  # share of the names that the view holds


@dataclass(frozen=True, slots=True)
class Pair:
    """Two arms on the same calls."""

    first: str
    second: str
    difference: float  # nats a token of the first less the second's
    interval: Interval
    detectable: float | None  # the least difference that is found in four of five such samples; None with one session
    # Number of sessions that would show the difference seen in four of five cases, if it is the true one; None with one
    # session or no difference
    sessions: int | None


def complete(judgements: Iterable[Judgement], arms: Sequence[str]) -> list[Judgement]:
    """Return the judgements of the calls that all these arms have judged."""
    listed = [judgement for judgement in judgements if judgement.arm in arms]
    judged: dict[tuple[str, int], set[str]] = {}
    for judgement in listed:
        judged.setdefault((judgement.session, judgement.call), set()).add(judgement.arm)
    return [it for it in listed if len(judged[it.session, it.call]) == len(set(arms))]


def rows(judgements: Sequence[Judgement], reference: str) -> list[Row]:
    """Return a row for each arm; the whole history and the user's words alone must be among them.

    `judgements`: as of `complete`.
    `reference`: the arm by whose view calls are split into those that use a name that left it, and others.
    """
    by_arm: dict[str, list[Judgement]] = {}
    for judgement in judgements:
        by_arm.setdefault(judgement.arm, []).append(judgement)
    gone = {(it.session, it.call) for it in by_arm[reference] if it.missing}
    losses = {name: table(listed) for name, listed in by_arm.items()}
    way = _mean(losses[USERS]) - _mean(losses[ALL])
    return [_row(name, listed, by_arm[ALL], losses, gone, way) for name, listed in by_arm.items()]


def _row(
    name: str,
    listed: Sequence[Judgement],
    whole: Sequence[Judgement],
    losses: Mapping[str, Losses],
    gone: set[tuple[str, int]],
    way: float,
) -> Row:
    above = _mean(losses[name]) - _mean(losses[ALL])
    interval = None if name == ALL else _interval(_apart(losses[name], losses[ALL]))

    def apart(chosen: Callable[[Judgement], bool]) -> float | None:
        tables = [table(it for it in arm if chosen(it)) for arm in (listed, whole)]
        return _mean(tables[0]) - _mean(tables[1]) if tables[0] else None

    named = sum(it.name_tokens for it in listed)
    names = sum(it.names for it in listed)
    return Row(
        arm=name,
        view=fmean(it.view for it in listed),
        loss=_mean(losses[name]),
        above=above,
        interval=interval,
        worth=1 - above / way,
        worth_interval=interval and Interval(1 - interval.high / way, 1 - interval.low / way),
        name_loss=sum(it.name_loss for it in listed) / named if named else None,
        gone=apart(lambda it: (it.session, it.call) in gone),
        others=apart(lambda it: (it.session, it.call) not in gone),
        recall=1 - sum(it.missing for it in listed) / names if names else 1.0,
    )


def pair(judgements: Sequence[Judgement], first: str, second: str) -> Pair:
    """Compare two arms on the calls that both judged."""
    ours, theirs = (table(it for it in judgements if it.arm == name) for name in (first, second))
    apart = _apart(ours, theirs)
    whole = score(apart)
    error, difference = whole.by_task, whole.value
    needed = None
    if error is not None and difference:
        quantiles = NormalDist().inv_cdf((1 + LEVEL) / 2) + NormalDist().inv_cdf(0.8)
        needed = ceil((quantiles * error.se / difference) ** 2 * whole.tasks)
    least = None if error is None else detectable(error)
    return Pair(first, second, difference, _interval(apart), least, needed)


def table(judgements: Iterable[Judgement]) -> Losses:
    losses: Losses = {}
    for judgement in judgements:
        losses.setdefault(judgement.session, {})[judgement.call] = judgement.mean
    return losses


def _apart(ours: Losses, theirs: Losses) -> Losses:
    """Return the differences call by call, so that what makes a call hard for any view cancels out."""
    return {
        session: {call: loss - theirs[session][call] for call, loss in calls.items()} for session, calls in ours.items()
    }


def _interval(apart: Losses) -> Interval:
    """Return the interval of the mean difference, from sessions and their calls drawn again."""
    return bootstrap(apart, {session: dict.fromkeys(calls, 0.0) for session, calls in apart.items()})


def _mean(losses: Losses) -> float:
    return fmean(fmean(calls.values()) for calls in losses.values())
