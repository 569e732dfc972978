"""Task 9, a record: the measurement of task 3 before its change left the view long ago."""

from wane.scripted.demo.moves import Fact, ScriptStep, Task, check
from wane.scripted.demo.script.t03_running_totals import BASELINE, WORKLOAD
from wane.scripted.model_calls import act, end, explore, shell, write

ACCOUNTS = ("expenses", "expenses:lisbon", "expenses:turin:travel", "total")
NOW = "work-now"

# Without a recall: task 3 measured the repository's first commit.
MEASURE_AGAIN = (
    'first=$(git rev-list --max-parents=0 HEAD) && there=$(mktemp -d)/before && git worktree add -q "$there" "$first" '
    '&& "${PYTHON:-python3}" "$there/tools/workload.py" && git worktree remove "$there"'
)


def visits(account: str, when: str, episode: str, otherwise: str) -> Fact:
    """Return the fact that the table of a measurement states about an account."""
    pattern = rf"^{account} +(?:[\d,.-]+ EUR +)?(\d+)$"
    return Fact(f"{account.replace(':', '_')}_{when}", pattern, episode=episode, otherwise=otherwise)


BEFORE = tuple(visits(account, "before", BASELINE, MEASURE_AGAIN) for account in ACCOUNTS)
AFTER = tuple(visits(account, "now", NOW, WORKLOAD) for account in ACCOUNTS)

PERFORMANCE = """\
# Performance

Entries of the ledger that the balance report looks at, counted by `python tools/workload.py`
(600 transactions, 1,200 entries). Before: every account looked at every entry. Now: the first question
adds all accounts up, and the others look nothing up.

| account | before | now |
|---|---:|---:|
""" + "".join(f"| {a} | «{old.name}» | «{new.name}» |\n" for a, old, new in zip(ACCOUNTS, BEFORE, AFTER, strict=True))

TASK = Task(
    title="What was measured, on record",
    prompt=(
        "Task 9. Write docs/performance.md: a table `| account | before | now |` of the visits that tools/workload.py "
        "counts, before being what you measured in task 3, for expenses, expenses:lisbon, expenses:turin:travel and "
        "total. Tests: tests/test_task_09.py."
    ),
    steps=(
        ScriptStep(f"Measure what it takes today: {NOW}.", (explore(NOW), shell(WORKLOAD))),
        ScriptStep(
            "Each entry is visited once, by the first account.",
            (
                end(
                    NOW,
                    "tools/workload.py today: «total_now» visits in all, all of them by the first account asked for.",
                ),
                act("record-performance", on=(NOW,)),
            ),
            needs=(AFTER[-1],),
        ),
        ScriptStep("Write down both.", (write("docs/performance.md", PERFORMANCE),), needs=(*BEFORE, *AFTER)),
        ScriptStep(
            "Run all tests, the new ones among them, which ends this act.", (check(), end("record-performance"))
        ),
        ScriptStep("docs/performance.md has the visits of the four rows, before and now. All tests pass."),
    ),
)
