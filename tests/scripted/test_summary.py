"""What the scripted model writes when it is asked for a summary."""

from __future__ import annotations

from tests.scripted.requests import reply_messages, request, user
from wane.core import chars
from wane.scripted.sight import Sight
from wane.scripted.summary import SUMMARY_TOKENS, summarise
from wane.strategies.acon import OBSERVATION

HISTORY = "Summarise.\n\n<messages>\nUser: Task 1. Double the price.\nAssistant: 1.2 Read it.\n</messages>"
OUTPUT = """\
[shop.py | 9 lines]
     1\tTAX = 3
     2\t
     3\tdef price(n):
     4\t    return n
     5\t
     6\tdef stock():
     7\t    \"\"\"What is left in the shop, of everything that there is to be had.\"\"\"
     8\t    return 4
"""


def ask_summary(text: str) -> str:
    return summarise(request(user(text), tools=())).text or ""


def test_a_summary_says_where_the_model_is_and_it_goes_on_from_there() -> None:
    summary = ask_summary(HISTORY)
    assert summary == "What the user has asked for:\nTask 1. Double the price.\nI am at 1.2 of my plan."
    left = Sight(request(user("Task 1. Double the price."), user(f"A summary:\n\n{summary}")))
    assert (left.number, left.at) == (1, "2")
    # An earlier summary says it as well, and what the model said since counts more.
    assert ask_summary(f"Summarise.\n\nUser: A summary:\n\n{summary}").endswith("I am at 1.2 of my plan.")
    later = Sight(request(user(summary), *reply_messages("1.3")))
    assert (later.number, later.at) == (1, "3")


def test_a_new_task_begins_at_its_beginning() -> None:
    left = Sight(request(user(ask_summary(HISTORY)), user("Task 2. Halve it.")))
    assert (left.number, left.at) == (2, "")


def test_a_summary_is_bounded() -> None:
    tasks = "\n".join(f"User: Task {number}. {'Do more. ' * 100}" for number in range(1, 40))
    summary = ask_summary(f"Summarise.\n\n<messages>\n{tasks}\n</messages>")
    assert "Task 39." in summary
    assert "Task 1." not in summary
    assert chars(summary) < SUMMARY_TOKENS + 50


def test_an_output_keeps_the_blocks_that_the_task_names() -> None:
    prompt = OBSERVATION.replace("{output}", OUTPUT)
    shortened = ask_summary(f"{prompt}\n\n<messages>\nUser: Task 1. Double the price.\n</messages>")
    assert shortened == "     3\tdef price(n):\n     4\t    return n\n     5\t\n[6 lines left out]"
