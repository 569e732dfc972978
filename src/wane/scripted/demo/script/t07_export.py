"""Task 7, a feature on top of tasks 4 and 6: export. The model uses a name twice, and is shown a free one."""

from wane.scripted.demo.moves import Fact, Look, ScriptStep, Task, block, check, swap, try_out
from wane.scripted.demo.script.t04_precedence import QUERY
from wane.scripted.demo.script.t05_spread import REPORT
from wane.scripted.demo.script.t06_on_a_day import CLI
from wane.scripted.model_calls import act, end, explore, search

PARSE_QUERY = Fact("parse_query", r"(parse_query\(text(?:: str)?, today(?:: date)?\) -> Query)", path=QUERY)

CSV_REPORT = '''
def csv_report(entries: Iterable[Entry]) -> str:
    """Return entries as CSV with a header: amounts plain, tags as `name` or `name:value`, a space between."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\\n")
    writer.writerow(["date", "payee", "account", "amount", "currency", "tags"])
    for entry in entries:
        money = entry.money.rounded()
        tags = " ".join(f"{name}:{value}" if value else name for name, value in entry.tags.items())
        writer.writerow([entry.date.isoformat(), entry.payee, entry.account, money.amount, money.currency, tags])
    return text.getvalue().removesuffix("\\n")


def payee_report(entries: Iterable[Entry], *, limit: int = 10) -> Table:
'''

RUN_EXPORT = '''
def run_export(options: argparse.Namespace, journal: Journal) -> str:
    """Print the entries that a query selects as CSV."""
    query = parse_query(" ".join(options.query), _today(options))
    return csv_report(query.select(journal.ledger().entries))


def run_monthly(options: argparse.Namespace, journal: Journal) -> str:
'''

COMMAND = """
    command = _add(commands, "export", run_export, "the entries that a query selects, as CSV")
    command.add_argument("query", nargs="*", help="such as: account:food and 'amount>20'")

    command = _add(commands, "monthly", run_monthly, "accounts by months")
"""

TASK = Task(
    title="Export as CSV",
    prompt=(
        "Task 7. `tally export QUERY...` should print what a query selects as CSV: date, payee, account, amount, "
        "currency, tags. Plain amounts, tags as in the journal without the #. Tests: tests/test_task_07.py."
    ),
    steps=(
        ScriptStep("See how the list of entries is made, it is the nearest thing.", (explore("command-line"),)),
        ScriptStep(
            "Find it.",
            (search("entries_report|run_list"), Look((*block(REPORT, "def entries_report(", "def payee_report("),))),
        ),
        ScriptStep(
            "A report of its own, and a command beside `list`.",
            (
                end(
                    "command-line-2",
                    "tally/report.py: entries_report(entries) is the model for an export; Entry has date, payee, "
                    "account, money and tags (a dict). A command `export` goes beside `list` in tally/cli.py.",
                ),
                explore("csv-elsewhere"),
                search("csv|export", "*"),
            ),
        ),
        ScriptStep(
            "Is there anything to follow in the documents?",
            (Look((*block("docs/format.md", "# The journal's format"), *block("tests/test_cli.py", "def run("))),),
        ),
        ScriptStep(
            "Nothing exports yet.",
            (
                end(
                    "csv-elsewhere",
                    "No CSV anywhere yet. tests/test_cli.py has run(*arguments, journal=...) -> (code, out, err).",
                ),
                act("export-csv", on=("command-line", "command-line-2")),
                try_out("tests.test_task_07 -v"),
            ),
        ),
        ScriptStep(
            "The report.",
            (
                swap(
                    REPORT,
                    "from collections.abc import Iterable, Iterator, Sequence",
                    "import csv\nimport io\nfrom collections.abc import Iterable, Iterator, Sequence",
                ),
                swap(REPORT, "def payee_report(entries: Iterable[Entry], *, limit: int = 10) -> Table:", CSV_REPORT),
            ),
            needs=(PARSE_QUERY,),
        ),
        ScriptStep(
            "It must not disturb the other reports.",
            (check("tests.test_report tests.test_task_05 tests.test_task_06 -v"),),
        ),
        ScriptStep(
            "The command, with «parse_query».",
            (
                swap(
                    CLI,
                    "from tally.report import balance_report, draw, entries_report, monthly_report, net_worth, "
                    "payee_report, register_report",
                    """
from tally.report import (
    balance_report,
    csv_report,
    draw,
    entries_report,
    monthly_report,
    net_worth,
    payee_report,
    register_report,
)
""",
                ),
                swap(CLI, """    command = _add(commands, "monthly", run_monthly, "accounts by months")""", COMMAND),
                swap(CLI, "def run_monthly(options: argparse.Namespace, journal: Journal) -> str:", RUN_EXPORT),
            ),
            needs=(PARSE_QUERY,),
        ),
        ScriptStep("Run all tests, the new ones among them, which ends this act.", (check(), end("export-csv"))),
        ScriptStep("`tally export` prints what a query selects as CSV. All tests pass."),
    ),
)
