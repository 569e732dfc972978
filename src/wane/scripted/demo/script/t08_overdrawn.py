"""Task 8, a bug on top of task 6: an overdrawn envelope is forgiven."""

from wane.scripted.calls import act, end, explore, search
from wane.scripted.demo.moves import Fact, Look, Step, Task, block, check, rewrite, swap, try_out
from wane.scripted.demo.script.t03_running_totals import LEDGER

ENVELOPES = "tally/envelopes.py"

BALANCE_ON = Fact("balance_on", r"(balance\(self, account: str, on: date \| None = None\) -> Balance)", path=LEDGER)

CARRIED = '''
    def carried(self, account: str, month: Period) -> Money:
        """Return what an envelope brings into a month: all that was filled before, without what was spent."""
        budget = self.budget(account)
        if self.start is None or month.start <= self.start:
            return Money.zero(budget.currency)
        filled = budget * sum(1 for _ in months(Period(self.start, month.start)))
        return filled - (self._spent_before(account, month.start) - self._spent_before(account, self.start))

    def _spent_before(self, account: str, day: date) -> Money:
        """Return what was ever spent of an envelope's account before a day."""
        currency = self.budget(account).currency
        try:
            return self.ledger.balance(account, day - timedelta(days=1)).get(currency)
        except LedgerError:
            return Money.zero(currency)  # nothing was ever posted to it
'''

TASK = Task(
    title="Overdrawn stays overdrawn",
    prompt=(
        "Task 8. When an envelope is overdrawn, the next month begins as if nothing had been: the debt should be "
        "carried over. And `carried` adds up every month's entries again; take the balances on a day of task 6. Tests: "
        "tests/test_task_08.py."
    ),
    steps=(
        Step("Find what is carried over.", (explore("envelopes"), search("carried"))),
        Step("Read the envelopes.", (Look(block(ENVELOPES, "def carried(", "def spent(")),)),
        Step(
            "A negative rest is set to zero, month by month.",
            (
                end(
                    "envelopes",
                    "tally/envelopes.py: Envelopes.carried walks the months and sets a negative rest to zero, which is "
                    "the bug. Without that the rest is what was filled minus what was spent since self.start, so two "
                    "balances do. LedgerError means that nothing was ever posted.",
                ),
                act("carry-debt", on=("envelopes",)),
                try_out("tests.test_task_08 -v"),
            ),
        ),
        Step(
            "Fill by months, spend by «balance_on».",
            (
                swap(ENVELOPES, "from datetime import date", "from datetime import date, timedelta"),
                swap(
                    ENVELOPES,
                    "from tally.ledger import Ledger, is_within",
                    "from tally.ledger import Ledger, LedgerError, is_within",
                ),
                rewrite(ENVELOPES, "def carried(", CARRIED),
            ),
            needs=(BALANCE_ON,),
            think="The balance at the end of the day before the month, less the one before the envelopes began.",
        ),
        Step("Run all tests, the new ones among them, which ends this act.", (check("-v"), end("carry-debt"))),
        Step("An overdrawn envelope stays overdrawn, and asking for a month takes two balances. All tests pass."),
    ),
)
