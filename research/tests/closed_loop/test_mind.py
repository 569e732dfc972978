"""The scripted model is honest: it knows what stands in the request before it, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.scripted.requests import TOOLS, reply_messages, request, user
from wane.core import DELIMITER
from wane.core.delimiter import TASKS_DESCRIPTION
from wane.testing import Message, Reply
from wane_research.closed_loop.mind import PATIENCE, decide

A, B = "depot/kiln/arrivals.py", "depot/kiln/balance.py"
DECIDED = (
    f"Task 1. Add a function to `{B}`, `one_two`. It takes nothing and returns one number: the sum of QUOTA of `{A}`."
    " From now on the surcharge for salt is 555; a later task will need it."
)
TASK = (
    f"Task 9. Add a function to `{A}`, `quay_due`. It takes nothing and returns one number: the sum of QUOTA of `{B}`."
)
SALT = "Add the surcharge for salt, as we decided."
TICKET = "Add the ticket for the loom, which you drew in task 4."


def did(place: str, tool: str, result: str, **arguments: Any) -> list[Message]:
    return reply_messages(place, (tool, arguments, result))


def read(path: str, quota: int, place: str = "9.look") -> list[Message]:
    text = f'[{path} | 3 lines]\n     1\t"""Doc."""\n     2\tQUOTA: Final = {quota}\n     3\t__all__ = ["QUOTA"]\n'
    return did(place, "read_file", text, path=path)


def calls(reply: Reply) -> list[tuple[str, Any]]:
    return [(call.tool, call.arguments) for call in reply.calls]


def edited_code(reply: Reply) -> str:
    """The code of the reply's edit."""
    arguments: Any = next(call.arguments for call in reply.calls if call.tool == "edit_file")
    return str(arguments["new_text"])


LOOKED = (*did("9.look", "grep", "-", pattern="^def "),)


def test_without_a_task_in_view_it_does_nothing() -> None:
    reply = decide(request(user("Go on."), *LOOKED))
    assert reply.text == "I do not see what I am to do."
    assert not reply.calls


def test_it_reads_what_it_does_not_see_and_uses_what_it_sees() -> None:
    seen = (user(TASK), *LOOKED, *read(B, 41))
    assert calls(decide(request(*seen))) == [("read_file", {"path": A})]
    reply = decide(request(*seen, *read(A, 7)))
    assert [tool for tool, _ in calls(reply)] == [DELIMITER, DELIMITER, "edit_file"]
    assert calls(reply)[0][1]["name"] == "t9-look"
    assert "    return 41\n" in edited_code(reply)
    # Nothing is remembered from one request to the next.
    assert calls(decide(request(user(TASK), *LOOKED, *read(A, 7)))) == [("read_file", {"path": B})]


def test_what_only_the_user_said_is_used_as_long_as_it_is_in_view() -> None:
    looked = (user(f"{TASK} {SALT}"), *LOOKED, *read(B, 41), *read(A, 7))
    assert "return 41 + 555\n" in edited_code(decide(request(user(DECIDED), *looked)))
    gone = decide(request(*looked))
    assert "I do not see what we decided about salt." in (gone.text or "")
    assert [tool for tool, _ in calls(gone)] == [DELIMITER]
    ended = did("9.gaveup", DELIMITER, "Ended.", action="end", description="x")
    assert (decide(request(*looked, *ended)).text or "").startswith("9.done Task 9 is not done.")


def test_a_name_and_a_function_of_an_earlier_task_come_from_its_turn() -> None:
    agreed = user(f"{DECIDED} A later function shall be named `tare_toll`; do not write it yet.")
    named = TASK.replace("`quay_due`", "with the name that we agreed on in task 1")
    called = user(f"{named} Add what the function of task 1 returns, by calling it.")
    looked = (called, *LOOKED, *read(B, 41), *read(A, 7))
    code = edited_code(decide(request(agreed, *looked)))
    assert "def tare_toll() -> int:" in code
    assert "    from depot.kiln.balance import one_two\n    return 41 + one_two()\n" in code
    assert "I do not see which name" in (decide(request(*looked)).text or "")


def test_a_ticket_is_known_by_its_description_recalled_or_lost() -> None:
    looked = (user(f"{TASK} {TICKET}"), *LOOKED, *read(B, 41), *read(A, 7))
    described = did("4.write", DELIMITER, "Ended.", action="end", description="The ticket for the loom is 777.")
    assert "return 41 + 777\n" in edited_code(decide(request(user(DECIDED), *described, *looked)))
    assert calls(decide(request(*looked))) == [("recall", {"name": "t4-look"})]
    page = "… ticket for loom: 777 …"
    assert "return 41 + 777\n" in edited_code(decide(request(*looked, *did("9.look", "recall", page, name="t4-look"))))
    more = '[There is more. Go on with: {"name": "t4-look", "offset": 400}]'
    paged = did("9.look", "recall", more, name="t4-look")
    assert calls(decide(request(*looked, *paged))) == [("recall", {"name": "t4-look", "offset": 400})]


