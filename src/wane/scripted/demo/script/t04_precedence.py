"""Task 4, a feature: `and` binds more tightly than `or`, and parentheses group. The model edits too early once."""

from wane.scripted.demo.moves import Look, Replace, ScriptStep, Task, block, check, rewrite, try_out
from wane.scripted.model_calls import act, end, explore, search

QUERY = "tally/query.py"

EXPRESSION = """
    def expression(self) -> Query:
        left = self.conjunction()
        while (token := self.peek()) is not None and token.kind == "or":
            self.take()
            left = Or(left, self.conjunction())
        return left

    def conjunction(self) -> Query:
        left = self.operand()
        while (token := self.peek()) is not None and token.kind not in ("or", ")"):
            if token.kind == "and":
                self.take()
            left = And(left, self.operand())
        return left
"""

OPERAND = """
    def operand(self) -> Query:
        token = self.take()
        if token.kind == "not":
            return Not(self.operand())
        if token.kind == "(":
            inner = self.expression()
            if self.take().kind != ")":
                raise QueryError("a parenthesis is not closed")
            return inner
        if token.kind == "term":
            return Term(token.text, _test_of(token, self.today))
        raise QueryError(f"{token.text!r} was not expected here")
"""

EDITS: tuple[Replace, ...] = (rewrite(QUERY, "def expression(", EXPRESSION), rewrite(QUERY, "def operand(", OPERAND))

TASK = Task(
    title="Queries have precedence",
    prompt=(
        "Task 4. `railway or landlord and date:2024-01` is read from left to right. `and` should bind more tightly "
        "than `or`, two terms side by side are joined with `and`, and parentheses group. tests/test_task_04.py has "
        "examples."
    ),
    steps=(
        ScriptStep("See what queries are made of.", (explore("queries"), search("Query|expression|operand"))),
        ScriptStep(
            "Read the parser of queries.", (Look(block(QUERY, "def expression(", "def operand(", "def tokenize(")),)
        ),
        ScriptStep("The tokens have parentheses already; the grammar is missing. Write it.", EDITS),
        ScriptStep(
            "Right, an exploration is no place for edits.",
            (
                end(
                    "queries",
                    "tally/query.py: `parse_query(text, today) -> Query`; a Query has `matches(entry)` and "
                    "`select(entries)`. `_Parser.expression` joins operands from left to right without precedence; "
                    "tokenize yields `(` and `)` already, nothing uses them. Errors are QueryError.",
                ),
                act("precedence", on=("queries",)),
                try_out("tests.test_task_04"),
            ),
        ),
        ScriptStep("A level for `or`, one for `and`, and parentheses.", EDITS),
        ScriptStep("Run all tests, the new ones among them, which ends this act.", (check(), end("precedence"))),
        ScriptStep("`and` binds more tightly than `or` now, and parentheses group. All tests pass."),
    ),
)
