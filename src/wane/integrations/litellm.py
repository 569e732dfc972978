"""Context Window Lifecycle for LiteLLM's asynchronous calls. Needs the `litellm` extra.

    litellm.callbacks = [ContextLifecycle(budget="80k")]

Callers keep all their messages; each request gets a view of them. Callers do not run Wane's tools, so episodes are
inferred from tool calls.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Mapping
from threading import RLock
from typing import Any

from wane.conversation import Adapter, Conversation, Conversations, Request
from wane.conversation.events import Listener
from wane.core import DEFAULT_BUDGET, Policy, ToolClass
from wane.core.errors import FormatError, HistoryError, MissingExtraError
from wane.formats.answers import request_tokens
from wane.formats.openai import OpenAIFormat
from wane.integrations.lifecycle import Warner, has_budget, maker

try:
    from litellm.integrations.custom_logger import CustomLogger
except ImportError as error:
    raise MissingExtraError("wane.integrations.litellm", "litellm") from error


class _Adapter(Adapter[Any]):
    adds_fields = True


class ContextLifecycle(CustomLogger):
    """Keeps the requests of `acompletion` and the Router within a budget, streamed or not. `completion` runs no hooks.

    Args:
        budget: tokens that a request may hold: a number, or text such as `"80k"`.
        policy: what a pass evicts, and how far; `Policy()` if None.
        tool_classes: classes of tools by name, on top of the defaults.
        on_event: called with each event (`wane.conversation.events`).

    Raises:
        ConfigError: for a setting that cannot work.
    """

    def __init__(
        self,
        budget: int | str = DEFAULT_BUDGET,
        *,
        policy: Policy | None = None,
        tool_classes: Mapping[str, ToolClass | str] | None = None,
        on_event: Listener | None = None,
    ) -> None:
        super().__init__()
        make = maker(
            OpenAIFormat(),
            _Adapter(),
            budget,
            policy=policy,
            annotate="infer",
            tool_classes=tool_classes,
            on_event=on_event,
        )
        make()  # checks the settings
        self._conversations = Conversations(make)
        self._waiting = OrderedDict[str, tuple[Conversation, Request[Any]]]()
        self._warner = Warner()
        self._lock = RLock()

    async def async_pre_call_deployment_hook(self, kwargs: dict[str, Any], call_type: Any) -> dict[str, Any] | None:
        """Replace a request's messages by a view. LiteLLM calls it."""
        if getattr(call_type, "value", call_type) != "acompletion":
            return None
        messages = [m if isinstance(m, dict) else m.model_dump(exclude_none=True) for m in kwargs.get("messages") or []]
        tools = kwargs.get("tools")
        # An agent may ask for its last answer without tools.
        if not tools and not any(message.get("tool_calls") for message in messages):
            return None
        with self._lock:
            try:
                conversation = self._conversations.of(messages)
            except (FormatError, HistoryError) as error:
                self._warner.warn_unmanaged(error)
                return None
            conversation.overhead = json.dumps(tools, default=str) if tools else 0
            conversation.keep_opening = has_budget(kwargs.get("thinking"))
            request = conversation.request()
            self._waiting[kwargs["litellm_call_id"]] = conversation, request
            if len(self._waiting) > 1_000:  # failed requests never get their usage
                self._waiting.popitem(last=False)
        return {**kwargs, "messages": request.messages}

    async def async_post_call_success_deployment_hook(self, request_data: Any, response: Any, call_type: Any) -> None:  # noqa: ARG002
        """Take in a request's usage. LiteLLM calls it."""
        self._observe(request_data, response)

    async def async_log_success_event(self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any) -> None:  # noqa: ARG002
        """Take in a streamed request's usage. LiteLLM calls it in the background."""
        self._observe(kwargs, response_obj)

    def _observe(self, call: dict[str, Any], response: Any) -> None:
        with self._lock:
            usage = getattr(response, "usage", None)
            if usage is not None and (waiting := self._waiting.pop(call["litellm_call_id"], None)) is not None:
                conversation, request = waiting
                conversation.observe(request_tokens(response, usage.prompt_tokens or 0), request=request)
                self._conversations.judge_answer(conversation, (), ())
