"""Receipts of the agent's requests: what the journal gives back is what the provider received."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.agent.conftest import config
from tests.agent.provider import Direct
from tests.agent.test_session import run, task
from tests.marks import first_quick
from wane.agent.session import AgentSession
from wane.cli.commands import DeleteOptions
from wane.cli.sessions.removing import delete_sessions
from wane.journal import SentRequest, read, sent_requests
from wane.testing import HttpError, Reply, ScriptedServer

WIRES = ("openai_model", "openai_responses_model", "anthropic_model", "google_model")


def rebuilt(session: AgentSession) -> list[SentRequest]:
    assert session.journal is not None
    return list(sent_requests(read(session.journal.path).records))


@pytest.mark.quick(1)
@pytest.mark.parametrize("strategy", first_quick("cwl", "compact", "none"))
@pytest.mark.parametrize("api", WIRES)
def test_the_journal_gives_back_each_request_as_the_provider_received_it(
    project: Path, api: str, strategy: str
) -> None:
    say = '"Ünïcode" \\ \x1b[0m ' * 9
    replies = [*task(0), *task(1), *task(2)] if strategy == "cwl" else [Reply(f"{n} {say}") for n in range(9)]
    with ScriptedServer(replies) as server:
        given = config(project, getattr(server, api)(), strategy=strategy, budget=5_000)
        session = AgentSession.create(given)
        for number in range(3):
            if number == 2:
                session.close()
                assert session.journal is not None
                session = AgentSession.resume(session.journal.path, given)
            run(session, f"{number}: {say}")
        session.close()
        received = [request.raw for request in server.requests]
    requests = rebuilt(session)
    assert [request.body for request in requests] == received
    assert {(request.state, request.record.layer) for request in requests} == {("identical", "http")}
    assert all(request.record.url.startswith(server.url) for request in requests)


def test_a_request_that_failed_has_a_receipt_too(project: Path) -> None:
    with ScriptedServer([Reply(error=HttpError(503)), Reply("Done.")]) as server:
        session = AgentSession.create(config(project, server.anthropic_model()))
        run(session, "Go.")
        session.close()
        first, second = rebuilt(session)
    assert first.body == second.body == server.requests[-1].raw
    assert second.record.pieces == ([0, len(first.record.pieces or ())],)


def test_of_a_model_that_shows_no_request_it_says_what_was_handed_over(project: Path) -> None:
    with Direct([Reply("Done.")]) as model:
        session = AgentSession.create(config(project, model.model()))
        run(session, "Do it.")
        session.close()
    (request,) = rebuilt(session)
    assert (request.state, request.record.layer) == ("identical", "model")
    assert request.body is not None
    assert b"Do it." in request.body
    assert b"read_file" in request.body


def test_a_deleted_turn_is_gone_from_the_session_which_goes_on(project: Path) -> None:
    secret = "Call Jane Doe of 7 Elm Street about it."
    with Direct([*task(0), *task(1), Reply("Done.")]) as model:
        given = config(project, model.model(), budget=5_000)
        session = AgentSession.create(given)
        run(session, secret, "And the other one, please, as it was agreed upon.")
        session.close()
        assert session.journal is not None
        path = session.journal.path
        links = [request.record.chain for request in rebuilt(session)]
        assert delete_sessions(DeleteOptions(names=[session.journal.header.id], turn=1)) == 0
        assert b"Elm Street" not in path.read_bytes()
        assert b"as it was agreed upon" in path.read_bytes()
        requests = rebuilt(session)
        assert [request.record.chain for request in requests] == links
        assert {request.state for request in requests} == {"deleted"}
        again = AgentSession.resume(path, given)
        assert run(again, "Go on.").output == "Done."
        again.close()
    assert rebuilt(again)[-1].state == "identical"