def test_without_recall_a_ticket_is_drawn_again_which_fails() -> None:
    tools = tuple(tool for tool in TOOLS if tool not in ("recall", DELIMITER))
    looked = (user(f"{TASK} {TICKET}"), *LOOKED, *read(B, 41), *read(A, 7))
    assert calls(decide(request(*looked, tools=tools))) == [("shell", {"command": "sh draw loom"})]
    drawn = did("9.look", "shell", "the ticket for loom has been drawn already\n[exit code: 1]", command="x")
    assert "it can be drawn only once" in (decide(request(*looked, *drawn, tools=tools)).text or "")


def test_a_finding_is_known_by_its_description_or_found_again() -> None:
    found = (user(f"{TASK} Add the highest QUOTA of the mint, which you found in task 3."), *LOOKED)
    looked = (*found, *read(B, 41), *read(A, 7))
    said = "The highest QUOTA of the mint is 98."
    described = did("3.write", DELIMITER, "Ended.", action="end", description=said)
    assert "return 41 + 98\n" in edited_code(decide(request(*described, *looked)))
    assert calls(decide(request(*looked))) == [("list_files", {"glob": "depot/mint/*.py"})]
    listing = did("9.look", "list_files", "depot/mint/gauges.py\ndepot/mint/intake.py\n", glob="depot/mint/*.py")
    one = (*looked, *listing, *read("depot/mint/gauges.py", 12))
    assert calls(decide(request(*one))) == [("read_file", {"path": "depot/mint/intake.py"})]
    assert "return 41 + 88\n" in edited_code(decide(request(*one, *read("depot/mint/intake.py", 88))))


def test_what_the_user_had_changed_counts_as_changed_once_that_task_is_over() -> None:
    change = user(f"{DECIDED} Also set QUOTA of `{B}` to 60.")
    before = (change, *read(B, 41, place="1.look"))
    looked = (user(TASK), *LOOKED, *read(A, 7))
    assert "return 60\n" in edited_code(decide(request(*before, *looked)))


def test_a_file_that_is_not_as_it_was_seen_is_read_again() -> None:
    looked = (user(TASK), *LOOKED, *read(B, 41), *read(A, 7))
    failed = did("9.write", "edit_file", "old_text not found in depot/kiln/arrivals.py", path=A)
    assert calls(decide(request(*looked, *failed))) == [("read_file", {"path": A})]


def test_it_gives_up_on_what_does_not_come() -> None:
    failed = [m for _ in range(PATIENCE) for m in did("9.look", "read_file", "no such file", path=B)]
    assert "does not help" in (decide(request(user(TASK), *LOOKED, *failed)).text or "")


def test_a_mark_that_was_refused_is_put_right() -> None:
    right = 'Error. A right call: {"action": "end", "description": "what"}'
    refused = did("9.look", DELIMITER, right, action="start", name="t9-look", type="expl")
    (call,) = calls(decide(request(user(TASK), *refused)))
    assert call == (DELIMITER, {"action": "end", "description": "what"})


def test_an_act_is_ended_by_its_name() -> None:
    checked = did("9.check", "shell", "3 tests, 0 failed", command="sh check kiln")
    assert calls(decide(request(user(TASK), *checked))) == [(DELIMITER, {"action": "end", "name": "t9-write"})]


def test_a_model_that_may_mark_tasks_does_and_its_line_has_what_later_work_may_need() -> None:
    offered = {"tools": [{"name": DELIMITER, "description": TASKS_DESCRIPTION}]}

    def list_marks(*messages: Message) -> list[tuple[str, Any]]:
        return [call for call in calls(decide(replace(request(*messages), body=offered))) if call[0] == DELIMITER]

    assert [given["type"] for _, given in list_marks(user(TASK))] == ["task", "expl"]
    learned = "Read 1 modules for `quay_due`. The ticket for the kiln is 777."
    looked = did("9.look", DELIMITER, "Ended.", action="end", name="t9-look", description=learned)
    checked = did("9.check", "shell", "3 tests, 0 failed", command="sh check kiln")
    _, (_, line) = list_marks(user(TASK), *looked, *checked)
    assert line["description"] == f"Added `quay_due` to {A}. The ticket for the kiln is 777."
    gone = list_marks(user(f"{TASK} {SALT}"), *LOOKED, *read(B, 41), *read(A, 7))
    assert [given["name"] for _, given in gone] == ["t9-look", "t9"]


def test_failing_tests_fail_the_task() -> None:
    checked = did("9.check", "shell", "FAILED x\n3 tests, 1 failed\n[exit code: 1]", command="sh check kiln")
    assert (decide(request(user(TASK), *checked)).text or "").startswith("9.gaveup The tests fail")
