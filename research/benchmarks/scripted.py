"""The tables of the demo and of the closed loop, in which a script answers the agent.

    python research/benchmarks/scripted.py demo                       # README, docs/demo.md: 2 minutes
    python research/benchmarks/scripted.py closed-loop                # research/docs/closed-loop.md: 20 to 40 minutes
    python research/benchmarks/scripted.py closed-loop --tasks 20 --tokens 10m

Further arguments are passed on to the command.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

from frame import print_table

Data = dict[str, Any]

STRATEGIES = ("cwl", "paper", "truncate", "compact", "clear-tools", "fold", "none")
IN_README = ("cwl", "truncate", "compact", "none")
FULL_RUN = ("--strategy", "cwl,paper,fold,clear-tools,compact,truncate,none", "--isolated", "--kill-every", "100")
TIES = ("decision", "name", "code", "finding", "described", "recalled")


def wane(*arguments: str) -> Data:
    """Return the JSON that a command of Wane prints. It exits with 1 if a strategy fails what Wane's must pass."""
    done = subprocess.run(
        [sys.executable, "-m", "wane.cli.main", *arguments, "--json"], check=False, stdout=subprocess.PIPE, text=True
    )
    if not done.stdout:
        raise SystemExit(done.returncode)
    data: Data = json.loads(done.stdout)
    return data


def demo(arguments: Sequence[str]) -> None:
    runs = {name: wane("demo", "--strategy", name, *arguments) for name in STRATEGIES}
    figures = ("tasks passed", "peak view", "input tokens", "from the cache", "user turns lost", "reads repeated")
    print_table(["strategy", *figures], (demo_row(name, runs[name]) for name in IN_README))
    print()
    rows: dict[str, list[str]] = {}
    for data in runs.values():
        for label, cell in demo_column(data).items():
            rows.setdefault(label, [label]).append(cell)
    print_table(["", *(f"`{name}`" for name in STRATEGIES)], rows.values())
    print()
    for name, data in runs.items():
        if data["problems"]:
            print(f"{name}: {'; '.join(data['problems'])}")


def turns_lost(data: Data) -> str:
    return f"{data['most_turns_lost']} of {data['tasks']}" if data["most_turns_lost"] else "0"


def demo_row(name: str, it: Data) -> list[str]:
    """A strategy in the README."""
    ours = {"cwl": "`cwl` (ours)", "compact": f"`compact`, {it['summaries']} summaries"}
    return [
        ours.get(name, f"`{name}`"),
        f"{it['tasks_passed']} of {it['tasks']}",
        f"{it['peak_view_tokens']:,}",
        f"{it['input_tokens']:,}",
        f"{it['prefix_reuse']:.0%}",
        turns_lost(it),
        f"{it['re_read']}",
    ]


def demo_column(it: Data) -> dict[str, str]:
    """A strategy in docs/demo.md."""
    summaries = f", {it['summaries']} for a summary" if it["summaries"] else ""
    return {
        "tasks that pass": f"{it['tasks_passed']} of {it['tasks']}",
        "largest view, in tokens": f"{it['peak_view_tokens']:,}",
        "requests over the budget": f"{it['over_budget'] + it['unmet']}",
        "user's turns missing from a request, at most": turns_lost(it),
        "model calls": f"{it['model_calls']}{summaries}",
        "input tokens": f"{it['input_tokens']:,}",
        "share of them in a prefix cache": f"{it['prefix_reuse']:.0%}",
        "cost": f"${it['cost_usd']:.2f}",
        "read again": f"{it['re_read']}",
        "recalled": f"{it['recalled']}" if it["recalled"] else "-",
    }


def closed_loop(arguments: Sequence[str]) -> None:
    runs = wane("lab", "closed-loop", *FULL_RUN, *arguments)["runs"]
    runs.sort(key=lambda it: it["name"] != "isolated")
    head = (
        *("", "passed", "lost against isolated", "model calls", "input tokens", "mean view", "peak view"),
        *("over budget", "requests without all user turns", "read again", "cost"),
    )
    print_table(head, map(loop_row, runs))
    print()
    print_table(["", *TIES, "nothing"], map(ties_row, runs))
    print()
    for it in runs:
        print(
            f"{it['name']}: {it['history_items']:,} items, {it['passes']} passes, {it['recalls']} recalls, "
            f"{it['re_reads']:,} files read again for {it['re_read_tokens']:,} tokens, {it['summaries']} summaries, "
            f"{it['restarts']} restarts, {it['killed']} of them killed, sound {it['resumed_soundly']}, "
            f"{it['resume_seconds']} s at most, memory {(it['peak_memory_bytes'] or 0) / 1e6:.0f} MB, "
            f"all tests pass {it['all_tests_pass']}"
        )


def loop_row(it: Data) -> list[str]:
    return [
        f"`{it['name']}`",
        f"{it['tasks_passed']}",
        "" if it["tasks_lost"] is None else f"{len(it['tasks_lost'])}",
        f"{it['model_calls']:,}",
        f"{it['input_tokens']:,}",
        f"{it['mean_view']:,}",
        f"{it['peak_view']:,}",
        f"{it['over_budget_calls']}",
        f"{it['turns_lost']:,}",
        f"{it['re_reads']:,}",
        f"${it['cost_usd']:.2f}",
    ]


def ties_row(it: Data) -> list[str]:
    """The tasks of a run that passed, by what they depend on."""
    given: Counter[str] = Counter()
    passed: Counter[str] = Counter()
    for result in it["results"]:
        for kind in {tie[0] for tie in result["ties"]} or {"nothing"}:
            given[kind] += 1
            passed[kind] += result["passed"]
    return [f"`{it['name']}`", *(f"{passed[kind]}/{given[kind]}" for kind in (*TIES, "nothing"))]


def main() -> None:
    what = {"demo": demo, "closed-loop": closed_loop}
    if len(sys.argv) < 2 or sys.argv[1] not in what:
        raise SystemExit(__doc__)
    what[sys.argv[1]](sys.argv[2:])


if __name__ == "__main__":
    main()
