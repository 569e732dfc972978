"""The case study for a scripted model: what its steps need, and what the model's summaries hold."""

from __future__ import annotations

from research.tests.evaluation.study import make_study, short_study, summarise

from tests.scripted.requests import request, user
from wane_research.closed_loop.work import Link

NOTED = "Task 6. Add it. Before that, draw the ticket for the kiln with `sh draw kiln`, and note what it says."
DRAWN = "Task 7. Add it. Before that, draw the ticket for the harbor with `sh draw harbor`, and go on."
RESULTS = "ticket for kiln: 90074\nticket for harbor: 12345"


def test_the_steps_need_everything_that_a_context_can_lose() -> None:
    ties = [tie for task in make_study().tasks for tie in task.ties]
    assert {tie.link for tie in ties} == set(Link)
    assert min(tie.distance for tie in ties) >= 3
    short = [(tie.link, tie.giver, tie.user) for task in short_study().tasks for tie in task.ties]
    assert short == [(Link.CODE, 1, 3), (Link.DECISION, 1, 4), (Link.NAME, 2, 4)]


def test_a_summary_holds_what_a_description_tells_and_what_is_at_hand() -> None:
    first = summarise(request(user(f"User: {NOTED}\n\nUser: {DRAWN}\n\nTool: {RESULTS}"), tools=())).text or ""
    assert first.splitlines() == [
        "The ticket for kiln is 90074.",
        "The ticket for harbor is 12345.",
        "What the user has asked for:",
        NOTED,
        DRAWN,
    ]
    # The next one is made of this one, and of the task that has come since.
    second = summarise(request(user(f"User: {first}\n\nUser: Task 8. Add it."), tools=())).text or ""
    assert second.splitlines()[0] == "The ticket for kiln is 90074."
    assert "12345" not in second
