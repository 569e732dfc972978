"""Settings: from the command line, the project's `.wane.toml`, the user's `config.toml`, then the defaults.

The first that says something about a setting decides. Keys for models are no settings: providers' clients
read them from the environment, and nothing here looks at them.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, get_args

import platformdirs

from wane.agent.options import AgentOptions, PolicyName, Strategy
from wane.conversation.reminder import REMIND_AT
from wane.core import DEFAULT_BUDGET, Policy, parse_budget
from wane.core.errors import ConfigError
from wane.core.items import read_tool_classes
from wane.strategies.base import Annotate

if TYPE_CHECKING:
    from pydantic_ai.models import Model

PROJECT_FILE: Final = ".wane.toml"
"""The project's settings, in the directory that the agent works in or one above it."""

USER_FILE: Final = "config.toml"
"""The user's settings, in the platform's config directory for `wane`."""

CONFIG_DIR_VARIABLE: Final = "WANE_CONFIG_DIR"
"""Environment variable that overrides where the user's settings are."""

_ADDED: Final = frozenset({"allow", "deny", "mcp"})
"""Settings of which each place adds to those before it, instead of replacing them."""

_MOST_SHOWN: Final = 200  # characters of a value that an error tells

NEVER_BY_PROJECT: Final = frozenset({"yolo", "allow", "mcp"})
"""Settings that a project may not make: a cloned repository must not have commands run without asking."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How the agent works.

    Attributes:
        model: `provider:model`, or a Pydantic AI model; None takes the first provider that has a key.
        budget: tokens that the view may hold, or a share of the model's window: `80k`, `50%`.
        policy: what a pass evicts, and how far.
        strategy: how the context is kept (`docs/lab/strategies.md`).
        annotate: who marks episodes: the model itself, or `infer` what its tool calls tell.
        recall: whether the model may bring evicted episodes back.
        remind_at: share of the budget that unannotated work may fill before the model is reminded; None for never.
        yolo: whether commands, file changes and tools of MCP servers need no approval.
        allow: rules of what needs none (`wane.agent.approval.rules`), from all places together.
        deny: rules of what is refused even with `yolo`, likewise.
        mcp: files with MCP servers, besides the user's `mcp.json`, likewise.
        cost_limit: dollars after which a session makes no further model call; None for no limit.
        tool_classes: classes of tools by name, on top of the defaults.
    """

    model: str | Model | None = None
    budget: str | int = DEFAULT_BUDGET
    policy: Policy = field(default_factory=Policy)
    strategy: Strategy = "cwl"
    annotate: Annotate = "model"
    recall: bool = True
    remind_at: float | None = REMIND_AT
    yolo: bool = False
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    mcp: tuple[str, ...] = ()
    cost_limit: float | None = None
    tool_classes: Mapping[str, str] = field(default_factory=dict)

    @property
    def eviction(self) -> Policy:
        """What a pass evicts, and how far: the strategy `paper` has a policy of its own."""
        return Policy.paper() if self.strategy == "paper" else self.policy


def load_settings(options: AgentOptions, environ: Mapping[str, str]) -> Settings:
    """Return the settings for one start of the agent.

    Raises:
        ConfigError: for a file that is not TOML or cannot be read, an unknown key, or a value that does not
            fit; the message names the file and the key.
    """
    settings = Settings()
    for path in (user_file(environ), project_file(options.cwd)):
        if path is not None and (found := _read(path)) is not None:
            settings = _merge(settings, found, path)
    return _with_options(settings, options)


def user_file(environ: Mapping[str, str]) -> Path:
    """Return where the user's settings are."""
    if override := environ.get(CONFIG_DIR_VARIABLE):
        return Path(override).expanduser() / USER_FILE
    return platformdirs.user_config_path("wane", appauthor=False) / USER_FILE


def project_file(cwd: Path) -> Path | None:
    """Return the nearest `.wane.toml` at or above `cwd`, up to the repository's root; None if there is none.

    Raises:
        ConfigError: if one of these directories cannot be looked into.
    """
    for directory in (cwd, *cwd.parents):
        try:
            if (path := directory / PROJECT_FILE).is_file():
                return path
            if (directory / ".git").exists():
                return None
        except OSError as error:
            what = "cannot work in" if directory == cwd else f"cannot look for {PROJECT_FILE} in"
            raise ConfigError(f"{what} the directory {directory}: {error.strerror or error}") from error
    return None


def _read(path: Path) -> dict[str, Any] | None:
    try:
        # Some editors put a byte order mark at the beginning.
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"cannot read the settings {path}: {error.strerror or error}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"the settings {path} are not TOML: {error}") from error
    except RecursionError as error:
        raise ConfigError(f"the settings {path} are nested too deeply to be read") from error
    except ValueError as error:
        # The one other thing that the parser lets out: Python reads no whole number of some thousands of digits.
        raise ConfigError(f"the settings {path} hold a number of too many digits") from error


