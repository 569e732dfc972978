"""The figures of judgements: how much of the whole history's worth to the model each view keeps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil
from statistics import NormalDist, fmean

from wane_research.evaluation.statistics import LEVEL, Interval, bootstrap, detectable, score
from wane_research.judge.judging import ALL, USERS, Judgement

Losses = dict[str, dict[int, float]]  # nats a token, by session and call


@dataclass(frozen=True, slots=True)
class Row:
    """The figures of one arm. Every session has the same weight."""

    arm: str
    view: float  # mean tokens of a view
    loss: float  # nats a token of the next call
    above: float  # the same, above that with the whole history
    interval: Interval | None  # of 95 %, from sessions and calls drawn again; None for the whole history
    worth: float  # share of the way from the user's words alone to the whole history
    worth_interval: Interval | None  # the same of the interval's ends, the length of the way held fixed
    name_loss: float | None  # nats a token in names that the history holds; None if no judged call has any
    gone: float | None  # `above` of the calls with a name that had left the reference arm's view; None without any
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
    # Number of sessions with which the measured difference, if true, is found in four of five cases; None with one
    # session or no difference
    sessions: int | None


def complete(judgements: Iterable[Judgement], arms: Sequence[str]) -> list[Judgement]:
    """Return the judgements of the calls judged under all of these arms."""
    listed = [judgement for judgement in judgements if judgement.arm in arms]
    judged: dict[tuple[str, int], set[str]] = {}
    for judgement in listed:
        judged.setdefault((judgement.session, judgement.call), set()).add(judgement.arm)
    every = set(arms)
    return [judgement for judgement in listed if judged[judgement.session, judgement.call] == every]


def rows(judgements: Sequence[Judgement], reference: str) -> list[Row]:
    """Return a row for each arm; the whole history and the user's words alone must be among them.

    `judgements`: from `complete`.
    `reference`: the arm that splits the calls into those that use a name that has left its view, and others.
    """
    by_arm: dict[str, list[Judgement]] = {}
    for judgement in judgements:
        by_arm.setdefault(judgement.arm, []).append(judgement)
    gone = {(judgement.session, judgement.call) for judgement in by_arm[reference] if judgement.missing}
    way = _mean(table(by_arm[USERS])) - _mean(table(by_arm[ALL]))
    return [_row(name, listed, by_arm[ALL], gone, way) for name, listed in by_arm.items()]


def _row(
    name: str, listed: Sequence[Judgement], whole: Sequence[Judgement], gone: set[tuple[str, int]], way: float
) -> Row:
    losses = table(listed)
    apart = _apart(losses, table(whole))
    above = _mean(apart)
    of_gone, of_others = _split(apart, gone)
    interval = None if name == ALL else _interval(apart)
    named = sum(judgement.name_tokens for judgement in listed)
    name_loss = sum(judgement.name_loss for judgement in listed)
    names = sum(judgement.names for judgement in listed)
    missing = sum(judgement.missing for judgement in listed)
    return Row(
        arm=name,
        view=fmean(judgement.view for judgement in listed),
        loss=_mean(losses),
        above=above,
        interval=interval,
        worth=1 - above / way,
        worth_interval=interval and Interval(1 - interval.high / way, 1 - interval.low / way),
        name_loss=name_loss / named if named else None,
        gone=_mean(of_gone) if of_gone else None,
        others=_mean(of_others) if of_others else None,
        recall=1 - missing / names if names else 1.0,
    )


def _split(losses: Losses, chosen: set[tuple[str, int]]) -> tuple[Losses, Losses]:
    """Return the losses of the chosen calls, and those of the others."""
    inside: Losses = {}
    outside: Losses = {}
    for session, calls in losses.items():
        for call, loss in calls.items():
            part = inside if (session, call) in chosen else outside
            part.setdefault(session, {})[call] = loss
    return inside, outside


def pair(judgements: Sequence[Judgement], first: str, second: str) -> Pair:
    """Compare two arms on the calls that both judged."""
    ours = table(judgement for judgement in judgements if judgement.arm == first)
    theirs = table(judgement for judgement in judgements if judgement.arm == second)
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
    """Return the differences call by call, so that the difficulty of a call cancels out."""
    apart: Losses = {}
    for session, calls in ours.items():
        apart[session] = {call: loss - theirs[session][call] for call, loss in calls.items()}
    return apart


def _interval(apart: Losses) -> Interval:
    """Return the interval of the mean difference, by a bootstrap over sessions and their calls."""
    return bootstrap(apart, {session: dict.fromkeys(calls, 0.0) for session, calls in apart.items()})


def _mean(losses: Losses) -> float:
    return fmean(fmean(calls.values()) for calls in losses.values())
