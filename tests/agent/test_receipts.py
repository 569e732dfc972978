"""Receipts of the agent's requests: what the journal gives back is what the provider received."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.agent.provider import DIRECT, serve
from tests.agent.work import Work, task, working
from tests.marks import first_quick
from wane.cli.sessions.removing import delete_sessions
from wane.cli.top_commands import DeleteOptions
from wane.journal import SentRequest, sent_requests
from wane.testing import HttpError, Reply

WIRES = ("openai_model", "openai_responses_model", "anthropic_model", "google_model")


def rebuilt(at: Work) -> list[SentRequest]:
    return list(sent_requests(at.records))


@pytest.mark.quick(1)
@pytest.mark.parametrize("strategy", first_quick("cwl", "compact", "none"))
@pytest.mark.parametrize("api", WIRES)
def test_the_journal_gives_back_each_request_as_the_provider_received_it(
    project: Path, api: str, strategy: str
) -> None:
    say = '"Ünïcode" \\ \x1b[0m ' * 9
    replies = [*task(0), *task(1), *task(2)] if strategy == "cwl" else [Reply(f"{n} {say}") for n in range(9)]
    with working(serve(api), project, replies, strategy=strategy, budget=5_000) as at:
        at.run(f"0: {say}", f"1: {say}")
        at.resume()
        at.run(f"2: {say}")
    requests = rebuilt(at)
    assert [request.body for request in requests] == [request.raw for request in at.requests]
    assert {(request.state, request.record.layer) for request in requests} == {("identical", "http")}
    assert all(request.record.url.startswith("http://127.0.0.1:") for request in requests)


def test_a_request_that_failed_has_a_receipt_too(project: Path) -> None:
    with working(serve("anthropic_model"), project, [Reply(error=HttpError(503)), Reply("Done.")]) as at:
        at.run()
    first, second = rebuilt(at)
    assert first.body == second.body == at.requests[-1].raw
    assert second.record.pieces == ([0, len(first.record.pieces or ())],)


def test_of_a_model_that_shows_no_request_it_says_what_was_handed_over(project: Path) -> None:
    with working(serve(DIRECT), project, [Reply("Done.")]) as at:
        at.run("Do it.")
    (request,) = rebuilt(at)
    assert (request.state, request.record.layer) == ("identical", "model")
    assert request.body is not None
    assert b"Do it." in request.body
    assert b"read_file" in request.body


def test_a_deleted_turn_is_gone_from_the_session_which_goes_on(project: Path) -> None:
    secret, other = "Call Jane Doe of 7 Elm Street about it.", "And the other one, please, as it was agreed upon."
    with working(serve(DIRECT), project, [*task(0), *task(1), Reply("Done.")], budget=5_000) as at:
        at.run(secret, other)
        at.session.close()
        links = [request.record.chain for request in rebuilt(at)]
        assert delete_sessions(DeleteOptions(names=[str(at.session.id)], turn=1)) == 0
        assert b"Elm Street" not in at.path.read_bytes()
        assert b"as it was agreed upon" in at.path.read_bytes()
        requests = rebuilt(at)
        assert [request.record.chain for request in requests] == links
        assert {request.state for request in requests} == {"deleted"}
        at.resume()
        assert at.run("Go on.").output == "Done."
    assert rebuilt(at)[-1].state == "identical"
