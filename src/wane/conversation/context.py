"""How a context is managed: the settings that every door to Wane shares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypedDict, Unpack

from wane.budgets import TunedBudget, choose_budget, parse_budget_or_auto
from wane.core import Counter, EpisodeType, Policy, ToolClass, chars, parse_window
from wane.core.errors import ConfigError
from wane.counters import get_counter
from wane.journal.records import ConfigRecord
from wane.strategies.registry import check_strategy, policy_of, traits
from wane.strategies.strategy import Annotate, StrategySettings

CACHE_LIFETIME: Final = 300.0
"""Seconds that a provider keeps an unused prompt cache, if nothing else is known: Anthropic's five minutes."""

REMIND_AT: Final = 0.2
"""Share of the budget that unannotated work may fill by default before the model is reminded."""


class EpisodeArguments(TypedDict, total=False):
    """Settings of a context that is managed by episodes, besides the budget, as users write them."""

    policy: Policy | None
    annotate: Annotate
    recall: bool
    tasks: bool
    subagents: Mapping[str, EpisodeType | str] | None
    remind_at: float | None
    tool_classes: Mapping[str, ToolClass | str] | None
    window: int | str | None
    tuned: TunedBudget | None
    counter: str | Counter


class ContextArguments(EpisodeArguments, total=False):
    """All settings of a context besides the budget, as users write them; their meaning is in `ContextSettings`."""

    strategy: str
    cache_lifetime: float | None
    manage: bool


@dataclass(frozen=True, slots=True)
class ContextSettings(StrategySettings):
    """How a context is managed, with the settings of its strategy.

    To add a setting, add it here with its meaning and its check, and to the arguments above.

    Attributes:
        strategy: name of the strategy that keeps the budget (`wane.strategies.registry.STRATEGY_NAMES`).
        remind_at: share of the budget that unannotated work may fill before the model is reminded to mark it, and a
            quarter of that until it starts its first episode; None for never.
        counter: counts tokens: `chars`, `tiktoken`, or a function from text to tokens.
        cache_lifetime: seconds after which the provider's unused cache has expired, for a policy with
            `evict_when_cold`; None for the lifetime of the model that answered last, or else `CACHE_LIFETIME`.
        manage: whether anything may leave the view; if not, the model gets no tools.
        auto: whether the budget is chosen with the first request, by what never leaves and by the window
            (`wane.budgets`); `budget` holds until then.
        price_step: input tokens above which the price of a whole request rises, for `auto`; None if there is no step.
        tuned: what the user's own recordings recommend, for `auto`; None without any. A context reads no file:
            `wane.tuned.read_tuned` returns what `wane tune --save` has kept.

    Raises:
        ConfigError: for a value that cannot work. The message names it.
        MissingExtraError: for a counter whose extra is not installed.
        CounterError: for a counter that cannot work here.
    """

    strategy: str = "cwl"
    remind_at: float | None = REMIND_AT
    counter: Counter = chars
    cache_lifetime: float | None = None
    manage: bool = True
    auto: bool = False
    price_step: int | None = None
    tuned: TunedBudget | None = None

    def __post_init__(self) -> None:
        StrategySettings.__post_init__(
            self
        )  # not `super()`: with slots, dataclass makes another class than it refers to
        check_strategy(self.strategy)
        share, seconds, counter = self.remind_at, self.cache_lifetime, self.counter
        if share is not None and not (_is_number(share) and 0 < share <= 1):
            raise ConfigError(
                f"remind_at is {share!r}; it must be a share of the budget above 0 and at most 1, or None (in a file"
                " of settings: false) for never"
            )
        if seconds is not None and not (_is_number(seconds) and seconds >= 0):
            raise ConfigError(f"cache_lifetime is {seconds!r}; it must be a number of seconds, at least 0, or None")
        if not isinstance(self.tuned, TunedBudget | None):
            raise ConfigError(f"tuned is {self.tuned!r}; it must be what wane.tuned.read_tuned returns")
        if not isinstance(self.manage, bool):
            raise ConfigError(f"manage is {self.manage!r}; it must be true or false")
        if isinstance(counter, str):
            object.__setattr__(self, "counter", get_counter(counter))
        elif not callable(counter):
            raise ConfigError(f"counter is {counter!r}; it must be a counter's name, or a function from text to tokens")

    @classmethod
    def of(
        cls,
        settings: ContextSettings | None = None,
        *,
        budget: int | str | None = None,
        **others: Unpack[ContextArguments],
    ) -> ContextSettings:
        """Return the settings that a user writes.

        Args:
            settings: the settings to change; None for the defaults.
            budget: the budget, or `auto`; a small one must have a unit, such as `"0.5k"`, and a percentage is of the
                window that these settings name. None leaves it as it is.
            others: the other settings by name.

        Raises:
            ConfigError: for an unknown setting, and as the class does.
        """
        if unknown := [name for name in others if name not in SETTING_NAMES]:
            raise ConfigError(f"unknown setting {', '.join(map(repr, unknown))}; known: {', '.join(SETTING_NAMES)}")
        values: dict[str, Any] = {**others}
        if budget is not None:
            window = values.get("window", settings.window if settings else None)
            window = None if window is None else parse_window(window)
            tokens = parse_budget_or_auto(budget, window=window)
            values["auto"] = tokens is None
            if tokens is None:
                tuned = values.get("tuned", settings.tuned if settings else None)
                tokens = choose_budget(window=window, tuned=tuned).tokens
            values["budget"] = tokens
        return replace(cls() if settings is None else settings, **values)

    @property
    def marked(self) -> bool:
        """Whether the model marks its work if the context is managed."""
        return self.annotate == "model" and traits(self.strategy).marked

    @property
    def delimits(self) -> bool:
        """Whether the model marks its work, by the tool `delimiter`."""
        return self.manage and self.marked

    @property
    def searches(self) -> bool:
        """Whether the strategy has the model search evicted content, so that it always gets the tool `recall`."""
        return self.manage and traits(self.strategy).searches

    @property
    def reminds(self) -> bool:
        """Whether a request may carry a reminder."""
        return self.searches or (self.delimits and self.remind_at is not None)

    @property
    def eviction(self) -> Policy:
        """The policy in force: the paper's Algorithm 1 with R6 under `paper`, else `policy`."""
        return policy_of(self.strategy, self.policy, self.low_water)

    def record(self, overhead: int = 0) -> ConfigRecord:
        """Return the settings as a record for a journal.

        Args:
            overhead: tokens that every request carries besides its messages.
        """
        return ConfigRecord(
            self.budget,
            self.eviction,
            {tool: str(tool_class) for tool, tool_class in (self.tool_classes or {}).items()},
            overhead,
            strategy=self.strategy if self.manage else "none",
            annotate=self.annotate,
            tasks=self.tasks,
            window=self.window,
        )


SETTING_NAMES: Final = ("budget", *ContextArguments.__annotations__)
"""The names of all settings that a user may write."""


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
