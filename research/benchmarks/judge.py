"""A small language model judges the view of each strategy by the recorded next call: research/docs/judge.md.

    python research/benchmarks/judge.py ../shared/sessions --output build/judge.jsonl

It needs the extra `judge` of wane-research. A stopped run continues where it was; with more arms or calls it judges
what is missing. The table has the calls judged under all arms. Deterministic except for the last digits.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from frame import parser, print_table, recorded_sessions, table_head, table_row
from wane.core.errors import WaneError
from wane_research.judge.figures import Row, complete, pair, rows
from wane_research.judge.judging import ALL, USERS, Arm, Judgement, arm, excerpts
from wane_research.judge.model import Model, weights

FOLDERS = ("claude-code", "codex", "copilot-cli", "pi", "terminal-bench-2")
ARMS = (ALL, USERS, "cwl+0", "cwl+0.01", "cwl+0.02", "truncate@0.5", "compact")


def read(path: Path) -> list[Judgement]:
    """Return the judgements of an earlier run."""
    if not path.exists():
        return []
    # A killed run may have left half a line.
    lines = [line for line in path.read_text(encoding="utf-8").splitlines(keepends=True) if line.endswith("\n")]
    return [Judgement(**json.loads(line)) for line in lines]


def judge(arguments: argparse.Namespace, arms: Sequence[Arm]) -> list[Judgement]:
    """Judge what has not been judged, and return the judgements of the sample."""
    known = read(arguments.output)
    done = {(judgement.session, judgement.arm) for judgement in known}
    sessions = recorded_sessions(arguments.sessions / name for name in FOLDERS)
    model = Model(weights(), arguments.window + 1_024, flash=arguments.flash)
    gone = arm(arguments.reference) if arguments.gone else None
    sampled = excerpts(sessions, model, arguments.window, arguments.budget, arguments.seed, gone)
    calls = 0
    sample = set()
    with arguments.output.open("a", encoding="utf-8") as file:
        for excerpt in sampled:
            if calls >= arguments.calls:
                break
            calls += len(excerpt.judged)
            sample.add(excerpt.name)
            for chosen in arms:
                if (excerpt.name, chosen.name) in done:
                    continue
                started = time.process_time()
                judged = list(excerpt.judge(chosen))
                file.writelines(f"{json.dumps(asdict(judgement))}\n" for judgement in judged)
                file.flush()
                known += judged
                seconds = time.process_time() - started
                print(f"{calls} calls, {excerpt.name}: {chosen.name}, {seconds:.0f} s", file=sys.stderr, flush=True)
    model.close()
    return [judgement for judgement in known if judgement.session in sample]


def report(judgements: Sequence[Judgement], arms: Sequence[str], reference: str) -> None:
    calls = [judgement for judgement in judgements if judgement.arm == reference]
    gone = sum(bool(judgement.missing) for judgement in calls)
    sessions = {judgement.session for judgement in calls}
    print(f"{len(sessions)} sessions, {len(calls)} calls; {gone} use a name that left the view of `{reference}`.\n")
    losses = ["nats a token", "above all", "worth", "in names", "a name gone", "other calls"]
    by_arm = {row.arm: row for row in rows(judgements, reference)}
    print_table(["view", "mean tokens", *losses, "recall"], (cells(by_arm[name]) for name in arms), words=1)
    print("", table_head(["", "against", "nats a token", "would show", "sessions to show it"], words=2), sep="\n")
    for name in arms:
        if name not in (ALL, USERS, reference):
            apart = pair(judgements, name, reference)
            ends = f"{apart.difference:+.3f} ({apart.interval.low:+.3f} to {apart.interval.high:+.3f})"
            least = "" if apart.detectable is None else f"{apart.detectable:.3f}"
            print(table_row([f"`{name}`", f"`{reference}`", ends, least, apart.sessions or ""]))


def cells(row: Row) -> list[str]:
    above = worth = ""
    if row.interval and row.worth_interval:
        above = f"{row.above:.3f} ({row.interval.low:.3f} to {row.interval.high:.3f})"
        worth = f"{row.worth:.0%} ({row.worth_interval.low:.0%} to {row.worth_interval.high:.0%})"
    rest = [_nats(row.name_loss), _nats(row.gone), _nats(row.others), f"{row.recall:.3f}"]
    return [f"`{row.arm}`", f"{row.view:,.0f}", f"{row.loss:.3f}", above, worth, *rest]


def _nats(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def main() -> None:
    command = parser(__doc__)
    command.add_argument("sessions", type=Path, help=f"folder with {', '.join(FOLDERS)}")
    command.add_argument("--output", type=Path, default=Path("judge.jsonl"), help="the judgements, a line each")
    command.add_argument("--arms", default=",".join(ARMS), help="strategies, by default %(default)s")
    command.add_argument("--reference", default="cwl+0", help="the arm to compare others with")
    command.add_argument("--budget", type=int, default=4_000, help="tokens of a view")
    command.add_argument("--window", type=int, default=8_000, help="tokens of an excerpt")
    command.add_argument("--calls", type=int, default=64, help="judge no more excerpts after this many calls")
    command.add_argument("--gone", action="store_true", help="judge only calls with a name that left that arm's view")
    command.add_argument("--seed", type=int, default=0, help="selects sessions and excerpts")
    command.add_argument("--no-flash", dest="flash", action="store_false", help="compute attention without blocks")
    arguments = command.parse_args()
    try:
        arms = [arm(name) for name in arguments.arms.split(",")]
        judgements = judge(arguments, arms)
    except WaneError as error:
        command.error(str(error))
    names = [chosen.name for chosen in arms]
    report(complete(judgements, names), names, arguments.reference)


if __name__ == "__main__":
    main()
