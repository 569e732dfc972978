"""Task 6, a feature on top of task 3: the balance on a day. Its exploration of the command line serves task 7."""

from wane.scripted.demo.moves import Fact, Look, ScriptStep, Task, block, check, rewrite, swap, try_out
from wane.scripted.demo.script.t03_running_totals import LEDGER
from wane.scripted.demo.script.t05_spread import REPORT
from wane.scripted.model_calls import act, end, explore, search

CLI = "tally/cli.py"

TOTALS = Fact("totals", r"(self\._\w+): dict\[str, Balance\] \| None", path=LEDGER)

BISECT_OLD = """
from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
"""
BISECT_NEW = """
from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator, Sequence
"""

BALANCE = '''
    def balance(self, account: str, on: date | None = None) -> Balance:
        """Return what an account holds, with all accounts below it.

        Args:
            account: the account.
            on: at the end of this day; None for the end of the ledger.

        Raises:
            LedgerError: if nothing was ever posted to it or below it.
        """
        history = self._histories().get(account)
        if history is None:
            raise LedgerError(f"there is no account {account!r}; `tally accounts` lists them")
        place = len(history)
        if on is not None:
            self.visited += 1
            place = bisect.bisect_right(history, on, key=lambda row: row[0])
        return Balance(history[place - 1][1]) if place else Balance()
'''

HISTORIES = '''
    def _histories(self) -> dict[str, list[tuple[date, Balance]]]:
        """Return what every account held after each day; added up once, when it is first asked for."""
        if «totals» is None:
            «totals» = {}
            for entry in self.entries:
                self.visited += 1
                for account in parents(entry.account):
                    history = «totals».setdefault(account, [])
                    if not history or history[-1][0] != entry.date:
                        history.append((entry.date, Balance(history[-1][1]) if history else Balance()))
                    history[-1][1].add(entry.money)
        return «totals»
'''

TASK = Task(
    title="A balance on a day",
    prompt=(
        "Task 6. `tally balance --on 2024-01-31` should show what the accounts held at the end of that day, and "
        "`Ledger.balance` should take the day as a second argument. It must stay as cheap as task 3 made it. Tests: "
        "tests/test_task_06.py."
    ),
    steps=(
        ScriptStep(
            "See what the ledger keeps by now.",
            (explore("ledger-totals"), Look(block(LEDGER, "def balance(", "def _account_totals("))),
        ),
        ScriptStep(
            "The totals can be kept by day. Next, the command line.",
            (
                end(
                    "ledger-totals",
                    "tally/ledger.py keeps what every account holds in `«totals»: dict[str, Balance] | None = None`, "
                    "filled by _account_totals on the first question. A list of (day, balance) for each account, "
                    "searched with bisect, gives any day.",
                ),
                explore("command-line"),
                search("balance_report|run_balance"),
            ),
            needs=(TOTALS,),
        ),
        ScriptStep(
            "Read the command line.",
            (Look((*block(CLI, "def run_balance(", "def build_parser("), *block(REPORT, "def balance_report("))),),
        ),
        ScriptStep(
            "It is one option more, handed on to the report.",
            (
                end(
                    "command-line",
                    "tally/cli.py: each command is added in build_parser with `_add(commands, name, run_name, help)` "
                    "and is a function run_name(options, journal) -> str; `_day` is the argparse type of dates, "
                    "queries are parsed with parse_query(' '.join(options.query), _today(options)), reports drawn with "
                    "draw(...). main() catches ParseError, LedgerError, MoneyError and OSError, but not PeriodError "
                    "and QueryError.",
                ),
                act("balance-on-a-day", on=("ledger-totals", "command-line")),
                try_out("tests.test_task_06 -v"),
            ),
        ),
        ScriptStep(
            "The ledger first.",
            (
                swap(LEDGER, BISECT_OLD, BISECT_NEW),
                swap(
                    LEDGER,
                    "        self._totals: dict[str, Balance] | None = None",
                    "        self._totals: dict[str, list[tuple[date, Balance]]] | None = None",
                ),
                rewrite(LEDGER, "def balance(", BALANCE),
                rewrite(LEDGER, "def _account_totals(", HISTORIES),
            ),
            needs=(TOTALS,),
        ),
        ScriptStep(
            "Nothing of the old may break.", (check("tests.test_task_03 tests.test_ledger tests.test_report -v"),)
        ),
        ScriptStep(
            "Then the report and the option.",
            (
                swap(
                    REPORT,
                    "def balance_report(ledger: Ledger, *, within: str | None = None, depth: int | None = None) -> "
                    "Table:",
                    """
def balance_report(
    ledger: Ledger, *, within: str | None = None, depth: int | None = None, on: date | None = None
) -> Table:
""",
                ),
                swap(
                    REPORT, "        balance = ledger.balance(account)", "        balance = ledger.balance(account, on)"
                ),
                swap(
                    REPORT,
                    "    total = Balance(entry.money for entry in ledger.select(within=within))",
                    "    total = Balance(e.money for e in ledger.select(within=within) if on is None or e.date <= on)",
                ),
                swap(
                    CLI,
                    """    command.add_argument("--depth", type=int, help="only so many levels of accounts")""",
                    """
    command.add_argument("--depth", type=int, help="only so many levels of accounts")
    command.add_argument("--on", type=_day, default=None, help="at the end of this day (default: of the journal)")
""",
                ),
                swap(
                    CLI,
                    "    return draw(balance_report(journal.ledger(), within=_account(options.account, journal), "
                    "depth=options.depth))",
                    """
    within = _account(options.account, journal)
    return draw(balance_report(journal.ledger(), within=within, depth=options.depth, on=options.on))
""",
                ),
            ),
        ),
        ScriptStep("Run the new tests, and all others.", (check("tests.test_task_06"), check())),
        ScriptStep("All pass.", (end("balance-on-a-day"),)),
        ScriptStep(
            "`Ledger.balance` takes a day, and `tally balance --on` shows it. Each entry is still visited once. All "
            "tests pass."
        ),
    ),
)
