"""Settings, from the command line, the project's `.wane.toml`, the user's `config.toml` and the defaults.

The first of these that has a setting decides. API keys are not settings: providers' clients read them from the
environment.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, get_args

from wane.agent.approval.permission_rules import Rule
from wane.agent.options import AgentOptions, PolicyName, SandboxMode
from wane.agent.project import project_of, upwards
from wane.agent.secrets import read_of_project
from wane.budgets import parse_budget_or_auto
from wane.conversation.context import SETTING_NAMES, ContextSettings
from wane.core import DEFAULT_BUDGET, Policy
from wane.core.errors import ConfigError
from wane.strategies.registry import check_live
from wane.tuned import settings_folder

if TYPE_CHECKING:
    from pydantic_ai.models import Model

PROJECT_FILE: Final = ".wane.toml"
"""Name of the project's settings file, in the agent's directory or one above it."""

_MOST_SETTINGS: Final = 256 * 1024  # bytes that are read of a project's settings file

USER_FILE: Final = "config.toml"
"""Name of the user's settings file, in the platform's config directory for `wane`."""

_ADDED: Final = frozenset({"allow", "deny", "mcp"})
"""Settings whose values from all sources are joined, instead of the first one deciding."""

_MAX_SHOWN: Final = 200  # characters of a value in an error

NEVER_BY_PROJECT: Final = frozenset({"yolo", "allow", "mcp", "model", "sandbox", "sandbox_network"})
"""Settings that a project's file must not have.

A cloned repository must not grant itself permissions, nor choose who gets to read the session and what that costs.
"""

_TIGHTENED: Final = {"cost_limit": float("inf"), "time_limit": float("inf"), "patience": 5.0}
"""Limits that a project's file can only lower, and what they are if the user sets none."""


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """How the agent works.

    Attributes:
        model: `provider:model`, or a Pydantic AI model; None takes the first provider that has a key.
        budget: tokens that the view may hold, or a share of the model's window: `80k`, `50%`.
        context: how the context is managed; `budget` takes the place of its budget. A model that does not mark its work
            is the baseline, and gets no tool `recall`; under `memgpt` the model always gets it.
        yolo: whether commands, file changes and MCP tools need no approval.
        allow: rules for what needs no approval (`wane.agent.approval.permission_rules`), joined from all sources.
        deny: rules for what is refused, even with `yolo`; joined from all sources.
        mcp: files with MCP servers besides the user's `mcp.json`, joined from all sources.
        sandbox: what runs in a sandbox (`wane.agent.sandbox`): `off`, `reads` for what only reads and was not asked
            about, or `all` for what was allowed, too.
        sandbox_network: whether what was allowed has the network in the sandbox.
        cost_limit: dollars after which a session makes no further model call; None for no limit.
        patience: minutes that an outage of the provider may last before a task is given up; None for 5, or 10 seconds
            if the provider was never reached.
        time_limit: minutes that a task may work; None for no limit. Waiting for a provider that fails does not count.
    """

    model: str | Model | None = None
    budget: str | int = DEFAULT_BUDGET
    context: ContextSettings = field(default_factory=partial(ContextSettings, recall=True))
    yolo: bool = False
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    mcp: tuple[str, ...] = ()
    sandbox: SandboxMode = "reads"
    sandbox_network: bool = True
    cost_limit: float | None = None
    patience: float | None = None
    time_limit: float | None = None

    def replace(self, **changes: Any) -> Self:
        """Return these settings with others in place of some, which may be settings of the context by their names."""
        names = {spec.name for spec in fields(self)}
        context = {name: changes.pop(name) for name in [*changes] if name not in names}
        return replace(self, context=replace(self.context, **context), **changes)


def load_settings(options: AgentOptions, environ: Mapping[str, str]) -> AgentSettings:
    """Return the settings for one start of the agent.

    Raises:
        ConfigError: for a file that cannot be read or is not TOML, an unknown key, or a wrong value. The message names
            the file and the key.
    """
    settings = AgentSettings()
    for path in (user_file(environ), project_file(options.cwd)):
        if path is not None and (settings_read := _read(path)) is not None:
            settings = _merge(settings, settings_read, path)
    return _with_options(settings, options)


def user_file(environ: Mapping[str, str]) -> Path:
    """Return the path of the user's settings file, which need not exist."""
    return settings_folder(environ) / USER_FILE


def project_file(cwd: Path) -> Path | None:
    """Return the nearest `.wane.toml` at or above `cwd`, up to the repository's root; None if there is none.

    Raises:
        ConfigError: if one of these directories cannot be read.
    """
    try:
        return next((path for directory in upwards(cwd) if (path := directory / PROJECT_FILE).is_file()), None)
    except OSError as error:
        directory = Path(error.filename).parent
        what = "cannot work in" if directory == cwd else f"cannot look for {PROJECT_FILE} in"
        raise ConfigError(f"{what} the directory {directory}: {error.strerror or error}") from error


def _read(path: Path) -> dict[str, Any] | None:
    try:
        if path.name == PROJECT_FILE:
            content = read_of_project(path, project_of(path.parent), _MOST_SETTINGS)
        else:
            content = path.read_bytes()
        # Some editors begin a file with a byte order mark.
        values = None if content is None else tomllib.loads(content.decode("utf-8-sig"))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"cannot read the settings {path}: {error.strerror or error}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"the settings {path} are not TOML: {error}") from error
    except RecursionError as error:
        raise ConfigError(f"the settings {path} are nested too deeply to be read") from error
    except ValueError as error:
        # Python refuses to parse an integer with thousands of digits, and tomllib passes its error on.
        raise ConfigError(f"the settings {path} hold a number with too many digits") from error
    if values is None:
        raise ConfigError(f"the settings {path} are no file of this project; a link may not lead out of it")
    return values


