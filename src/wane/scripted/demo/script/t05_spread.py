"""Task 5, a feature on top of tasks 1 and 2: spread a transaction over months."""

from wane.scripted.demo.moves import Fact, Look, ScriptStep, Task, block, check, rewrite, swap, try_out
from wane.scripted.demo.script.t01_split import MONEY
from wane.scripted.demo.script.t02_comments import TAG_WITHOUT_VALUE
from wane.scripted.model_calls import act, end, explore, search

REPORT, DATES = "tally/report.py", "tally/dates.py"

SIGNATURE = Fact("signature", r"(split_evenly\(total: Money, parts: int\) -> list\[Money\])", path=MONEY)

SHIFT_MONTHS = '''
def shift_months(day: date, months: int) -> date:
    """Return the same day so many months later, or earlier if negative; the last day of a month that is too short."""
    index = day.year * 12 + day.month - 1 + months
    year, month = index // 12, index % 12 + 1
    return date(year, month, min(day.day, calendar.monthrange(year, month)[1]))
'''

IMPORTS_OLD = """
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date

from tally.dates import Period, month_label, month_of, months
from tally.ledger import Entry, Ledger, depth_of, is_within
from tally.money import Balance, Money, format_money
"""
IMPORTS_NEW = """
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import date

from tally.dates import Period, month_label, month_of, months, shift_months
from tally.ledger import Entry, Ledger, depth_of, is_within
from tally.money import Balance, Money, format_money, split_evenly
"""

MONTHLY_REPORT = '''
def monthly_report(ledger: Ledger, period: Period | None = None, *, within: str = "expenses", depth: int = 2) -> Table:
    """Make the table of accounts by months; what the tag `spread` spreads counts in each of its months.

    Args:
        ledger: what to report on.
        period: months to show; from the first transaction to the last if None.
        within: only this account and those below it.
        depth: accounts are cut to so many names.
    """
    entries = list(spread(ledger.select(within=within)))
    period = period or _reaching(ledger.span(), entries)
    shown = list(months(period)) if period else []
    table = Table([Column("account"), *(Column(month_label(month), right=True) for month in shown)])
    totals = monthly_totals(entries, depth)
    for account in sorted(totals):
        cells = [amounts(totals[account].get(month.start, Balance())) for month in shown]
        if any(cell != NOTHING for cell in cells):
            table.add(account, *cells)
    sums = [_column_total(totals, month.start) for month in shown]
    table.footer = ["total", *map(amounts, sums)]
    return table


def spread(entries: Iterable[Entry]) -> Iterator[Entry]:
    """Yield entries; one with the tag `spread:N` as N shares, a month apart each."""
    for entry in entries:
        value = entry.tags.get("spread", "")
        parts = int(value) if value.isdecimal() and int(value) else 1
        if parts == 1:
            yield entry
            continue
        for number, share in enumerate(split_evenly(entry.money, parts)):
            moved = replace(entry.transaction, date=shift_months(entry.date, number))
            yield Entry(moved, replace(entry.posting, money=share))


def _reaching(span: Period | None, entries: Sequence[Entry]) -> Period | None:
    """The days of the ledger, and on to the last of some entries."""
    if span is None:
        return None
    last = max((month_of(entry.date).end for entry in entries), default=span.end)
    return Period(span.start, max(span.end, last))
'''

TASK = Task(
    title="The monthly report spreads",
    prompt=(
        "Task 5. A yearly insurance makes one month of the monthly report look bad. A transaction with the tag "
        "`#spread:3` should count in three months from its own on, split to the cent as in task 1; a spread that is no "
        "number above zero counts once. Mind the 31st. Tests: tests/test_task_05.py."
    ),
    steps=(
        ScriptStep(
            "See how the months are added up.",
            (explore("monthly-report"), search("monthly_|shift_months", "tally/*.py")),
        ),
        ScriptStep(
            "Read the reports, and how dates are shifted.",
            (Look((*block(REPORT, "def monthly_report(", "def monthly_totals("), *block(DATES, "def shift_months("))),),
            think="The 31st of January shifted by a month is no date. That is a trap in dates.py, not in the report.",
        ),
        ScriptStep(
            "The report selects entries and adds them up, so spreading can go in between.",
            (
                end(
                    "monthly-report",
                    "tally/report.py: monthly_report takes `ledger.select(within=...)` and adds up with monthly_totals "
                    "by month_of(entry.date).start. tally/dates.py: shift_months(day, months) uses date.replace and "
                    "fails for a day that the month does not have.",
                ),
                explore("how-reports-are-tested"),
            ),
        ),
        ScriptStep(
            "Look how the reports are tested.",
            (Look((*block("tests/test_report.py", "class Reports("), *block("tests/journals.py", "def household("))),),
        ),
        ScriptStep(
            "The tests build a journal and look at rows.",
            (
                end(
                    "how-reports-are-tested",
                    "tests/journals.py has household(), a journal with expenses in January and February and income in "
                    "March.",
                ),
                act("spread-entries", on=("monthly-report",)),
                try_out("tests.test_task_05 -v"),
            ),
        ),
        ScriptStep(
            "Dates first: clamp to the month's last day.",
            (rewrite(DATES, "def shift_months(", SHIFT_MONTHS),),
            needs=(SIGNATURE, TAG_WITHOUT_VALUE),
        ),
        ScriptStep(
            "See that nothing else minds.",
            (
                check(
                    "-v tests.test_dates tests.test_query tests.test_cli tests.test_ledger tests.test_money "
                    "tests.test_parser"
                ),
            ),
        ),
        ScriptStep(
            "Now the report: «signature» gives the shares.",
            (swap(REPORT, IMPORTS_OLD, IMPORTS_NEW), rewrite(REPORT, "def monthly_report(", MONTHLY_REPORT)),
            needs=(SIGNATURE,),
        ),
        ScriptStep(
            "Run the new tests, and all others, which ends this act.",
            (check("tests.test_task_05"), check(), end("spread-entries")),
        ),
        ScriptStep(
            "The monthly report spreads what is tagged `#spread:N`, to the cent, and `shift_months` keeps to the "
            "month. All tests pass."
        ),
    ),
)
