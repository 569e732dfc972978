"""`wane view`: shows a recorded session as a page in the browser, call by call."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from wane.account import NOTHING, Account
from wane.cli import failure
from wane.cli.failure import InputError
from wane.cli.flag_values import AUTO_BUDGET
from wane.cli.lab.arguments import locate_session, newest_here
from wane.cli.lab.common import SCRIPTED_MODEL, UNPAID, check_report, named_lines, page_for
from wane.cli.lab.lab_commands import ViewOptions
from wane.cli.lab.preparing import with_agent_budget
from wane.cli.shared_flags import PRICE
from wane.cli.terminal.browser import open_page
from wane.cli.terminal.text import count_noun, printable, say
from wane.core.errors import JournalError
from wane.journal import read
from wane.journal.records import UNKNOWN_PARENT
from wane.lab.advice import advised_budget, with_advised_budgets, with_window_shares
from wane.lab.readers import gather
from wane.lab.replaying.spent import account_of, account_of_calls
from wane.lab.replaying.strategy_replay import Pricing
from wane.lab.replaying.studying import Studied, study
from wane.lab.report.headline import headline_of
from wane.lab.report.simulating import Fact, budget_and_facts, simulate_sessions
from wane.lab.rereads import rereads
from wane.tuned import usable_tuned


def run_view(options: ViewOptions) -> int:
    check_report(options.output)
    path = Path(locate_session(options.name) if options.name else newest_here())
    gathered = gather([path], options.format, sidechains=True, max_unpacked=options.max_unpacked)
    if not gathered.recordings:
        raise InputError(f"there is nothing to see: no model was called in {path}")
    first, *rest = gathered.recordings
    name = first.session.title or first.session.name
    if first.of > 1:
        say(f"session {first.number} of {first.of} in {first.path}: {name}")
        say(f"name another by its number or title: {first.path}#{1 if first.number > 1 else 2}")
    elif others := [entry for entry in rest if entry.parent is None]:
        say(f"session 1 of {len(others) + 1} in {path}: {name}; the page has the others, too, and figures of this one")
        say(f"name another by its file, such as {others[-1].path}")
    unread = [file.why for file in gathered.unread]
    for line in named_lines("skipped", count_noun(len(unread), "file"), unread, has_json=False):
        say(line)
    from wane.lab.report import write_view

    studied = study(gathered.recordings, Pricing.of(options.price or PRICE), own_prices=options.price is None)
    studied = with_agent_budget(studied, options.agent_budget)
    tuned = usable_tuned(os.environ, say)
    advised = advised_budget(studied[0], tuned)
    if isinstance(options.budget, str):
        studied = with_window_shares(studied, options.budget)
    elif options.budget == AUTO_BUDGET:
        studied = with_advised_budgets(studied, tuned)
    materials = [prepared.subject.material for prepared in studied]
    recorded_budget: int | None = None
    facts: list[Fact] = []
    if materials[0].session.source == "journal":
        # A damaged journal cannot be resumed, but it can be viewed.
        with suppress(JournalError):
            recorded_budget, facts = budget_and_facts(read(path).records)
    page = page_for(f"view-{path.stem or 'session'}") if options.output is None else Path(options.output)
    facts += _of_agents(studied)
    unpaid = f"{SCRIPTED_MODEL}: {UNPAID}" if materials[0].session.scripted else ""
    if unpaid:
        facts.append(("Model", unpaid))
    facts.append(("Budget auto", f"{advised.tokens:,} tokens, {advised.reason}"))
    # A share of the window, and the advised budget, are the sessions' own.
    budget = advised.tokens if isinstance(options.budget, str) else options.budget or advised.tokens
    simulated = simulate_sessions(studied, budget)
    write_view(page, materials, simulated=simulated, budget=recorded_budget, facts=facts, contents=not options.redact)
    if simulated:
        headline = headline_of(materials[0], simulated[0])
        for line in (headline.text, headline.detail):
            if line:
                say(line)
    if unpaid:
        say(unpaid)
    say(str(advised))
    sys.stdout.write(f"{printable(str(page))}\n")
    # A page without a given name is only written to be shown.
    if (options.open_page or options.output is None) and not open_page(page):
        say("there is no browser to show it in; open the file above in one")
    return failure.OK


def _of_agents(studied: Sequence[Studied]) -> list[Fact]:
    """Return what the sub-agents of the first session used and read again; if it is a sub-agent's, whose."""
    first, *others = studied
    session = first.recording.session
    if session.parent:
        parent = "" if session.parent == UNKNOWN_PARENT else f" ({session.parent})"
        return [("A sub-agent", f"of a session that is not here{parent}")]
    if not others or any(other.recording.parent is None for other in others):
        return []
    accounts = []
    for prepared in studied:
        material, pricing = prepared.subject.material, prepared.pricing
        account = account_of(material.session, material.output_tokens, pricing)
        accounts.append(account + account_of_calls(material.session.abandoned, pricing))
    own, *accounts = accounts
    agents = sum(accounts, NOTHING)
    return [
        ("Sub-agents", f"{len(others):,}, {_usage_text(agents)}"),
        ("With sub-agents", _usage_text(own + agents)),
        ("Read again by sub-agents", rereads(session).describe()),
    ]


def _usage_text(account: Account) -> str:
    cost = account.describe()
    return f"{count_noun(account.calls, 'model call')}, {count_noun(account.input_tokens, 'token')} of input, {cost}"
