"""The page of `wane report`: what the agents on this machine cost and lost in the last days."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

from wane.lab.discover import AGENTS
from wane.lab.overview.overview import Broken, Overview, SessionSummary, Sums
from wane.lab.overview.recording_figures import LostMessage, Simulation
from wane.lab.report.page import OVERVIEW, render, to_json, write_page

NAMES: Final = {**AGENTS, "journal": "Wane"}
"""What people call the agents, by the format of their sessions."""

_LISTED: Final = 200
"""Sessions on a page, at most: the dearest."""

_WORDS_SHOWN: Final = 12
"""Lost messages to read for each session, at most."""


def write_overview(path: str | Path, overview: Overview, budget: int, *, contents: bool = True) -> None:
    """Write the page.

    Args:
        path: path of the HTML file.
        overview: the figures.
        budget: tokens that a view may hold with Wane.
        contents: whether the page holds titles and words of sessions.

    Raises:
        OSError: if it cannot be written.
    """
    title = "Sessions of your agents"
    if overview.since is not None:
        days = (overview.until - overview.since).days + 1
        title = f"The last {days} days of your agents" if days > 1 else "A day of your agents"
    data = to_json({"title": title, "budget": budget, **overview_dict(overview, contents=contents)})
    write_page(Path(path), render(title, data, *OVERVIEW))


def overview_dict(overview: Overview, *, contents: bool = True) -> dict[str, Any]:
    """Return an overview as JSON-able data: what the page and `wane report --json` show."""
    agents = overview.agents
    days: list[list[Any]] = []
    first, last = overview.span
    for number in range((last - first).days + 1):
        day = first + timedelta(days=number)
        parts = overview.by_day.get(day, {})
        of_day = [parts.get(agent, Sums()) for agent in agents]
        # Null where none of a day's calls has a cost, and beside the dollars whether they are a lower bound.
        amounts = [part.dollars if part.known or not part.calls else None for part in of_day]
        days.append([day.isoformat(), amounts, [not part.complete for part in of_day]])
    causes: list[dict[str, Any]] = []
    for cause, broken in sorted(overview.causes.items(), key=lambda entry: -entry[1].dollars):
        row = {"cause": cause, "label": cause.label, "advice": cause.hint, "times": broken.times}
        causes.append(row | broken_dict(broken))
    known = []
    for agent in agents:
        row = {"agent": agent, "name": NAMES.get(agent, agent), **overview.by_agent[agent].to_dict()}
        known.append({**row, "compared": comparison_dict(overview, overview.comparable_calls(agent))})
    models = []
    for model, sums in sorted(overview.by_model.items(), key=lambda entry: (-entry[1].dollars, -entry[1].calls)):
        models.append({"model": model, **sums.to_dict()})
    sessions = [_session(summary, agents, contents, number) for number, summary in enumerate(overview.sessions)]
    simulation = overview.simulation
    return {
        "since": first.isoformat(),
        "until": last.isoformat(),
        "total": overview.total.to_dict(),
        "agents": known,
        "models": models,
        "days": days,
        "causes": causes,
        "paid_again": {"times": overview.lost.times, **broken_dict(overview.lost)},
        "compared": comparison_dict(overview, overview.comparable_calls()),
        "simulated": comparison_dict(overview, simulation),
        "managed": comparison_dict(overview, overview.effect),
        "managed_sessions": overview.worked.total(),
        "in_view": simulation.in_view / simulation.uses if simulation.uses else None,
        "sessions": sessions[:_LISTED],
        "sessions_in_all": len(sessions),
        "words": _words(overview, agents, contents),
        "compactions": overview.compactions,
        "compactions_taking_words": overview.compactions_taking_words,
        "undated": overview.undated,
        "scripted": overview.scripted,
        "not_replayed": overview.pending,
        "counted_in_part": overview.parted,
        "unread": len(overview.unread),
    }


def broken_dict(broken: Broken) -> dict[str, Any]:
    """Return what was paid again as JSON-able data, with the dollars in words, too."""
    figures = {"priced": broken.priced, "inferred": broken.inferred, "dollars": broken.dollars}
    return {**figures, "cost": broken.say_cost("")}


def comparison_dict(overview: Overview, simulation: Simulation) -> dict[str, Any] | None:
    """Return what calls cost without Wane and with it as JSON-able data; None for no call."""
    if not simulation.calls:
        return None
    return {
        "calls": simulation.calls,
        "without_wane_usd": simulation.before,
        "with_wane_usd": [simulation.low, simulation.high],
        "raised_to_tokens": simulation.raised_to or None,
        "saving": overview.say_saving(simulation),
    }


def _session(summary: SessionSummary, agents: list[str], contents: bool, number: int) -> dict[str, Any]:
    figures = summary.figures
    return {
        "title": (figures.title or figures.name) if contents else f"Session {number + 1}",
        "agent": agents.index(figures.source) if figures.source in agents else 0,
        "day": datetime.fromtimestamp(summary.last).astimezone().date().isoformat(),
        **summary.sums.to_dict(),
    }


def _words(overview: Overview, agents: list[str], contents: bool) -> list[dict[str, Any]]:
    """Return the sessions whose compactions took messages of the user, those that lost most first."""
    rows = []
    for number, summary in enumerate(overview.sessions):
        if not summary.messages_lost:
            continue
        lost: list[LostMessage] = [message for compaction in summary.compactions for message in compaction.lost]
        texts = [message.text for message in lost[:_WORDS_SHOWN]]
        session = _session(summary, agents, contents, number)
        rows.append(
            {
                "title": session["title"],
                "agent": session["agent"],
                "day": session["day"],
                "messages": summary.messages_lost,
                "words": summary.words_lost,
                "compactions_taking_words": summary.compactions_taking_words,
                "texts": texts if contents else [],
            }
        )
    return sorted(rows, key=lambda row: -row["words"])
