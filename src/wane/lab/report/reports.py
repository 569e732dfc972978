"""Writes the three reports: a comparison of strategies, a sweep over budgets, and the story of a session."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final

from wane.core import DEFAULT_BUDGET
from wane.core.errors import ConfigError
from wane.journal import Header, Record
from wane.lab.columns import COLUMNS, Column, columns_dict
from wane.lab.counting import Material
from wane.lab.readers import Recording, journal
from wane.lab.replaying.compare import BASELINE, Comparison, prices_of
from wane.lab.replaying.replay_figures import Totals
from wane.lab.replaying.spent import RECORDED, Recorded
from wane.lab.replaying.strategy_replay import Pricing, Replay
from wane.lab.replaying.studying import annotator_of, budgets_told, study
from wane.lab.replaying.tight_sessions import tight_lines
from wane.lab.replaying.verdict import OURS
from wane.lab.report.headline import facts_of, facts_of_all
from wane.lab.report.page import SIZE_LIMIT, Texts, frame_size, render, texts_within, to_json, write_page
from wane.lab.report.sessions import LEVELS, EpisodeOutline, episodes_of, outline_of, recorded_run, run_of, session_of
from wane.lab.report.simulating import Fact, Simulated, budget_and_facts, simulate_sessions
from wane.lab.report.tiles import tiles_of, tiles_of_comparison, tiles_of_sweep, tiles_of_tuning
from wane.lab.sweep import Sweep
from wane.lab.tuning import Tuning
from wane.strategies.registry import describe, traits
from wane.words import PURPOSES, SETTINGS

OFTEN: Final = 0.05
"""Share of the calls above which the table points out requests over the budget."""


def rows(totals: Mapping[str, Totals], baseline: Totals, budget: int, recorded: Recorded) -> list[dict[str, Any]]:
    """Return a row for the recording and each strategy, with the best values marked.

    Only strategies whose mean request is within the budget compete: it is easy to lose less by showing too much. Where
    one was held to a larger budget than the others (R22), none does.
    """
    values = recorded.row(baseline)
    what = "The sessions as their agents ran them, by the recorded usage"
    if recorded.bounds:
        what += f": {recorded.bounds}"
    table: list[dict[str, Any]] = [
        {
            "name": RECORDED,
            "what": f"{what}.",
            "kept": False,
            "over": False,
            "bounds": recorded.bounded,
            "values": {column.key: values.get(column.key) for column in COLUMNS},
        }
    ]
    for name, figures in totals.items():
        values = figures.to_dict(baseline)
        table.append(
            {
                "name": name,
                "what": describe(name),
                "kept": traits(name).bounded and figures.mean_view <= budget,
                "over": traits(name).bounded and figures.over_budget > OFTEN * figures.calls,
                "values": {column.key: values[column.key] for column in COLUMNS},
                "raised_to": figures.raised_to or None,
                "recall_at_best": values["recall_at_best"],
            }
        )
    alike = not any(figures.raised for figures in totals.values())
    rivals = [row for row in table if row["kept"] and alike]
    for row in rivals:
        row["best"] = [column.key for column in COLUMNS if column.better and _is_best(row, column, rivals)]
    return table


def _is_best(row: dict[str, Any], column: Column, rivals: list[dict[str, Any]]) -> bool:
    values = [rival["values"][column.key] for rival in rivals]
    if None in values or max(values) == min(values):
        return False
    return bool(row["values"][column.key] == (min(values) if column.better == "less" else max(values)))


_SPARE: Final = 1_000
_DETAILS: Final = 0.8
"""Share of a page for the sessions without their texts; sessions beyond it are left out."""


def write_report(
    path: str | Path, comparison: Comparison, *, contents: bool = True, size_limit: int = SIZE_LIMIT
) -> None:
    """Write a comparison as a page: the strategies, and their effect on each session.

    Args:
        path: path of the HTML file.
        comparison: the comparison. Replays without a trace show sizes only.
        contents: whether the page holds the contents of the sessions; False leaves out texts, arguments, titles, names
            of sessions and tools, and names and descriptions of episodes.
        size_limit: bytes of the page. Texts are shortened, and sessions left out, to keep it.

    Raises:
        OSError: if it cannot be written.
    """
    baseline = comparison.totals(BASELINE)
    page = _Page("comparison", contents)
    for number, studied in enumerate(comparison.studied):
        texts = Texts(included=contents)
        material = studied.subject.material
        replays = [comparison.replays[name][number] for name in comparison.names]
        # The page begins with the last of these strategies.
        by_episode = [replay.trace for replay in replays if replay.trace is not None and replay.trace.episodes]
        outline = outline_of(material, studied.annotate, by_episode[-1] if by_episode else None)
        runs = [_run(replay, material, outline, texts) for replay in replays]
        session = session_of(material, outline, runs, texts, studied.annotate)
        calls = replays[0].calls if replays else ()
        session |= {"uses": [call.loss.uses for call in calls], "edits": [call.loss.edits for call in calls]}
        page.add(session, texts, size_limit)
    budget = ("Budget", budgets_told(comparison.budget, comparison.studied))
    facts = [budget, *facts_of_all(comparison.studied)]
    tight = list(comparison.tight)
    if not contents:
        facts = [fact for fact in facts if fact[0] != "Session"]
        tight = [replace(session, name="a session", title="") for session in tight]
    page.data |= {
        "title": "Strategies compared",
        "purpose": PURPOSES["replay"],
        "facts": facts,
        "budget": comparison.budget,
        **prices_of(comparison.studied),
        "columns": columns_dict(),
        "verdict": comparison.verdict(),
        "tiles": [asdict(tile) for tile in tiles_of_comparison(comparison)],
        "tight": tight_lines(tight, len(comparison.studied)),
        "strategies": rows(
            {name: comparison.totals(name) for name in comparison.names},
            baseline,
            comparison.budget,
            comparison.baselines().recorded,
        ),
    }
    write_page(Path(path), page.to_html(size_limit))


def write_view(
    path: str | Path,
    materials: Sequence[Material],
    *,
    simulated: Sequence[Simulated] = (),
    budget: int | None = None,
    facts: Iterable[Fact] = (),
    contents: bool = True,
) -> None:
    """Write the story of recorded sessions to an HTML file; `view_page` says what each argument means.

    Raises:
        OSError: if it cannot be written.
    """
    page = view_page(materials, simulated=simulated, budget=budget, facts=facts, contents=contents)
    write_page(Path(path), page)


def view_page(
    materials: Sequence[Material],
    *,
    simulated: Sequence[Simulated] = (),
    budget: int | None = None,
    facts: Iterable[Fact] = (),
    contents: bool = True,
) -> str:
    """Return the story of recorded sessions as a page: the view of each call, and the content that the agent removed.

    If the sessions were replayed, the page also shows the views of another strategy.

    Args:
        materials: the sessions, counted; the first is shown first.
        simulated: the sessions replayed, in the same order; none if they were not.
        budget: tokens that a view may hold, if there was a budget; None for that of the last pass.
        facts: more figures for the foot of the page, about the first session.
        contents: as in `write_report`.
    """
    page = _Page("view", contents)
    for material, simulation in zip_longest(materials, simulated):
        session = material.session
        annotate = annotator_of(session)
        texts = Texts(included=contents)
        outline = outline_of(material, annotate)
        budgets = [eviction.budget for eviction in session.evictions if eviction.budget]
        limit = budgets[-1] if budgets else None
        if budget is not None and material is materials[0]:
            limit = budget
        runs = [recorded_run(material, outline, texts.note, limit)]
        told: dict[str, Any] = {}
        if simulation is not None:
            runs.append(_run(simulation.replay, material, outline, texts))
            told = {
                "tiles": [asdict(tile) for tile in tiles_of(material, simulation)],
                "tight": simulation.tight,
            }
        data = session_of(material, outline, runs, texts, annotate)
        page.add(data | {"managed": session.managed, "facts": facts_of(material)} | told, texts, SIZE_LIMIT)
    first = materials[0].session
    title = Texts().private(first.title) or first.name
    page.data |= {"title": title if contents else "A session", "facts": list(facts), "budget": None}
    return page.to_html(SIZE_LIMIT)


def page_of_journal(header: Header, records: Sequence[Record], price: str) -> str:
    """Return the story of a session of Wane's own as a page, from its records.

    Args:
        header: the header of its journal.
        records: the records below it.
        price: the model whose prices count where that of a call has none, as `PROVIDER:MODEL`.

    Raises:
        WaneError: if no model has answered yet, or a record is not understood.
    """
    session = journal.session_of(header, records)
    if not session.answered:
        raise ConfigError("no model has answered in this session yet")
    studied = study([Recording(session, "")], Pricing.of(price), own_prices=True)
    budget, facts = budget_and_facts(records)
    materials = [prepared.subject.material for prepared in studied]
    return view_page(
        materials, simulated=simulate_sessions(studied, budget or DEFAULT_BUDGET), budget=budget, facts=facts
    )


def write_sweep_report(path: str | Path, sweep: Sweep) -> None:
    """Write a sweep as a page: cost against recall, with a point for each strategy and budget.

    Raises:
        OSError: if it cannot be written.
    """
    best, chosen = sweep.frontier, sweep.recommended
    page = _Page("sweep", contents=False)
    keys = [column.key for column in COLUMNS]
    points = []
    for point in sweep.points:
        values = point.totals.to_dict(sweep.baseline)
        points.append(
            {
                "strategy": point.strategy,
                "budget": point.budget,
                "raised_to": point.totals.raised_to or None,
                "best": point in best,
                "chosen": point is chosen,
                "values": {key: values[key] for key in keys},
                "recall_at_best": values["recall_at_best"],
            }
        )
    budgets = ", ".join(f"{budget:,}" for budget in sweep.budgets)
    page.data |= {
        "title": "Budgets swept",
        "purpose": PURPOSES["sweep"],
        "tiles": [asdict(tile) for tile in tiles_of_sweep(sweep)],
        "facts": [("Budgets", budgets), *facts_of_all(sweep.studied)],
        "budget": None,
        **prices_of(sweep.studied),
        "columns": columns_dict(),
        "budgets": list(sweep.budgets),
        "points": points,
    }
    write_page(Path(path), page.to_html(SIZE_LIMIT))


_OTHERS: Final = "other policies"
"""What the page of a recommendation calls policies that were tried, but not recommended."""


def write_tune_report(
    path: str | Path,
    tuning: Tuning,
    command: str,
    reasons: Sequence[str],
    others: Sequence[tuple[str, str, str, str]],
) -> None:
    """Write a recommendation as a page: each budget and policy that was tried, by its cost and what it kept.

    Args:
        path: path of the HTML file.
        tuning: the recommendation.
        command: the command that works with it; empty for none.
        reasons: sentences that say why it is recommended.
        others: what else was tried: its name, its cost, what it keeps, and what else differs.

    Raises:
        OSError: if it cannot be written.
    """
    keys = [column.key for column in COLUMNS]
    best, chosen = tuning.frontier, tuning.chosen
    points: list[dict[str, Any]] = []

    def add(name: str, budget: int, totals: Totals, policy: str, *, on_frontier: bool, recommended: bool) -> None:
        values = totals.to_dict(tuning.baseline)
        point = {"strategy": name, "budget": budget, "policy": policy, "kept": totals.kept}
        figures = {"values": {key: values[key] for key in keys}, "recall_at_best": values["recall_at_best"]}
        points.append({**point, "best": on_frontier, "chosen": recommended, **figures})

    for candidate in tuning.candidates:
        name = OURS if candidate.policy == chosen.policy else _OTHERS
        changes = [f"{name.replace('_', ' ')} {value}" for name, value in candidate.departures.items()]
        policy = ", ".join(changes) or "the default"
        flags = {"on_frontier": candidate in best, "recommended": candidate is chosen}
        add(name, candidate.budget, candidate.totals, policy, **flags)
    for rival in tuning.rivals:
        add(rival.value, chosen.budget, rival.totals, "", on_frontier=False, recommended=False)
    # Series by series, each by budget.
    order = list(dict.fromkeys(point["strategy"] for point in points))
    points.sort(key=lambda point: (order.index(point["strategy"]), point["budget"]))
    tried = sorted({point["budget"] for point in points})
    budgets = ", ".join(f"{budget:,}" for budget in tried)
    page = _Page("tune", contents=False)
    page.data |= {
        "title": "A budget for your work",
        "purpose": PURPOSES["tune"],
        "tiles": [asdict(tile) for tile in tiles_of_tuning(tuning)],
        "facts": [("Budgets", budgets), *facts_of_all(tuning.studied)],
        "budget": None,
        **prices_of(tuning.studied),
        "columns": columns_dict(),
        "points": points,
        "command": command,
        "config": tuning.config(),
        "reasons": list(reasons),
        "others": list(others),
        "settings": dict(SETTINGS),
    }
    write_page(Path(path), page.to_html(SIZE_LIMIT))


def _run(replay: Replay, material: Material, outline: EpisodeOutline, texts: Texts) -> dict[str, Any]:
    """Return a replay as JSON-able data, with its own episodes if they differ from the session's."""
    run = run_of(replay, material, texts.note)
    if replay.trace is not None and replay.trace.episodes:
        own = outline_of(material, "model", replay.trace)
        if own.owners != outline.owners:
            run |= episodes_of(own, texts)
    return run


