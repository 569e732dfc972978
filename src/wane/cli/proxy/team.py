"""`wane proxy status`, `tokens`, `forget` and `log`: the processes of a store, and the names and log of a team."""

from __future__ import annotations

import getpass
import socket
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar

from rich.text import Text

from wane.cli import failure
from wane.cli.failure import UsageError
from wane.cli.proxy.team_commands import (
    AddTokenOptions,
    ForgetOptions,
    LimitOptions,
    LimitTokenOptions,
    LogOptions,
    RevokeTokenOptions,
    StatusOptions,
    TokensOptions,
)
from wane.cli.sessions.listing import short_id
from wane.cli.sessions.stores import where_of, with_store
from wane.cli.terminal.tables import plain_table
from wane.cli.terminal.text import count_noun, human_bytes, local_time, plain_console, printable, say, short, write_json
from wane.money import dollars
from wane.proxy.settings import COST_PERIODS
from wane.proxy.store.ledger import LEDGER, Ledger
from wane.proxy.store.stores import Store
from wane.proxy.team.audit import AuditLog, Event
from wane.proxy.team.members import Member, MemberLimits, Team

T = TypeVar("T")

_MOST_LISTED: Final = 40
"""Sessions that the status lists, the most recently used ones."""


def show_status(options: StatusOptions) -> int:
    async def read(store: Store) -> list[dict[str, Any]]:
        from wane.proxy.server.workers import read_published

        return await read_published(store, datetime.now(UTC))

    processes = _with_store(options.store, read)
    if options.as_json:
        for process in processes:
            process.pop("metrics", None)
        write_json(processes)
        return failure.OK
    if not processes:
        sys.stdout.write(
            "No proxy runs with this store, as far as it says. One that keeps its sessions on disk without --team says "
            "nothing here: see /wane/ at its address.\n"
        )
        return failure.OK
    table = plain_table("process", "since", ">requests", ">open", ">sessions")
    for process in processes:
        since = local_time(datetime.fromisoformat(process["started"]))
        ended = f"{sum(process['requests'].values()):,}"
        table.add_row(process["worker"], since, ended, f"{process['open']:,}", f"{process['sessions_in_memory']:,}")
    plain_console().print(table)
    from wane.proxy.server.workers import merged_sessions

    sessions = merged_sessions(processes)
    if not sessions:
        return failure.OK
    table = plain_table("session", "name", "last used", ">view", ">requests", ">spent", "*title")
    for session in sessions[:_MOST_LISTED]:
        money = session["money"]
        table.add_row(
            short_id(session["id"]),
            session["owner"] or "-",
            local_time(datetime.fromisoformat(session["last"])),
            f"{short(session['view'])}/{short(session['budget'])}",
            f"{session['requests']:,}",
            dollars(money["spent"] if money else None),
            Text(printable(session["title"])),
        )
    plain_console().print("", table)
    if len(sessions) > _MOST_LISTED:
        say(f"and {count_noun(len(sessions) - _MOST_LISTED, 'more session')}; --json has up to 500 of each process")
    return failure.OK


def list_tokens(options: TokensOptions) -> int:
    async def read(store: Store) -> Sequence[tuple[Member, Ledger]]:
        members, ledgers = await Team(store).members(), await store.documents(LEDGER)
        now = datetime.now(UTC)
        return [(member, Ledger.read(ledgers.get(name)).on(now)) for name, member in members.items()]

    rows = _with_store(options.store, read)
    if options.as_json:
        write_json([_member_dict(member, ledger) for member, ledger in rows])
        return failure.OK
    if not rows:
        say("no name has a token; make one with: wane proxy tokens add NAME")
        return failure.OK
    table = plain_table("*name", "token", ">today", ">in all", "cost limit", ">req/min")
    for member, ledger in rows:
        state = f"{'made' if member.digest else 'revoked'} {member.since.astimezone():%Y-%m-%d}"
        spent = [dollars(amount / 1e6) for amount in (ledger.day, ledger.total)]
        table.add_row(member.name, state, *spent, _cost_limit(member.limits), f"{member.limits.requests or '-'}")
    plain_console().print(table)
    return failure.OK


def _member_dict(member: Member, ledger: Ledger) -> dict[str, Any]:
    return {
        "name": member.name,
        "revoked": not member.digest,
        "since": member.since.isoformat(),
        "spent": {"day": ledger.day / 1e6, "month": ledger.month / 1e6, "total": ledger.total / 1e6},
        "limits": asdict(member.limits),
    }


