"""Context Window Lifecycle for mini-swe-agent. Needs the `mini-swe-agent` extra.

    model:
      model_class: wane.integrations.mini_swe_agent.ContextLifecycle
      budget: 80k

The agent's messages and its trajectory stay complete; each model call gets a view of them. The messages contain their
usage, so that nothing else is stored.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import Any

from wane.budgets import TunedBudget
from wane.caches import rules_for
from wane.conversation import Adapter, Conversation, Conversations, calls_of
from wane.conversation.context import REMIND_AT
from wane.core import DEFAULT_BUDGET, Kind, Policy, ToolClass
from wane.core.errors import FormatError, HistoryError, MissingExtraError
from wane.formats.answers import request_tokens
from wane.formats.message_format import Part
from wane.formats.openai import Message, OpenAIFormat
from wane.integrations.lifecycle import UNMANAGED_CALL, LifecycleSettings, Warner, has_budget, maker
from wane.strategies.strategy import Annotate

try:
    import litellm
    from minisweagent.models.litellm_model import LitellmModel, LitellmModelConfig
    from minisweagent.models.utils.actions_toolcall import BASH_TOOL
    from pydantic import ConfigDict, ImportString, field_serializer, field_validator
except ImportError as error:
    raise MissingExtraError("wane.integrations.mini_swe_agent", "mini-swe-agent") from error

__all__ = ["ContextLifecycle", "ContextLifecycleConfig"]


class ContextLifecycleConfig(LitellmModelConfig):
    """Settings of Wane in the YAML's section `model`, besides those of `LitellmModel`.

    Attributes are those of `wane.conversation.ContextSettings`, except:
        policy: the fields of `Policy` that differ from the default, or `paper`.
        on_event: dotted name of a function that is called with each event (`wane.conversation.events`).
    """

    model_config = ConfigDict(extra="forbid")  # a misspelt setting would leave its default in force

    budget: int | str = DEFAULT_BUDGET
    policy: Policy | None = None
    annotate: Annotate = "model"
    recall: bool = False
    tasks: bool = False
    subagents: dict[str, str] | None = None
    remind_at: float | None = REMIND_AT
    tool_classes: dict[str, ToolClass | str] | None = None
    window: int | str | None = None
    tuned: TunedBudget | None = None
    counter: str = "chars"
    on_event: ImportString[Any] | None = None

    @field_validator("policy", mode="before")
    @classmethod
    def _policy(cls, value: Any) -> Any:
        if value == "paper":
            return Policy.paper()
        if isinstance(value, dict) and (unknown := value.keys() - {field.name for field in fields(Policy)}):
            raise ValueError(f"a policy has no field {', '.join(sorted(unknown))}")
        return value

    @field_serializer("on_event", when_used="json")
    def _listener_name(self, listener: Any) -> str | None:
        # A trajectory is JSON, but a listener may be any callable.
        return None if listener is None else f"{listener.__module__}.{getattr(listener, '__qualname__', listener)}"


class ContextLifecycle(LitellmModel):
    """A `LitellmModel` whose requests stay within a token budget, evicting by episode. The agent's messages stay whole.

    The agent gets the tool `delimiter`, and guidance behind its system prompt. One object serves any number of agents,
    each with a window of its own.

    Args:
        config_class: class of the settings.
        settings: settings of `ContextLifecycleConfig`, by name.

    Raises:
        ValueError: for a setting that cannot work.
    """

    def __init__(self, *, config_class: Callable[..., Any] = ContextLifecycleConfig, **settings: Any) -> None:
        super().__init__(config_class=config_class, **settings)
        config = self.config
        others: Any = {name: getattr(config, name) for name in LifecycleSettings.__annotations__}
        make = maker(MiniFormat(), _Adapter(), config.budget, **others)
        sample = make()
        self.instructions = sample.instructions
        self._tools = [BASH_TOOL, *sample.tools]
        self._own = frozenset(tool.name for tool in sample.own_tools)

        def ready() -> Conversation[Message]:
            conversation = make()
            conversation.overhead = f"{self.instructions}{json.dumps(self._tools)}"
            # LiteLLM makes a budget of the effort.
            effort = config.model_kwargs.get("reasoning_effort")
            conversation.keep_opening = has_budget(config.model_kwargs.get("thinking")) or effort not in (None, "none")
            return conversation

        self._conversations = Conversations(ready)
        self._warner = Warner()
        self._lock = threading.RLock()  # agents may run in threads

    def query(self, messages: list[Message], **kwargs: Any) -> Message:
        """Ask the model with a view of an agent's messages, and judge the marks of its answer."""
        try:
            with self._lock:
                # The message that ends a run is not sent to any model.
                conversation = self._conversations.of(
                    [message for message in messages if message.get("role") != "exit"]
                )
                view = _with_guidance(conversation.request().messages, self.instructions)
        except (FormatError, HistoryError) as error:
            self._warner.warn_unmanaged(error)
            unmanaged: Message = super().query(messages, **kwargs)
            return unmanaged
        answer: Message = super().query(view, tools=self._tools, **kwargs)
        with self._lock:
            self._conversations.judge_answer(conversation, calls_of(conversation.format, [answer]), [answer])
        return answer

    def _query(self, messages: list[Message], *, tools: Sequence[Any] = (BASH_TOOL,), **kwargs: Any) -> Any:
        # `LitellmModel` cannot pass tools.
        try:
            return litellm.completion(
                model=self.config.model_name,
                messages=messages,
                tools=list(tools),
                **(self.config.model_kwargs | kwargs),
            )
        except litellm.exceptions.AuthenticationError as error:
            error.message += " You can permanently set your API key with `mini-extra config set KEY VALUE`."
            raise

    def _parse_actions(self, response: Any) -> list[dict[str, Any]]:
        calls = response.choices[0].message.tool_calls or []
        commands = [call for call in calls if call.function.name not in self._own]
        if len(commands) == len(calls):
            actions: list[dict[str, Any]] = super()._parse_actions(response)
            return actions
        if not commands:
            return []
        trimmed = response.model_copy(deep=True)
        trimmed.choices[0].message.tool_calls = commands
        return self._parse_actions(trimmed)

    def format_observation_messages(
        self, message: Message, outputs: list[dict[str, Any]], template_vars: dict[str, Any] | None = None
    ) -> list[Message]:
        """Return the results of an answer's calls, in order: outputs of commands, and answers to own calls."""
        observations: list[Message] = super().format_observation_messages(message, outputs, template_vars)
        own = [call for call in calls_of(MiniFormat(), [message]) if call.name in self._own]
        if not own:
            return observations
        results = {result["tool_call_id"]: result for result in observations}
        with self._lock:
            for call in own:
                conversation = self._conversations.answering(call, message)
                text = UNMANAGED_CALL if conversation is None else conversation.host.answer(call)
                results[call.id] = {"role": "tool", "tool_call_id": call.id, "content": text}
        return [results[call["id"]] for call in message["tool_calls"] if call["id"] in results]