class _Page:
    def __init__(self, kind: str, contents: bool) -> None:
        self.data: dict[str, Any] = {"report": kind, "contents": contents, "levels": list(LEVELS)}
        self._sessions: list[dict[str, Any]] = []
        self._texts: list[Texts] = []
        self._left_out: list[str] = []
        self._size = 0

    def add(self, session: dict[str, Any], texts: Texts, size_limit: int) -> None:
        """Add a session, or only its name if the page is full."""
        size = len(to_json(session).encode())
        if not self.data["contents"]:
            # The names of files and tools are private, too.
            session["name"] = f"session {len(self._sessions) + len(self._left_out) + 1}"
            session["tools"] = [f"tool {number}" for number in range(1, len(session["tools"]) + 1)]
        if self._sessions and self._size + size > _DETAILS * size_limit:
            self._left_out.append(session["name"])
            return
        self._size += size
        self._sessions.append(session)
        self._texts.append(texts)

    def to_html(self, size_limit: int) -> str:
        """Return the page, with texts as long as there is room for."""
        self.data |= {"sessions": self._sessions, "left_out": self._left_out, "contents_of": None}
        used = frame_size() + len(to_json(self.data).encode()) + _SPARE
        self.data["contents_of"] = texts_within(self._texts, size_limit - used)
        return render(self.data["title"], to_json(self.data))