def add_token(options: AddTokenOptions) -> int:
    async def add(store: Store) -> str:
        limits = None
        if options.limits != LimitOptions():
            limits = _change_limits(MemberLimits(), options.limits)
        token = await Team(store).add(options.name, limits)
        await AuditLog(store).write(_operator(), "token made", options.name)
        return token

    token = _with_store(options.store, add)
    say(f"the token of {options.name}, which is shown only now; a proxy with --team and this store admits it:")
    sys.stdout.write(f"{token}\n")
    return failure.OK


def limit_token(options: LimitTokenOptions) -> int:
    if options.limits == LimitOptions():
        raise UsageError("give a limit, such as: wane proxy tokens limit alice --max-cost 20")

    async def limit(store: Store) -> MemberLimits:
        team = Team(store)
        member = (await team.members()).get(options.name)
        if member is None:
            raise UsageError(f"there is no name {options.name!r:.80}; wane proxy tokens lists them")
        limits = _change_limits(member.limits, options.limits)
        await team.limit(options.name, limits)
        await AuditLog(store).write(_operator(), "limits changed", options.name)
        return limits

    limits = _with_store(options.store, limit)
    rate = f"{limits.requests} requests a minute" if limits.requests else "any number of requests a minute"
    say(f"{options.name}: {_cost_limit(limits)}, {rate}")
    return failure.OK


def revoke_token(options: RevokeTokenOptions) -> int:
    async def revoke(store: Store) -> None:
        await Team(store).revoke(options.name)
        await AuditLog(store).write(_operator(), "token revoked", options.name)

    _with_store(options.store, revoke)
    say(f"the token of {options.name} is revoked; its sessions and spend stay (wane proxy forget {options.name})")
    return failure.OK


def forget_name(options: ForgetOptions) -> int:
    async def forget(store: Store) -> tuple[int, int, int]:
        from wane.proxy.team.deletion import delete_name, delete_sessions

        deleted, busy = await delete_sessions(store, options.name)
        if not busy:
            await delete_name(store, options.name)
        note = f"{options.name}: {count_noun(len(deleted), 'session')}"
        if busy:
            note += f", {count_noun(busy, 'open session')} left"
        await AuditLog(store).write(_operator(), "deletion", note)
        return len(deleted), sum(session.size for session in deleted), busy

    count, freed, busy = _with_store(options.store, forget)
    say(f"{count_noun(count, 'session')} of {options.name} deleted, which freed {human_bytes(freed)}")
    if busy:
        say(f"a proxy has {count_noun(busy, 'more session')} open, and releases them within a minute: run this again")
        return failure.FAILED
    say("its spend and limits are deleted too; the log of who did what stays (wane proxy log)")
    return failure.OK


def show_log(options: LogOptions) -> int:
    async def read(store: Store) -> Sequence[Event]:
        return await AuditLog(store).since(datetime.now(UTC) - timedelta(seconds=options.since))

    events = _with_store(options.store, read)
    if options.name is not None:
        events = [event for event in events if event.by == options.name or event.of.split(":")[0] == options.name]
    if options.as_json:
        write_json([{**asdict(event), "at": event.at.isoformat()} for event in events])
        return failure.OK
    for event in events:
        line = f"{local_time(event.at)}  {event.by:<16}  {event.action:<14}  {short_id(event.of)}"
        sys.stdout.write(f"{printable(line)}\n")
    if not events:
        say("the log has nothing from this time; proxies with --team write to it")
    return failure.OK


def _with_store(where: str | None, work: Callable[[Store], Awaitable[T]]) -> T:
    return with_store(where_of(where), work, part="a team's store")


def _operator() -> str:
    """Return who runs this command, as `user@host`."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = "?"
    return f"{user}@{socket.gethostname()}"


def _change_limits(limits: MemberLimits, options: LimitOptions) -> MemberLimits:
    """Return limits, changed as the options say."""
    if options.max_cost is not None:
        limits = replace(limits, max_cost=options.max_cost or None)
    if options.requests is not None:
        if options.requests != int(options.requests):
            raise UsageError(f"--requests-per-minute is {options.requests:g}; give a whole number, or none")
        limits = replace(limits, requests=int(options.requests) or None)
    if options.max_cost_per is not None:
        if limits.max_cost is None:
            raise UsageError("--max-cost-per says what --max-cost is for: give both")
        limits = replace(limits, cost_period=options.max_cost_per)
    return limits


def _cost_limit(limits: MemberLimits) -> str:
    return "no limit" if limits.max_cost is None else f"{dollars(limits.max_cost)} {COST_PERIODS[limits.cost_period]}"
