"""Resolves `provider:model` to a model, and explains errors of models in words that say what to do."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final, get_args
from urllib.parse import urlsplit, urlunsplit

from wane.core.errors import MissingExtraError, WaneError
from wane.prices import known_models, listed_prices
from wane.refusals import provider_message

if TYPE_CHECKING:
    from pydantic_ai.models import Model

DEFAULT_MODELS: Final[Mapping[str, str]] = {
    "ANTHROPIC_API_KEY": "anthropic:claude-sonnet-5-5",
    "OPENAI_API_KEY": "openai:gpt-6.1-sol",
    "GOOGLE_API_KEY": "google:gemini-4-argon",
}
"""Default models by the environment variable of their provider's key. The first variable that is set decides."""

EXTRAS: Final = frozenset({"openai", "anthropic", "google"})
"""Providers for which `wane` has an extra."""

ADDRESS_VARIABLES: Final = {
    "openai": "OPENAI_BASE_URL",
    "anthropic": "ANTHROPIC_BASE_URL",
    "google": "GOOGLE_GEMINI_BASE_URL",
    "ollama": "OLLAMA_BASE_URL",
    "vllm": "VLLM_BASE_URL",
    "litellm": "OPENAI_BASE_URL",
    "azure": "AZURE_OPENAI_ENDPOINT",
}
"""Environment variables from which providers' clients read the server's address."""

_SETTINGS: Final[Mapping[str, Mapping[str, str]]] = {
    "ollama": {"OLLAMA_BASE_URL": "http://localhost:11434/v1"},
    "vllm": {"VLLM_BASE_URL": "http://localhost:8000/v1"},
    "azure": {
        "AZURE_OPENAI_ENDPOINT": "https://RESOURCE.openai.azure.com",
        "OPENAI_API_VERSION": "2026-08-01",
        "AZURE_OPENAI_API_KEY": "KEY",
    },
    "bedrock": {"AWS_DEFAULT_REGION": "us-east-1"},
}
"""Variables without which the client of a provider cannot be made, each with an example of its value; first those
that the client looks for first."""

_CALLED: Final = {"AWS_DEFAULT_REGION": "region_name"}
"""What a client calls them where it does not name the variable."""

_CREDENTIALS: Final = {
    "bedrock": "set AWS_BEARER_TOKEN_BEDROCK to a Bedrock API key, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    "google-cloud": "set GOOGLE_API_KEY, or GOOGLE_CLOUD_PROJECT and log in: gcloud auth application-default login",
}
"""What to do where the client of a provider, which looks for credentials in many places, has none."""

_WITHOUT_CREDENTIALS: Final = frozenset({"NoCredentialsError", "DefaultCredentialsError"})
"""Errors that say so: those of botocore and google-auth, which need not be installed."""

_WRONG_SERVER: Final = frozenset({401, 403, 404, 405, 502, 503})
"""HTTP statuses that may mean that the address is wrong."""


class ModelError(WaneError):
    """The model cannot be used: it is unknown, has no key, or its client is not installed.

    Args:
        reason: why.
        command: a command to paste, which helps, and with which the message ends.
    """

    def __init__(self, reason: str, command: str = "") -> None:
        super().__init__(f"{reason}{command}")
        self._command = command

    @property
    def command(self) -> str:
        """The command that helps; empty if there is none."""
        return self._command


_KEY: Final = re.compile(r"[Ss]et the `([A-Z0-9_]*(?:KEY|TOKEN))`")
_NO_KEY: Final = re.compile(r"no api key", re.IGNORECASE)
_KEY_VARIABLES: Final = {model.partition(":")[0]: variable for variable, model in DEFAULT_MODELS.items()}
_EXTRA: Final = re.compile(r"pydantic-ai-slim\[([\w-]+)\]")
_FAMILIES: Final = {"claude": "anthropic", "gpt": "openai", "gemini": "google"}
"""Who makes models whose names begin so."""
LIKENESS: Final = 0.8
"""Least similarity of a misspelt name, as difflib measures it: two letters exchanged, or one wrong."""
_EXAMPLE: Final = " or ".join(list(DEFAULT_MODELS.values())[:2])


