"""The commands for a team that shares a proxy: status, tokens, deletion and the log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

from wane.cli import flag_values
from wane.cli.shared_flags import Json, StoreName
from wane.flags import Flag

_Name: TypeAlias = Annotated[str, Flag("NAME", "The name of a person or a program, such as alice.", "NAME")]


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitOptions:
    """Limits of a name. None is an option that is not given, 0 is no limit."""

    max_cost: Annotated[
        float | None,
        Flag(
            "--max-cost",
            "Dollars that the name's model requests may cost, or none for no limit. Further requests get HTTP 402.",
            "DOLLARS",
            read=flag_values.limit,
        ),
    ] = None
    max_cost_per: Annotated[
        Literal["day", "month", "total"] | None,
        Flag(
            "--max-cost-per", "What --max-cost is for: a day (the default), a month, both in UTC, or total.", "PERIOD"
        ),
    ] = None
    requests: Annotated[
        float | None,
        Flag(
            "--requests-per-minute",
            "Requests that the name may send a minute, or none for no limit. Further requests get HTTP 429.",
            "NUMBER",
            read=flag_values.limit,
        ),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TokensOptions:
    """List the names that a proxy with --team admits, with their limits and spend.

    It reads the store, so it works while proxies run, and for all of them.

    Examples:
      wane proxy tokens
      wane proxy tokens add alice --max-cost 20 --requests-per-minute 60
      wane proxy tokens limit alice --max-cost 50 --max-cost-per month
      wane proxy tokens revoke alice
    """

    store: StoreName = None
    as_json: Json = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AddTokenOptions:
    """Make a token for a name, and print it once.

    The store has only its SHA-256. Clients send the token as the header x-wane-token, or in their base URL before the
    path: http://HOST:8484/~TOKEN/v1. A name whose token was revoked gets a new one, and keeps its sessions and limits.

    Examples:
      wane proxy tokens add alice
      wane proxy tokens add ci --max-cost 5 --store redis://cache.internal/0
    """

    name: _Name
    limits: LimitOptions = LimitOptions()
    store: StoreName = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitTokenOptions:
    """Change the limits of a name. Limits that you do not name stay as they are.

    Examples:
      wane proxy tokens limit alice --max-cost 50 --max-cost-per month
      wane proxy tokens limit alice --requests-per-minute none
    """

    name: _Name
    limits: LimitOptions = LimitOptions()
    store: StoreName = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RevokeTokenOptions:
    """Revoke the token of a name. Running proxies refuse it within a second.

    The sessions, the spend and the limits of the name stay, for a new token or for wane proxy forget.

    Examples:
      wane proxy tokens revoke alice
    """

    name: _Name
    store: StoreName = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetOptions:
    """Delete everything that belongs to a name: its sessions, its spend and its limits.

    Its token must be revoked first. The log of who did what stays: it has names, session ids and times, and nothing of
    what was said.

    Examples:
      wane proxy tokens revoke alice
      wane proxy forget alice

    Exit codes:
      0  everything was deleted
      1  a proxy has sessions open, or the store cannot be reached: run it again
      2  there is no such name, or it has a token
    """

    name: _Name
    store: StoreName = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    """Show who did what: tokens made and revoked, sessions begun and shown on the page, deletions, refused requests.

    Proxies with --team and the commands for a team append to this log, and no command changes it. It has at most one
    refusal of each kind a minute.

    Examples:
      wane proxy log
      wane proxy log --since 30d --name alice
      wane proxy log --json
    """

    since: Annotated[
        float,
        Flag("--since", "How far to look back: 12h, 7d (the default) or 4w.", "AGE", read=flag_values.age),
    ] = 7 * 86_400.0
    name: Annotated[str | None, Flag("--name", "Show only what this name did, or what was done to it.", "NAME")] = None
    store: StoreName = None
    as_json: Json = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusOptions:
    """Show the proxies that share a store: their requests, and the sessions that they have in memory.

    Every two seconds, each proxy with a database or with --team publishes its status in the store. Other proxies show
    theirs only at /wane/.

    Examples:
      wane proxy status
      wane proxy status --store redis://cache.internal/0
      wane proxy status --json
    """

    store: StoreName = None
    as_json: Json = False
