"""Task 2, a bug: a semicolon in a quoted payee begins a comment. The model forgets to name a dependency."""

from wane.scripted.demo.moves import Fact, Look, ScriptStep, Task, block, check, rewrite, try_out
from wane.scripted.model_calls import act, end, explore, search

PARSER = "tally/parser.py"

STRIP_COMMENT = '''
def _strip_comment(line: str) -> str:
    """Return a line without the comment behind it; a `;` between quotes begins none."""
    quoted = False
    for place, character in enumerate(line):
        if character == '"':
            quoted = not quoted
        elif character == ";" and not quoted:
            return line[:place].rstrip()
    return line.rstrip()
'''

TAG_WITHOUT_VALUE = Fact("tag_without_value", r'one without a value gets ("")', path=PARSER)

TASK = Task(
    title="Quotes protect a semicolon",
    prompt=(
        'Task 2. A payee such as "Smith; Sons" is cut at the semicolon, although it stands in quotes. Titles of '
        "accounts too. What stands behind the comment's own semicolon may hold quotes. See tests/test_task_02.py."
    ),
    steps=(
        ScriptStep("Find where comments are taken off.", (explore("comments"), search("comment"))),
        ScriptStep("Read the reader of journals.", (Look(block(PARSER, "def _strip_comment(", "def parse_tags(")),)),
        ScriptStep(
            "Both the line and its note go through `_strip_comment`, so one change serves.",
            (
                end(
                    "comments",
                    "tally/parser.py: `_strip_comment(line)` cuts at the first `;`, and `_note_of` builds on it, so "
                    "the fix belongs there alone. Tags are parsed by `parse_tags` into Transaction.tags, a dict[str, "
                    "str]; one without a value gets «tag_without_value».",
                ),
                act("fix-comments", on=()),  # as models do
            ),
            needs=(TAG_WITHOUT_VALUE,),
        ),
        ScriptStep("See the tests fail first.", (try_out("tests.test_task_02"),)),
        ScriptStep("Follow the quotes along the line.", (rewrite(PARSER, "def _strip_comment(", STRIP_COMMENT),)),
        ScriptStep("Run all tests, the new ones among them, which ends this act.", (check(), end("fix-comments"))),
        ScriptStep("A semicolon between quotes is an ordinary character now, in payees and titles. All tests pass."),
    ),
)