def default_model(environ: Mapping[str, str]) -> str:
    """Return the model to use if the user names none.

    Raises:
        ModelError: if `environ` has no key of a provider in `DEFAULT_MODELS`; the message names the variables.
    """
    for variable, model in DEFAULT_MODELS.items():
        if environ.get(variable):
            return model
    variables = ", ".join(DEFAULT_MODELS)
    raise ModelError(
        f"no model is named, and no key is in the environment ({variables}). Set one of these variables, or name "
        'a model with -m provider:model. "wane demo" shows the agent at work without a key'
    )


def resolve_model(spec: str | Model) -> Model:
    """Return the model named `provider:model`; a model is returned as it is.

    The provider's client reads its key from the environment; Wane does not look at it.

    Raises:
        ModelError: for an unknown provider, a missing key or an address that is none (the message names the variable),
            or any other error of the provider's client.
        MissingExtraError: if the provider's client is not installed.
    """
    if not isinstance(spec, str):
        return spec
    from pydantic_ai.models import infer_model

    if spec.endswith(":") or not spec.strip():
        raise ModelError(f"model {spec!r} has no name; write provider:model, such as {_EXAMPLE}")
    # With a wrong address the client fails as if the server were down, and waiting would not help.
    variable = ADDRESS_VARIABLES.get(spec.partition(":")[0].partition("-")[0], "")
    address = os.environ.get(variable)
    if address is not None and not address.startswith(("http://", "https://")):
        raise ModelError(f"{variable} is {address!r}, but must begin with http:// or https://; change it or unset it")
    try:
        return infer_model(spec)
    except ImportError as error:
        from wane.installing import installation

        match = _EXTRA.search(str(error))
        extra = match[1] if match else spec.partition(":")[0]
        if extra in EXTRAS:
            raise MissingExtraError(f"the model {spec}", extra) from error
        raise ModelError(
            f"the model {spec} needs a client that is not installed. Install it with: ",
            installation().package_line(f"pydantic-ai-slim[{extra}]"),
        ) from error
    except Exception as error:
        # Each client raises errors of its own, which have no common base.
        text = " ".join(str(error).split()) or type(error).__name__
        if reason := _known_reason(spec, error, text):
            raise ModelError(reason) from error
        if lacked := settings_to_set(spec, text):
            example = " ".join(f"{variable}={value}" for variable, value in lacked.items())
            needed = " and ".join(lacked)
            raise ModelError(f"the model {spec} needs {needed}. For example: ", f"export {example}") from error
        raise ModelError(f"the model {spec} cannot be used: {text}") from error


def offered_models(current: str, environ: Mapping[str, str]) -> list[str]:
    """Return the models to choose from: those that the clients list of the current provider and of those with a key."""
    from pydantic_ai.models import KnownModelName

    providers = {current.partition(":")[0]}
    for variable, model in DEFAULT_MODELS.items():
        if environ.get(variable):
            providers.add(model.partition(":")[0])
    return [name for name in get_args(KnownModelName.__value__) if name.partition(":")[0] in providers]


def check_name(spec: str, environ: Mapping[str, str]) -> None:
    """Refuse a model that its provider does not have, as far as that is known.

    A server of the user's own, at an address from the environment, may have any model.

    Raises:
        ModelError: for such a model; the message names similar ones.
    """
    from pydantic_ai.models import KnownModelName

    provider, _, name = spec.partition(":")
    maker = provider.partition("-")[0]
    if not name or maker not in _KEY_VARIABLES or environ.get(ADDRESS_VARIABLES[maker]) or name.startswith("ft:"):
        return
    listed = [known for known in get_args(KnownModelName.__value__) if known.partition(":")[0] == provider]
    if spec in listed or listed_prices(f"{maker}:{name}") is not None:
        return
    priced = [known.replace(maker, provider, 1) for known in known_models() if known.startswith(f"{maker}:")]
    near = get_close_matches(spec, dict.fromkeys([*listed, *priced]), 3, LIKENESS)
    guess = f"did you mean {' or '.join(near)}?" if near else "/model lists some."
    raise ModelError(f"no model {spec!r} is known; {guess} If it is a new one: wane -c -m {spec}")


def _advise_credentials(error: BaseException, provider: str) -> str:
    """Return what to do if a provider's client found no credentials; else an empty text."""
    return _CREDENTIALS.get(provider, "") if type(error).__name__ in _WITHOUT_CREDENTIALS else ""


