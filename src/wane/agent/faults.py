"""What a provider does wrong: which of its errors pass by waiting, and what the others mean."""

from __future__ import annotations

import re
from dataclasses import dataclass
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

FaultKind: TypeAlias = Literal["outage", "quota", "access", "model", "context"]
"""What is wrong: the provider for a while, the account's money, its key or region, the model's name, or the length."""

_KINDS: Final[tuple[tuple[type[ModelAPIError], FaultKind], ...]] = (
    (ModelQuotaExceededError, "quota"),
    (ModelAuthenticationError, "access"),
    (ModelNotFoundError, "model"),
    (ModelContextWindowExceededError, "context"),
)
_PASSING: Final = frozenset({408, 409, 425})
"""HTTP statuses below 500 that pass by waiting, besides 429."""

_MONEY: Final = frozenset({400, 403, 429})
_SPENT: Final = re.compile(r"insufficient_quota|billing|credit balance|usage limit|spend limit", re.IGNORECASE)
"""Words of a refusal for want of money that Pydantic AI takes for another one."""

_SUM: Final = re.compile(r"(\d+) \+ (\d+) > (\d+)")
_TOKENS: Final = re.compile(r"\d{3,}")


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
    """Return the provider's fault that an error stands for; None for an error that is not the provider's.

    A request that the provider refuses as wrong is the agent's.

    Args:
        error: what a run of the agent raised.
        last: the last message of the run. An interrupted answer shows that the model call failed.
    """
    if isinstance(error, UnexpectedModelBehavior):
        # An answer of which nothing arrived. After a whole answer such an error is about what the model said.
        failed = isinstance(last, ModelResponse) and last.state == "interrupted"
        return Fault("outage", type(error).__name__) if failed else None
    if not isinstance(error, ModelAPIError):
        return None
    status = error.status_code if isinstance(error, ModelHTTPError) else None
    name = error.provider_error_code or error.provider_error_type or type(error).__name__
    if status in _MONEY and _SPENT.search(f"{name} {error.body}"):
        return Fault("quota", name, status)
    for cls, kind in _KINDS:
        if isinstance(error, cls):
            return Fault(kind, name, status)
    lasting = status is not None and 400 <= status < 429 and status not in _PASSING
    if isinstance(error, ModelRequestRejectedError) or lasting:
        return None
    unreached = isinstance(error, ModelConnectionError) and error.phase == "connect"
    return Fault("outage", name, status, error.retry_after, unreached)


def check_whole(model_name: str, response: ModelResponse) -> None:
    """Check that an answer over the wire has come to its end.

    A connection that is closed in good order in the middle of a stream leaves half an answer that looks like a whole
    one, except that it has no reason for its end. Some servers never give one, but all that do not give usage either
    are taken to have broken off.

    Raises:
        BrokenAnswerError: if it has not.
    """
    if response.provider_url is None or (response.provider_details or {}).get("finish_reason"):
        return
    # Anthropic reports the input at the beginning.
    if response.provider_name == "anthropic" or not response.usage.input_tokens:
        raise BrokenAnswerError(model_name, "the stream ended before the answer did", phase="read", in_stream=True)


def fitting_budget(message: str, tokens: int) -> int:
    """Return a budget with which a context fits that the provider called too long.

    Args:
        message: what the provider said. If it names the tokens that it counted and those that it takes, these two
            calibrate the budget; else it is four fifths of the view.
        tokens: tokens of the view, by our count.
    """
    plain = message.replace(",", "")
    if match := _SUM.search(plain):  # input and the longest answer together
        counted, limit = int(match[1]), int(match[3]) - int(match[2])
    else:
        numbers = sorted({int(number) for number in _TOKENS.findall(plain)})
        counted, limit = (numbers[1], numbers[0]) if len(numbers) == 2 else (0, 0)
    if not 0 < limit < counted:
        return int(tokens * 0.8)
    return int(tokens * 0.9 * limit / counted)
