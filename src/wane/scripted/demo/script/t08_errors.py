"""Task 8, across all modules: one family of errors. A long act, whose exploration must stay in view to its end."""

from wane.scripted.demo.moves import Look, Replace, ScriptStep, Task, block, check, rewrite, swap, try_out
from wane.scripted.demo.script.t06_on_a_day import CLI
from wane.scripted.model_calls import act, end, explore, search, shell, write

ERRORS = '''\
"""What users can get wrong, as one family of errors."""


class TallyError(ValueError):
    """A mistake of the user's; the message says what to write instead."""
'''

MAIN = '''
def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code: 0, or 1 for an error of the user's."""
    options = build_parser().parse_args(arguments)
    try:
        journal = read_journal(Path(options.journal))
        output = options.command(options, journal)
    except (TallyError, OSError) as error:
        print(f"tally: {error}", file=sys.stderr)
        return 1
    print(output)
    return 0
'''


def family(module: str, error: str, behind: str) -> tuple[Replace, Replace]:
    """Return the edits that make an error of a module one of the family; the import goes behind a line."""
    path = f"tally/{module}.py"
    line = "from tally.errors import TallyError"
    if behind.startswith("from tally."):
        imported = f"{behind}\n{line}" if behind < line else f"{line}\n{behind}"
    else:
        imported = f"{behind}\n\n{line}"
    return swap(path, behind, imported), swap(path, f"class {error}(ValueError):", f"class {error}(TallyError):")


TASK = Task(
    title="One family of errors",
    prompt=(
        "Task 8. A mistyped query or period shows a traceback on the command line. Make a `TallyError` in "
        "tally/errors.py, a ValueError, let all errors of the package be of that family, and catch it in one place. "
        "Tests: tests/test_task_08.py."
    ),
    steps=(
        ScriptStep(
            "Which errors are there, and what does each module import?",
            (
                explore("error-classes"),
                search(r"^class \w+Error\(", "tally/*.py"),
                search("^(from|import) ", "tally/*.py"),
            ),
        ),
        ScriptStep(
            "Seven modules have one. Who catches them?",
            (
                end(
                    "error-classes",
                    "Error classes, all of ValueError: MoneyError (money), PeriodError (dates), LedgerError (ledger), "
                    "ParseError (parser), QueryError (query), EnvelopeError (envelopes); CurrencyMismatchError is a "
                    "MoneyError. The exact lines are in this episode's searches.",
                ),
                explore("who-catches"),
                search(r"except |raise \w+Error", "*.py"),
            ),
        ),
        ScriptStep(
            "See what the tests expect, and main.",
            (Look((*block("tests/test_cli.py", "class Commands("), *block(CLI, "def main("))),),
        ),
        ScriptStep(
            "Only main catches for the user.",
            (
                end(
                    "who-catches",
                    "tally/cli.py main() is the one place that turns errors into one line and exit code 1.",
                ),
                act("error-family", on=("error-classes",)),
                write("tally/errors.py", ERRORS),
                try_out("tests.test_task_08 -v"),
            ),
        ),
        ScriptStep(
            "The modules without imports of their own package first.",
            (
                *family("money", "MoneyError", "from decimal import ROUND_HALF_EVEN, Decimal, InvalidOperation"),
                *family("dates", "PeriodError", "from datetime import date, timedelta"),
            ),
        ),
        ScriptStep(
            "The ledger and the queries.",
            (
                *family("ledger", "LedgerError", "from tally.dates import Period"),
                *family("query", "QueryError", "from tally.dates import Period, PeriodError, parse_period"),
            ),
        ),
        ScriptStep(
            "See where that leaves us.",
            (
                shell("git diff"),
                check("tests.test_money tests.test_dates tests.test_ledger tests.test_query -v"),
                check("tests.test_parser tests.test_report tests.test_envelopes tests.test_cli -v"),
            ),
        ),
        ScriptStep(
            "The parser and the envelopes.",
            (
                *family("parser", "ParseError", "from tally.dates import PeriodError, parse_date"),
                *family("envelopes", "EnvelopeError", "from tally.dates import Period, month_label, month_of, months"),
            ),
        ),
        ScriptStep(
            "And the one place that catches.",
            (
                swap(CLI, "from tally.ledger import LedgerError", "from tally.errors import TallyError"),
                swap(CLI, "from tally.money import MoneyError, format_money", "from tally.money import format_money"),
                swap(
                    CLI,
                    "from tally.parser import Journal, ParseError, read_journal",
                    "from tally.parser import Journal, read_journal",
                ),
                swap(CLI, "from tally.query import QueryError, parse_query", "from tally.query import parse_query"),
                rewrite(CLI, "def main(", MAIN),
            ),
        ),
        ScriptStep("Run the new tests, and all others.", (check("tests.test_task_08"), check())),
        ScriptStep("All pass.", (end("error-family"),)),
        ScriptStep(
            "Every mistake of the user's is a `TallyError` now, and one line on the command line. All tests pass."
        ),
    ),
)