def _known_reason(spec: str, error: Exception, text: str) -> str:
    """Return why a model cannot be used, given the error and its text; empty if it is not understood."""
    provider = spec.partition(":")[0]
    if text.startswith("Unknown model"):
        meant = _guess_model(spec)
        how = f"did you mean {meant}?" if meant else f"write provider:model, such as {_EXAMPLE}"
        return f"the model {spec!r} is unknown; {how}"
    if advice := _advise_credentials(error, provider):
        return f"no credentials for the model {spec}: {advice}"
    match = _KEY.search(text)
    variable = match[1] if match else _KEY_VARIABLES.get(provider)
    if variable and (match or _NO_KEY.search(text)):
        reason = f"no key for the model {spec}: set the environment variable {variable}; it is missing or empty"
        if provider != "openai-chat":
            return reason
        return f"{reason}. For a server of your own set OPENAI_BASE_URL, too; where it asks for no key, any will do"
    return ""


def settings_to_set(spec: str, text: str) -> Mapping[str, str]:
    """Return the variables that a model's client said that it lacks, with examples of their values."""
    settings = _SETTINGS.get(spec.partition(":")[0], {})
    missing = [variable for variable in settings if not os.environ.get(variable)]
    named = [variable for variable in missing if _CALLED.get(variable, variable) in text]
    if named and named[0] == next(iter(settings)):
        named = missing  # the client names only the first of those that it lacks
    return {variable: settings[variable] for variable in named}


def _guess_model(spec: str) -> str | None:
    """Return the model that a user seems to mean: with its provider, or with the provider's right name."""
    from pydantic_ai.models import KnownModelName

    provider, colon, name = spec.partition(":")
    providers = dict.fromkeys([*(known.partition(":")[0] for known in get_args(KnownModelName.__value__)), *_SETTINGS])
    if not colon and provider in providers:
        return f"{provider}:MODEL"
    if not colon:
        family = next((family for family in _FAMILIES if spec.startswith(family)), None)
        return f"{_FAMILIES[family]}:{spec}" if family else None
    near = get_close_matches(provider, providers, 1, LIKENESS)
    return f"{near[0]}:{name}" if near and near[0] != provider else None


def explain(error: BaseException, model: Model | None = None) -> str:
    """Return an error for people, on one line. The error's type is included unless it is Wane's or Pydantic AI's.

    Args:
        error: the error.
        model: the model that was called. An error of its server then names the address and the variable that sets it.
    """
    from pydantic_ai.exceptions import ModelAPIError, ModelConnectionError, ModelHTTPError

    address = hint = ""
    if model is not None and model.base_url:
        url = urlsplit(model.base_url)
        address = urlunsplit(url._replace(netloc=url.netloc.rpartition("@")[2]))  # without user name and password
        variable = ADDRESS_VARIABLES.get(model.model_id.partition(":")[0])
        if variable is not None:
            known = variable in os.environ
            hint = f"; the address comes from {variable}" if known else f"; set {variable} to use another one"
    provider = "" if model is None else model.model_id.partition(":")[0]
    if advice := _advise_credentials(error, provider):
        return f"no credentials for {provider}: {advice}"
    if isinstance(error, ModelHTTPError):
        status, reason = error.status_code, provider_message(error.body)
        if address and status in _WRONG_SERVER:
            return f"the provider of {error.model_name} answered HTTP {status} at {address}: {reason}{hint}"
        return f"the provider of {error.model_name} answered HTTP {status}: {reason}"
    if isinstance(error, ModelConnectionError) and error.phase == "read" and model is not None:
        return f"the answer of {model.model_id} broke off: {_with_root(error)}"
    if isinstance(error, ModelConnectionError) and model is not None and address:
        return f"cannot reach {address} for {model.model_id}: {_with_root(error)}{hint}"
    if isinstance(error, ModelAPIError) and model is not None:
        reason = provider_message(error.body) if error.body else _with_root(error)
        return f"the provider of {error.model_name} failed: {reason}"
    text = " ".join(str(error).split())
    ours = type(error).__module__.partition(".")[0] in ("wane", "pydantic_ai")
    return text if ours and text else f"{type(error).__name__}: {text}".rstrip(": ")


def _with_root(error: BaseException) -> str:
    """The error's text, with that of the error at the root of its chain in brackets if it says more."""
    text, root = " ".join(str(error).split()).rstrip("."), error
    while (deeper := root.__cause__ or root.__context__) is not None:
        root = deeper
    words = " ".join(str(root).split())
    return f"{text} ({words})"[:500] if words.rstrip(".") not in text else text[:500]
