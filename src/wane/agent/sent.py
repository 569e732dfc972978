"""Sees each request of a session's model as it leaves: the exact bytes of the body that the provider's client makes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from pydantic_ai.messages import ModelMessagesTypeAdapter
from pydantic_core import to_json

if TYPE_CHECKING:
    from pydantic_ai.models import Model, ModelRequestContext

OnRequest = Callable[[bytes, str], None]
"""Gets the body of a request, and where it goes, without a query, which may hold a key."""

_on_request: ContextVar[OnRequest | None] = ContextVar("on_request", default=None)


@contextmanager
def seeing(on_request: OnRequest) -> Iterator[None]:
    """See the requests of watched models that are made in this context. Sessions may share a model."""
    token = _on_request.set(on_request)
    try:
        yield
    finally:
        _on_request.reset(token)


def watch(model: Model) -> bool:
    """Watch a model's HTTP client; return False if the model shows none."""
    client: Any = getattr(model, "client", None)  # OpenAI's, Anthropic's or Google's
    http = getattr(client, "_client", None) or getattr(
        getattr(client, "_api_client", None), "_async_httpx_client", None
    )
    hooks = getattr(http, "event_hooks", None)
    if not isinstance(hooks, dict):
        return False
    if _sent not in hooks["request"]:
        hooks["request"].append(_sent)
    return True


def handed_over(context: ModelRequestContext) -> bytes:
    """Return all that a model is asked, as JSON: what is known of the request if its HTTP client does not show it."""
    request = {
        "model": context.model.model_id,
        "messages": ModelMessagesTypeAdapter.dump_python(context.messages, mode="json"),
        "settings": context.model_settings,
        "parameters": context.model_request_parameters,
    }
    return to_json(request, serialize_unknown=True)


async def _sent(request: Any) -> None:
    on_request = _on_request.get()
    if on_request is not None and (body := await request.aread()):
        url = request.url
        on_request(body, f"{url.scheme}://{url.netloc.decode()}{url.path}")
