"""What a provider does wrong: which of its errors pass by waiting, and what the others mean."""

from __future__ import annotations

import re
from collections.abc import Mapping
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

from wane.agent.models import provider_message

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
    (
        "context",
        frozenset({None, 400, 422}),
        re.compile(
            "(context|prompt|model) (length|window|size|limit)|(prompt|input) is too long|input token count|`inputs` ",
            re.IGNORECASE,
        ),
    ),
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
"""Words of refusals that Pydantic AI takes for others, by status: those of Anthropic, OpenAI, OpenRouter, LiteLLM,
Google, xAI, vLLM, SGLang, llama.cpp, LM Studio, Text Generation Inference and DeepSeek."""

_PASSING: Final = frozenset({408, 409, 425})
"""HTTP statuses below 500 that pass by waiting, besides 429."""

_BROKEN: Final = frozenset({"error", "abort"})
"""Why an answer ended, in the words of OpenRouter, vLLM and SGLang, if it broke off."""

_ENDS: Final = ("anthropic", "google")
"""Providers that always say why an answer ended."""

_SUM: Final = re.compile(r"(\d+) \+ (\d+) > (\d+)")
_REST: Final = re.compile(r"(\d+) > (\d+) - (\d+)")
_LIMIT: Final = re.compile(r"(?:maximum|limit|context|allowed)\D{1,40}(\d{3,})|> (\d{3,})", re.IGNORECASE)
_TOKENS: Final = re.compile(r"\b\d{3,}\b")


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


def fitting_budget(message: str, tokens: int) -> int:
    """Return a budget with which a context fits that the provider called too long.

    Args:
        message: what the provider said. If it names the tokens that it counted and those that it takes, these two
            calibrate the budget; else it is four fifths of the view.
        tokens: tokens of the view, by our count.
    """
    counted, limit = _counts(message.replace(",", ""))
    if not 0 < limit < counted:
        return int(tokens * 0.8)
    return int(tokens * 0.9 * limit / counted)


def _counts(message: str) -> tuple[int, int]:
    """The tokens that a provider counted, and those that it takes; 0 for both if it does not say."""
    if match := _SUM.search(message):  # input and the longest answer together
        return int(match[1]), int(match[3]) - int(match[2])
    if match := _REST.search(message):  # the longest answer, and what the input leaves of the limit
        return int(match[3]), int(match[2]) - int(match[1])
    numbers = [int(number) for number in _TOKENS.findall(message)]
    limits = [int(after or above) for after, above in _LIMIT.findall(message)]
    if limits:
        return max(numbers), min(limits)
    return (max(numbers), min(numbers)) if len(set(numbers)) == 2 else (0, 0)
