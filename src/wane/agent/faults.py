"""What a provider does wrong: which of its errors pass by waiting, how long a turn waits, and what the others mean."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import uniform
from typing import Any, Final, Literal, TypeAlias

from pydantic_ai.exceptions import (
    ModelAPIError,
    ModelAuthenticationError,
    ModelConnectionError,
    ModelContextWindowExceededError,
    ModelHTTPError,
    ModelNotFoundError,
    ModelQuotaExceededError,
    ModelRequestRejectedError,
    UnexpectedModelBehavior,
)
from pydantic_ai.messages import ModelResponse

from wane.refusals import TOO_LONG, provider_message

FaultKind: TypeAlias = Literal["outage", "quota", "access", "model", "context"]
"""What is wrong: the provider for a while, the account's money, its key or region, the model's name, or the length."""

_KINDS: Final[tuple[tuple[type[ModelAPIError], FaultKind], ...]] = (
    (ModelQuotaExceededError, "quota"),
    (ModelAuthenticationError, "access"),
    (ModelNotFoundError, "model"),
    (ModelContextWindowExceededError, "context"),
)
_STATUSES: Final[Mapping[int, FaultKind]] = {405: "model", 407: "access", 410: "model", 413: "context", 451: "access"}
"""What HTTP statuses mean for which Pydantic AI has no category."""

_WORDS: Final[tuple[tuple[FaultKind, frozenset[int | None], re.Pattern[str]], ...]] = (
    (
        "quota",
        frozenset({400, 403, 429}),
        re.compile(
            "insufficient_quota|billing|credit balance|available credits|usage limit|spend(ing)? limit|key limit"
            "|budget has been exceeded|budget_exceeded",
            re.IGNORECASE,
        ),
    ),
    ("context", frozenset({None, 400, 422}), TOO_LONG),
    # A limit of tokens a minute that is below the size of the request.
    ("context", frozenset({429}), re.compile("request too large", re.IGNORECASE)),
    (
        "model",
        frozenset({400, 422}),
        re.compile("not a valid model|invalid model|unknown model|model .{0,80}(not exist|not found)", re.IGNORECASE),
    ),
    (
        "access",
        frozenset({400}),
        re.compile(
            "api key|organization (has been disabled|must be verified)|location is not supported", re.IGNORECASE
        ),
    ),
)
"""Words of refusals that Pydantic AI takes for others, by status: those of the providers in `wane.refusals`."""

_PASSING: Final = frozenset({408, 409, 425})
"""HTTP statuses below 500 that pass by waiting, besides 429."""

_BROKEN: Final = frozenset({"error", "abort"})
"""Why an answer ended, in the words of OpenRouter, vLLM and SGLang, if it broke off."""

_ENDS: Final = ("anthropic", "google")
"""Providers that always say why an answer ended."""


@dataclass(frozen=True, slots=True)
class Fault:
    """An error of the provider, which says nothing about the agent.

    Attributes:
        kind: what is wrong; only an `outage` passes by waiting.
        name: the provider's name for it, such as `overloaded_error`; else that of the error.
        status: the HTTP status; None if the connection failed.
        retry_after: seconds that the provider asks to wait; None if it does not say.
        unreached: whether no connection could be made.
    """

    kind: FaultKind
    name: str
    status: int | None = None
    retry_after: float | None = None
    unreached: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return the fault as JSON-able data."""
        return {"kind": self.kind, "name": self.name, "status": self.status}


class BrokenAnswerError(ModelConnectionError):
    """An answer that the provider began and did not end, although it closed the connection in good order."""


def fault_of(error: BaseException, last: object = None) -> Fault | None:
    """Return the provider's fault that an error of a run stands for; None for an error that is not the provider's.

    A request that the provider refuses as wrong is the agent's. If the last message of the run is an interrupted
    answer, the model call failed.
    """
    if isinstance(error, UnexpectedModelBehavior):
        # An answer of which nothing arrived. After a whole answer such an error is about what the model said.
        failed = isinstance(last, ModelResponse) and last.state == "interrupted"
        return Fault("outage", type(error).__name__) if failed else None
    if not isinstance(error, ModelAPIError):
        return None
    status = error.status_code if isinstance(error, ModelHTTPError) else None
    name = error.provider_error_code or error.provider_error_type or type(error).__name__
    if (kind := _kind_of(error, status, f"{name} {provider_message(error.body)}")) is not None:
        return Fault(kind, name, status)
    lasting = status is not None and 400 <= status < 429 and status not in _PASSING
    if isinstance(error, ModelRequestRejectedError) or lasting:
        return None
    unreached = isinstance(error, ModelConnectionError) and error.phase == "connect"
    return Fault("outage", name, status, error.retry_after, unreached)


def _kind_of(error: ModelAPIError, status: int | None, message: str) -> FaultKind | None:
    """What is wrong if waiting does not help: by the words that were told, else by the error's category or status."""
    for kind, statuses, words in _WORDS:
        if status in statuses and words.search(message):
            return kind
    named = next((kind for cls, kind in _KINDS if isinstance(error, cls)), None)
    return named or _STATUSES.get(status or 0)


