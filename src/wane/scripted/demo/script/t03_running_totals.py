"""Task 3, speed: balances look at every entry. Task 9 asks for the measurement before the change."""

from wane.scripted.demo.moves import Fact, Look, ScriptStep, Task, block, check, rewrite, swap, try_out
from wane.scripted.model_calls import act, end, explore, search, shell

LEDGER = "tally/ledger.py"
WORKLOAD = '"${PYTHON:-python3}" tools/workload.py'
BASELINE = "baseline-work"

TOTAL_BEFORE = Fact("total_before", r"^total +(\d+)$", episode=BASELINE)

INIT_OLD = "        self.visited = 0"
INIT_NEW = """
        self.visited = 0
        self._totals: dict[str, Balance] | None = None
"""

BALANCE = '''
    def balance(self, account: str) -> Balance:
        """Return what an account holds, with all accounts below it.

        Raises:
            LedgerError: if nothing was ever posted to it or below it.
        """
        total = self._account_totals().get(account)
        if total is None:
            raise LedgerError(f"there is no account {account!r}; `tally accounts` lists them")
        return Balance(total)

    def _account_totals(self) -> dict[str, Balance]:
        """Return what every account holds; added up once, when it is first asked for."""
        if self._totals is None:
            self._totals = {}
            for entry in self.entries:
                self.visited += 1
                for account in parents(entry.account):
                    self._totals.setdefault(account, Balance()).add(entry.money)
        return self._totals
'''

TASK = Task(
    title="Balances are added up once",
    prompt=(
        "Task 3. The balance report is slow, because every account looks at every entry. Measure it with "
        "tools/workload.py before you change anything, we will want these numbers later. Then have `Ledger.balance` "
        "add up once. tests/test_task_03.py says how little may be visited."
    ),
    steps=(
        ScriptStep(
            f"Measure first, before anything is changed: {BASELINE}.",
            (explore(BASELINE), shell(WORKLOAD)),
        ),
        ScriptStep(
            "Every account visits every entry.",
            (
                end(
                    BASELINE,
                    "tools/workload.py (600 transactions, 1,200 entries) before any change to the ledger: every "
                    "account visits every entry, «total_before» visits in all. The table by account is this episode's "
                    "output; it cannot be measured again once the code has changed, so recall it when the numbers are "
                    "wanted.",
                ),
                explore("ledger-balances"),
                search(r"\.balance\(|\.visited"),
            ),
            needs=(TOTAL_BEFORE,),
        ),
        ScriptStep("Read the ledger.", (Look(block(LEDGER, "def balance(", "def __init__(self, transactions")),)),
        ScriptStep(
            "The ledger never changes after it is built, so totals can be kept.",
            (
                end(
                    "ledger-balances",
                    "tally/ledger.py: a Ledger is built once and then only read; `Ledger.balance(account)` scans "
                    "self.entries and counts each in self.visited. `parents(account)` yields an account and all above "
                    "it, so one pass over the entries can fill all totals. Callers: tally/report.py balance_report.",
                ),
                act("keep-totals", on=("ledger-balances",)),
                try_out("tests.test_task_03"),
            ),
        ),
        ScriptStep(
            "Keep the totals of all accounts.",
            (swap(LEDGER, INIT_OLD, INIT_NEW), rewrite(LEDGER, "def balance(", BALANCE)),
            think="balance must hand out copies: a caller could add to what it gets.",
        ),
        ScriptStep(
            "Run the tests, and measure again, which ends this act.",
            (check(), shell(WORKLOAD), end("keep-totals")),
        ),
        ScriptStep("`Ledger.balance` adds all accounts up once, when the first is asked for. All tests pass."),
    ),
)