def _merge(settings: AgentSettings, values: Mapping[str, Any], path: Path) -> AgentSettings:
    changes: dict[str, Any] = {}
    policy: dict[str, Any] = {}
    for key, value in values.items():
        if key not in _CHECKS:
            raise ConfigError(f"{path}: unknown setting {key!r}; the settings are: {', '.join(_CHECKS)}")
        if key in NEVER_BY_PROJECT and path.name == PROJECT_FILE:
            raise ConfigError(f"{path}: a project cannot set {key!r}; set it in your own {USER_FILE}, or with a flag")
        try:
            checked = _CHECKS[key](value)
        except (ConfigError, TypeError, ValueError) as error:
            raise ConfigError(f"{path}: {key} = {_shorten_value(value)}: {_cut(str(error))}") from error
        if key in _TIGHTENED and path.name == PROJECT_FILE:
            own = getattr(settings, key)
            checked = min(checked, _TIGHTENED[key] if own is None else own)
        (policy if key in _POLICY_KEYS else changes)[key] = checked
    for key in _ADDED.intersection(changes):
        changes[key] = (*getattr(settings, key), *changes[key])
    if policy:
        changes["policy"] = replace(changes.get("policy", settings.context.policy), **policy)
    return settings.replace(**changes)


def _shorten_value(value: object) -> str:
    try:
        return _cut(repr(value))
    except ValueError:  # a hexadecimal integer may have more decimal digits than Python prints
        return "a number with too many digits"


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN else f"{text[: _MAX_SHOWN - 1]}…"


def _with_options(settings: AgentSettings, options: AgentOptions) -> AgentSettings:
    names = ("model", "budget", "strategy", "annotate", "tasks", "yolo", "sandbox")
    chosen = {
        name: value
        for name in (*names, "cost_limit", "patience", "time_limit")
        if (value := getattr(options, name)) is not None
    }
    for name in ("budget", "sandbox", "cost_limit", "patience", "time_limit"):
        if name in chosen:
            _CHECKS[name](chosen[name])
    for name in _ADDED:
        chosen[name] = (*getattr(settings, name), *_CHECKS[name](list(getattr(options, name) or ())))
    if options.policy is not None:
        chosen["policy"] = _policy(options.policy)
    return settings.replace(**chosen)


def _text(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ConfigError("it must be a text, and not empty")
    return value


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise ConfigError("it must be true or false")
    return value


def _budget(value: object) -> str | int:
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise ConfigError('it must be tokens (80000, "80k"), a share of the window ("50%") or "auto"')
    # The model's window is not known yet. With any window, a malformed budget fails here, where the file is known.
    parse_budget_or_auto(value, window=1_000_000)
    return value


def _policy(value: object) -> Policy:
    return Policy.paper() if _one_of(get_args(PolicyName), value) == "paper" else Policy()


def _one_of(values: Sequence[str], value: object) -> str:
    if not isinstance(value, str) or value not in values:
        raise ConfigError(f"it must be one of: {', '.join(values)}")
    return value


def _dollars(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 10**12:
        raise ConfigError(f"the cost limit is {str(value)[:40]}; it must be above 0 and below 10**12 dollars")
    return float(value)


def _minutes(value: object, *, what: str, least: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= 10_000:
        raise ConfigError(f"{what} is {str(value)[:40]}; it must be a number of minutes from {least:g} to 10,000")
    return float(value)


def _rules(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ConfigError('it must be a list of patterns such as ["git diff *", "edit:docs/*"]')
    return tuple(Rule.read(text).text for text in value)


def _files(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(path, str) and path for path in value):
        raise ConfigError('it must be a list of paths such as ["~/servers.json"]')
    return tuple(value)


def _value_in(settings: type[ContextSettings | Policy], name: str, value: object) -> object:
    """A value of one setting, which the class that has it checks."""
    changes: dict[str, Any] = {name: None if name == "remind_at" and value is False else value}
    return getattr(settings(**changes), name)


_NOT_OF_FILES: Final = frozenset({"counter", "manage", "subagents", "tuned"})
"""Settings of the context that a file does not have.

Journals assume one counter, `strategy` has `none`, no tool of the agent is a sub-agent, and `wane tune` keeps its
budget in a file of its own.
"""

_POLICY_KEYS: Final = {spec.name: spec.type for spec in fields(Policy)}

_CHECKS: Final[Mapping[str, Callable[[object], Any]]] = {
    "model": _text,
    **{name: partial(_value_in, ContextSettings, name) for name in SETTING_NAMES if name not in _NOT_OF_FILES},
    "budget": _budget,
    "policy": _policy,
    # A policy checks its own values, but takes any value as true or false.
    **{name: partial(_value_in, Policy, name) for name in _POLICY_KEYS},
    **{name: _flag for name, kind in _POLICY_KEYS.items() if kind == "bool"},
    "strategy": check_live,
    "yolo": _flag,
    "allow": _rules,
    "deny": _rules,
    "mcp": _files,
    "sandbox": partial(_one_of, get_args(SandboxMode)),
    "sandbox_network": _flag,
    "cost_limit": _dollars,
    "patience": partial(_minutes, what="the patience", least=0),
    "time_limit": partial(_minutes, what="the time limit", least=0.01),
}
"""Every setting of a file, and the check of its value."""

assert {spec.name for spec in fields(AgentSettings)} - {"context"} <= set(_CHECKS), "every setting needs a check"
