"""The episodes that are inferred in recorded sessions.

python research/benchmarks/inference.py ../shared/sessions
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median, quantiles

from frame import parser_of_folder, recorded_sessions, table_head, table_row
from wane.core import ContextWindow, Episode, EpisodeType, Kind
from wane.inference import Annotator
from wane.lab.counting import count
from wane.lab.readers import join
from wane.lab.session import RecordedSession

GROUPS = {"claude-code": "Claude Code", "codex": "Codex", "pi": "pi"}
LARGE = 10**9  # a budget that nothing fills


def inferred(session: RecordedSession) -> list[tuple[Episode, int]]:
    """The inferred episodes with their numbers of calls."""
    window, annotator, found = ContextWindow(LARGE), Annotator(), []
    for item, part in zip(count(session, calibrate=False).items, session.parts, strict=True):
        added = annotator.add_to(window, item, part)
        if added.opened is not None and added.opened.inferred:
            found.append(added.opened)
    kinds = [part.kind for part in session.parts]
    return [(it, sum(kinds[first:stop].count(Kind.CALL) for first, stop in it.spans)) for it in found]


def spread(values: Sequence[int]) -> str:
    """The median, and what nine of ten are under."""
    return f"{median(values):,.0f} ({quantiles(values, n=10)[-1]:,.0f})"


def rows(label: str, sessions: Sequence[RecordedSession]) -> None:
    """Print one group's lines of the table."""
    episodes = [entry for session in sessions for entry in inferred(session)]
    for kind, word in ((EpisodeType.EXPL, "explorations"), (EpisodeType.ACT, "acts")):
        of_kind = [entry for entry in episodes if entry[0].type is kind]
        calls = [number for _, number in of_kind]
        depends = sorted(len(it.dependencies) for it, _ in of_kind)
        needs = (
            f"{depends[len(depends) // 10]} to {depends[-1 - len(depends) // 10]}" if kind is EpisodeType.ACT else ""
        )
        tokens = spread([it.tokens for it, _ in of_kind])
        print(table_row([label, f"{len(of_kind)} {word}", spread(calls), tokens, calls.count(1), needs]))
        label = ""


def main() -> None:
    folder = parser_of_folder(__doc__).parse_args().sessions
    columns = ["calls each", "tokens each", "of one call", "dependencies of an act (8 of 10)"]
    print(table_head(["sessions", "episodes", *columns]))
    for name, label in GROUPS.items():
        sessions = recorded_sessions([folder / name])
        rows(f"{label}, {len(sessions)}", sessions)
    runs = recorded_sessions([folder / "terminal-bench-2"])
    rows(f"Terminal-Bench, {len(runs)} runs joined", [join(runs, "joined")])


if __name__ == "__main__":
    main()