def check_whole(model_name: str, response: ModelResponse) -> None:
    """Check that an answer over the wire has come to its end.

    A connection that is closed in good order in the middle of a stream leaves half an answer that looks like a whole
    one, except that it has no reason for its end. Some servers never give one, but all that do not give usage either
    are taken to have broken off.

    Raises:
        BrokenAnswerError: if it has not.
    """
    if response.provider_url is None:
        return
    reason = (response.provider_details or {}).get("finish_reason")
    unsaid = (response.provider_name or "").startswith(_ENDS) or not response.usage.input_tokens
    if reason in _BROKEN or (reason is None and unsaid):
        raise BrokenAnswerError(model_name, "the stream ended before the answer did", phase="read", in_stream=True)


FIRST_WAIT: Final = 0.5
"""Seconds before the second try."""

LONGEST_WAIT: Final = 60.0
"""Seconds between two tries, unless the provider asks for more."""

PATIENCE: Final = 300.0
"""Seconds that an outage may last if nothing else is said."""

FIRST_CONTACT: Final = 10.0
"""Seconds to wait for a server that has never been reached, as its address may be wrong, if nothing else is said."""

OUTAGES: Final = 4
"""A task waits for the provider at most this many times as long as one outage may last."""

SILENCE: Final = 600.0
"""Seconds after which a call fails if nothing more comes of its answer, even if the connection is kept alive."""

_STALLED: Final = 2.0
"""Seconds after which an answer that has begun counts as stalled."""

_STEP: Final = 0.1
"""Seconds between looks at whether the user has stopped the turn."""


class Patience:
    """The clock of a session's turns.

    Args:
        longest: seconds that one outage of the provider may last; None for the defaults.
        limit: seconds that a turn may work; None for no limit. A call that fails and the wait after it do not count,
            so a call to which the provider says nothing, or nothing more, is waited for.
        out_of_time: called when the limit is reached.

    Attributes:
        lost: seconds of the turn that calls which failed and waits took.
        tries: number of failed calls in a row.
    """

    def __init__(self, longest: float | None, limit: float | None, out_of_time: Callable[[], None]) -> None:
        self._longest = longest
        self._reached = False
        self.limit = limit
        self._out_of_time = out_of_time
        self._timer: asyncio.TimerHandle | None = None
        self.begin()

    def begin(self) -> None:
        """Begin a turn, whose clock is not running yet."""
        self.end()
        self.lost = 0.0
        self.tries = 0
        self._worked = 0.0
        self._running_since: float | None = None
        self._called_at: float | None = None
        self._heard_at: float | None = None
        self._overdue = False
        self._failing_since = 0.0

    def run(self) -> None:
        """Let the clock run."""
        self._running_since = _now()
        if self.limit is not None:
            remaining = max(0.0, self.limit - self._worked)
            self._timer = asyncio.get_running_loop().call_later(remaining, self._due)

    def end(self) -> None:
        """Stop the clock."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def begin_call(self) -> None:
        """Note that a model call begins."""
        self._called_at, self._heard_at = _now(), None

    @property
    def calling(self) -> bool:
        """Whether a model call is not answered yet."""
        return self._called_at is not None

    def heard(self) -> None:
        """Note that the provider says something."""
        self._heard_at = _now()
        if self._overdue:
            self._overdue = False
            self._out_of_time()

    def _due(self) -> None:
        if self.calling and (self._heard_at is None or _now() - self._heard_at > _STALLED):
            self._overdue = True  # what comes next tells whose time it was
        else:
            self._out_of_time()

    def end_call(self) -> None:
        """Note that it has been answered."""
        self._called_at = None
        self._reached = True
        self.tries = 0
        self.heard()

    def fail_call(self, fault: Fault) -> float | None:
        """Stop the clock where the failed call began, and return the seconds to wait; None to give up."""
        self.end()
        now = _now()
        began = now if self._called_at is None else self._called_at
        if self._running_since is not None:
            self._worked += began - self._running_since
        self._running_since = self._called_at = None
        self._overdue = False
        self.lost += now - began
        if not self.tries:
            self._failing_since = now
        self.tries += 1
        wait = pause(self.tries, fault)
        self._reached = self._reached or not fault.unreached
        longest = self._longest
        if longest is None:
            longest = PATIENCE if self._reached else FIRST_CONTACT
        lasts, in_all = now - self._failing_since + wait, self.lost + wait
        return None if lasts > longest or in_all > OUTAGES * longest else wait

    async def wait(self, seconds: float, stopped: Callable[[], bool]) -> None:
        """Wait, unless the turn is stopped meanwhile."""
        begun = _now()
        while not stopped() and (remaining := begun + seconds - _now()) > 0:
            await asyncio.sleep(min(remaining, _STEP))
        self.lost += _now() - begun


def _now() -> float:
    """The time of the running event loop, in seconds."""
    return asyncio.get_running_loop().time()


def pause(tries: int, fault: Fault) -> float:
    """Return the seconds to wait after a number of failed tries. They grow, with jitter, and heed `retry_after`."""
    grown = min(LONGEST_WAIT, FIRST_WAIT * 2.0 ** min(tries - 1, 10)) * uniform(0.5, 1)  # noqa: S311 - not a secret
    demanded = fault.retry_after or 0.0
    return max(grown, demanded + uniform(0, min(1.0, demanded)))  # noqa: S311