class MiniFormat(OpenAIFormat):
    """The agent's messages: OpenAI's format, with the agent's own data under `extra`."""

    name = "mini-swe-agent"

    def parts(self, message: Message) -> list[Part]:
        """Return a message's parts; text that the agent writes as the user is a notice (R15)."""
        parts = super().parts(message)
        extra = message.get("extra") or {} if message.get("role") == "user" else {}
        # It answers a faulty call, or gives the output of a user's command.
        if extra.get("interrupt_type") == "FormatError" or "raw_output" in extra:
            return [replace(part, kind=Kind.NOTICE) for part in parts]
        return parts


class _Adapter(Adapter[Message]):
    adds_fields = True

    def usage(self, message: Message) -> int:
        response = _response(message)
        return request_tokens(response, (response.get("usage") or {}).get("prompt_tokens") or 0)

    def time(self, message: Message) -> float | None:
        return (message.get("extra") or {}).get("timestamp")

    def cache_lifetime(self, message: Message) -> float | None:
        model = _response(message).get("model")
        return rules_for("", model).lifetime if isinstance(model, str) else None


def _response(message: Message) -> dict[str, Any]:
    """The provider's response that a message came in; empty for a message that is no answer."""
    response = (message.get("extra") or {}).get("response")
    return response if isinstance(response, dict) else {}


def _with_guidance(messages: Sequence[Message], instructions: str) -> list[Message]:
    if not instructions or not messages or messages[0]["role"] != "system":
        return [{"role": "system", "content": instructions}, *messages] if instructions else list(messages)
    system, *history = messages
    content = system["content"]
    if isinstance(content, str):
        return [{**system, "content": f"{content}\n\n{instructions}"}, *history]
    return [{**system, "content": [*content, {"type": "text", "text": instructions}]}, *history]
