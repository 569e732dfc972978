"""Task 1, a bug: splitting an amount loses a cent. Task 5 needs the findings again."""

from wane.scripted.demo.moves import Fact, Look, ScriptStep, Task, block, check, rewrite, try_out
from wane.scripted.model_calls import act, end, explore, listing, search

MONEY = "tally/money.py"

SPLIT_EVENLY = '''
def split_evenly(total: Money, parts: int) -> list[Money]:
    """Share an amount out into parts that are equal to the unit; the first shares take what does not divide.

    Args:
        total: what is shared out.
        parts: into how many parts.

    Raises:
        MoneyError: for fewer than one part.
    """
    if parts < 1:
        raise MoneyError(f"an amount cannot be split into {parts} parts")
    share, left = divmod(abs(total.units), parts)
    sign = -1 if total.amount < 0 else 1
    units = [share + 1] * left + [share] * (parts - left)
    return [Money.from_units(sign * count, total.currency) for count in units]
'''

DEFAULT_DIGITS = Fact("default_digits", r"^DEFAULT_DIGITS = (\d+)", path=MONEY)

TASK = Task(
    title="A split loses no cent",
    prompt=(
        "Task 1. Splitting 100.00 EUR three ways gives 33.33 three times, so a cent is lost. The shares must add up, "
        "and where it does not divide the first ones are larger; in any currency. tests/test_task_01.py has it."
    ),
    steps=(
        ScriptStep(
            "Find where amounts are split, and see what the project consists of.",
            (explore("splitting"), search("split_evenly"), listing("*.py")),
            think="A lost cent smells of rounding each share by itself. Look for the function and its callers first.",
        ),
        ScriptStep("Read how amounts are rounded.", (Look(block(MONEY, "def split_evenly(", "def units(")),)),
        ScriptStep(
            "The shares are rounded one by one. Whole units avoid that.",
            (
                end(
                    "splitting",
                    "tally/money.py: `split_evenly(total: Money, parts: int) -> list[Money]` rounds each share by "
                    "itself. Exact work is done in whole units: `Money.units` (int, cents for EUR) and "
                    "`Money.from_units(units, currency)`. Currencies that are not listed in CURRENCY_DIGITS have "
                    "«default_digits» digits. `allocate(total, weights)` is exact already. Nothing else calls "
                    "split_evenly.",
                ),
                act("fix-split", on=("splitting",)),
                try_out("tests.test_task_01"),
            ),
            needs=(DEFAULT_DIGITS,),
        ),
        ScriptStep(
            "Count in whole units, and give what is left to the first shares.",
            (rewrite(MONEY, "def split_evenly(", SPLIT_EVENLY),),
        ),
        ScriptStep("Run the new tests, and all others.", (check("tests.test_task_01"), check("-v"))),
        ScriptStep("All pass.", (end("fix-split"),)),
        ScriptStep(
            "`split_evenly` counts in whole units now, so the shares add up; the first ones take the rest. All tests "
            "pass."
        ),
    ),
)
