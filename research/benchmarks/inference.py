"""The episodes inferred in recorded sessions: the table in docs/lab/inference.md.

python research/benchmarks/inference.py ../shared/sessions
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median, quantiles

from frame import parser_of_folder, recorded_sessions, table_head, table_row
from wane.core import ContextWindow, Episode, EpisodeType, Kind
from wane.core.policy import MAX_BUDGET
from wane.inference import Annotator
from wane.lab.counting import count
from wane.lab.readers import join
from wane.lab.recorded_session import RecordedSession

GROUPS = {"claude-code": "Claude Code", "codex": "Codex", "pi": "pi"}


def inferred_episodes(session: RecordedSession) -> Iterator[tuple[Episode, int]]:
    """Yield the inferred episodes with their numbers of calls."""
    window, annotator = ContextWindow(MAX_BUDGET), Annotator()
    opened: list[Episode] = []
    for item, part in zip(count(session, calibrate=False).items, session.parts, strict=True):
        episode = annotator.add_to(window, item, part).opened
        if episode is not None and episode.inferred:
            opened.append(episode)
    kinds = [part.kind for part in session.parts]
    for episode in opened:
        yield episode, sum(kinds[first:stop].count(Kind.CALL) for first, stop in episode.spans)


def spread(values: Sequence[int]) -> str:
    """Return the median and the ninth decile."""
    return f"{median(values):,.0f} ({quantiles(values, n=10)[-1]:,.0f})"


def print_rows(label: str, sessions: Sequence[RecordedSession]) -> None:
    episodes = [entry for session in sessions for entry in inferred_episodes(session)]
    for kind, word in ((EpisodeType.EXPL, "explorations"), (EpisodeType.ACT, "acts")):
        of_kind = [(episode, calls) for episode, calls in episodes if episode.type is kind]
        calls = [number for _, number in of_kind]
        tokens = spread([episode.tokens for episode, _ in of_kind])
        dependencies = ""
        if kind is EpisodeType.ACT:
            numbers = sorted(len(episode.dependencies) for episode, _ in of_kind)
            tenth = len(numbers) // 10
            dependencies = f"{numbers[tenth]} to {numbers[-1 - tenth]}"
        print(table_row([label, f"{len(of_kind)} {word}", spread(calls), tokens, calls.count(1), dependencies]))
        label = ""


def main() -> None:
    folder = parser_of_folder(__doc__).parse_args().sessions
    columns = ["calls each", "tokens each", "of one call", "dependencies of an act (8 of 10)"]
    print(table_head(["sessions", "episodes", *columns]))
    for name, label in GROUPS.items():
        sessions = recorded_sessions([folder / name])
        print_rows(f"{label}, {len(sessions)}", sessions)
    runs = recorded_sessions([folder / "terminal-bench-2"])
    print_rows(f"Terminal-Bench, {len(runs)} runs joined", [join(runs, "joined")])


if __name__ == "__main__":
    main()