def _merge(settings: Settings, found: Mapping[str, Any], path: Path) -> Settings:
    changes: dict[str, Any] = {}
    policy: dict[str, Any] = {}
    for key, value in found.items():
        if key not in _CHECKS:
            raise ConfigError(f"{path}: unknown setting {key!r}; known are: {', '.join(_CHECKS)}")
        if key in NEVER_BY_PROJECT and path.name == PROJECT_FILE:
            raise ConfigError(f"{path}: {key!r} cannot be set by a project; set it in your own {USER_FILE}, or by flag")
        try:
            checked = _CHECKS[key](value)
        except (ConfigError, TypeError, ValueError) as error:
            raise ConfigError(f"{path}: {key} = {_shown(value)}: {_cut(str(error))}") from error
        (policy if key in _POLICY_KEYS else changes)[key] = checked
    for key in _ADDED.intersection(changes):
        changes[key] = (*getattr(settings, key), *changes[key])
    if "policy" in changes:
        settings = replace(settings, policy=changes.pop("policy"))
    if policy:
        settings = replace(settings, policy=replace(settings.policy, **policy))
    return replace(settings, **changes)


def _shown(value: object) -> str:
    try:
        return _cut(repr(value))
    except ValueError:  # written in hexadecimal, a whole number may have more digits than Python writes
        return "a number of too many digits"


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_SHOWN else f"{text[: _MOST_SHOWN - 1]}…"


def _with_options(settings: Settings, options: AgentOptions) -> Settings:
    given = {
        name: value
        for name in ("model", "budget", "strategy", "annotate", "yolo", "cost_limit")
        if (value := getattr(options, name)) is not None
    }
    for name in ("budget", "cost_limit"):
        if name in given:
            _CHECKS[name](given[name])
    for name in _ADDED:
        given[name] = (*getattr(settings, name), *_CHECKS[name](list(getattr(options, name) or ())))
    if options.policy is not None:
        given["policy"] = _policy(options.policy)
    return replace(settings, **given)


def _text(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ConfigError("it must be a text that is not empty")
    return value


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise ConfigError("it must be true or false")
    return value


def _budget(value: object) -> str | int:
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise ConfigError('it must be tokens (80000, "80k") or a share of the window ("50%")')
    # A stand-in for the window: whether it can be read at all shows here, with the file's name.
    parse_budget(value, window=1_000_000)
    if isinstance(value, int):
        # A person wrote it: 80 is asked about as "80" is.
        parse_budget(str(value))
    return value


def _policy(value: object) -> Policy:
    if value not in get_args(PolicyName):
        raise ConfigError(f"it must be one of: {', '.join(get_args(PolicyName))}")
    return Policy.paper() if value == "paper" else Policy()


def _strategy(value: object) -> str:
    if not isinstance(value, str) or value not in get_args(Strategy):
        raise ConfigError(f"it must be one of: {', '.join(get_args(Strategy))}")
    return value


def _annotate(value: object) -> str:
    if not isinstance(value, str) or value not in get_args(Annotate):
        raise ConfigError(f"it must be one of: {', '.join(get_args(Annotate))}")
    return value


def _dollars(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 10**12:
        raise ConfigError(f"the cost limit is {str(value)[:40]}; it must be a number of dollars above 0")
    return float(value)


def _reminders(value: object) -> float | None:
    if value is False:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= 1:
        raise ConfigError("it must be a share of the budget, above 0 to 1, or false")
    return float(value)


def _rules(value: object) -> tuple[str, ...]:
    from wane.agent.approval.rules import Rule

    if not isinstance(value, list):
        raise ConfigError('it must be a list of patterns such as ["git diff *", "edit:docs/*"]')
    return tuple(Rule.read(text).text for text in value)


def _files(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(path, str) and path for path in value):
        raise ConfigError('it must be a list of paths such as ["~/servers.json"]')
    return tuple(value)


def _classes(value: object) -> Mapping[str, str]:
    if not isinstance(value, dict):
        raise ConfigError('it must be a table such as {run_query = "bulk"}')
    read_tool_classes(value)
    return dict(value)


def _policy_value(name: str, value: object) -> object:
    changes: dict[str, Any] = {name: value}
    return getattr(replace(Policy(), **changes), name)


_POLICY_KEYS: Final = {spec.name: spec.type for spec in fields(Policy)}

_CHECKS: Final[Mapping[str, Callable[[object], Any]]] = {
    "model": _text,
    "budget": _budget,
    "policy": _policy,
    # Whatever else a policy can be told, its own checks judge; it takes any value for true or false.
    **{name: _flag if kind == "bool" else partial(_policy_value, name) for name, kind in _POLICY_KEYS.items()},
    "strategy": _strategy,
    "annotate": _annotate,
    "recall": _flag,
    "remind_at": _reminders,
    "yolo": _flag,
    "allow": _rules,
    "deny": _rules,
    "mcp": _files,
    "cost_limit": _dollars,
    "tool_classes": _classes,
}
"""Every setting that a file may make, with what checks its value."""

assert {spec.name for spec in fields(Settings)} <= set(_CHECKS), "every setting can be made in a file"
