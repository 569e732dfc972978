"""How a turn ends."""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit, urlunsplit

from wane.agent.costs import Totals

if TYPE_CHECKING:
    from pydantic_ai.models import Model


ADDRESS_VARIABLES: Final = {
    "openai": "OPENAI_BASE_URL",
    "anthropic": "ANTHROPIC_BASE_URL",
    "google": "GOOGLE_GEMINI_BASE_URL",
    "ollama": "OLLAMA_BASE_URL",
}
"""Environment variables from which providers' clients read the server's address."""

_WRONG_PLACE: Final = frozenset({401, 403, 404, 405, 502, 503})
"""Statuses of a server that may not be the one that was meant."""


class Outcome(StrEnum):
    """How a turn ended."""

    DONE = "done"
    INTERRUPTED = "interrupted"
    COST_LIMIT = "cost_limit"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class TurnResult:
    """What became of one task.

    Attributes:
        outcome: how it ended.
        output: the model's answer; "" unless it is done.
        error: for an end that was not wished for, what happened, for people.
        spent: tokens and dollars of this turn.
    """

    outcome: Outcome
    output: str
    error: str | None
    spent: Totals


def explain(error: BaseException, model: Model | None = None) -> str:
    """Return an error for people, on one line, with its kind where the words alone do not tell.

    Args:
        error: the error.
        model: the model that was asked: an error of its server names the address, and what sets it.
    """
    from pydantic_ai.exceptions import ModelAPIError, ModelHTTPError

    if isinstance(error, ModelHTTPError):
        misled = model is not None and model.base_url and error.status_code in _WRONG_PLACE
        where, hint = (f" at {_address(model)}", _setting(model)) if model is not None and misled else ("", "")
        told = f"the provider of {error.model_name} answered HTTP {error.status_code}{where}: {_message(error.body)}"
        return told + hint
    if isinstance(error, ModelAPIError) and model is not None and model.base_url:
        return f"cannot reach {_address(model)} for {model.model_id}: {_root(error)}{_setting(model)}"
    text = " ".join(str(error).split())
    known = type(error).__module__.partition(".")[0] in ("wane", "pydantic_ai")
    return text if known and text else f"{type(error).__name__}: {text}".rstrip(": ")


def _address(model: Model) -> str:
    """The address of a model's server, without a password in it."""
    url = urlsplit(model.base_url or "")
    return urlunsplit(url._replace(netloc=url.netloc.rpartition("@")[2]))


def _setting(model: Model) -> str:
    provider, _, _ = model.model_id.partition(":")
    variable = ADDRESS_VARIABLES.get(provider)
    if variable is None:
        return ""
    is_set = variable in os.environ
    return f"; the address comes from {variable}" if is_set else f"; {variable} would set another address"


def _root(error: BaseException) -> str:
    """The words of the error that the others come from, where it has any, after its own."""
    told, cause = " ".join(str(error).split()).rstrip("."), error
    while (deeper := cause.__cause__ or cause.__context__) is not None:
        cause = deeper
    words = " ".join(str(cause).split())
    return f"{told} ({words})" if words and words.rstrip(".") != told else told


def _message(body: object) -> str:
    """The message in a provider's error, which OpenAI has at the top and Anthropic one level down."""
    if isinstance(body, dict):
        inner = body.get("error", body)
        if isinstance(inner, dict) and isinstance(inner.get("message"), str):
            body = inner["message"]
    return " ".join(str(body or "no reason was given").split())[:500]
