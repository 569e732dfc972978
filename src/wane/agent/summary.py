"""Summaries for the strategy `compact`, written by the run's own model through the harness's summarising capability."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pydantic_ai.messages import ModelMessage, SystemPromptPart
from pydantic_ai.usage import RequestUsage, RunUsage
from pydantic_ai_harness.compaction import SummarizingCompaction, compact_now

from wane.core.errors import WaneError

if TYPE_CHECKING:
    from pydantic_ai.models import Model

    from wane.agent.saving.recorder import Recorder

# What the harness puts ahead of a summary in the messages that it returns.
_PREFIX: Final = "Summary of previous conversation:\n\n"


class SummaryError(WaneError):
    """The model gave no summary, so the context cannot be compacted."""


async def summarise(recorder: Recorder, model: Model, messages: list[ModelMessage], instructions: str) -> str:
    """Have a model summarise messages.

    The harness does it in a run of its own, over the messages written out as text, where it cuts each tool result at
    500 characters. So the call is not served from the provider's cache, as one that repeats the last request would
    be; it reads less in return.

    Args:
        recorder: told what the call took.
        model: the model.
        messages: what to summarise, all of it.
        instructions: what the summary is to hold.

    Raises:
        SummaryError: if the model answers with nothing.
    """
    prompt = f"{instructions.replace('{', '{{').replace('}', '}}')}\n\n<messages>\n{{messages}}\n</messages>"
    strategy: SummarizingCompaction[None] = SummarizingCompaction(
        # Not looked at: it is told to compact, and all of it.
        max_messages=1,
        keep_messages=0,
        preserve_first_user_message=False,
        incremental=False,
        summary_prompt=prompt,
    )
    usage = RunUsage()
    # Its `before_model_request` would do this again ahead of every request, as what it changes does not last.
    compacted = await compact_now(strategy, messages, model=model, usage=usage)
    recorder.spent(_of_one(usage), model.model_id)
    text = _text(compacted)
    if not text:
        raise SummaryError("the model answered with an empty summary, so the context cannot be compacted; try again")
    return text


def _text(compacted: list[ModelMessage]) -> str:
    parts = compacted[0].parts if compacted else []
    said = [part.content for part in parts if isinstance(part, SystemPromptPart)]
    return said[-1].removeprefix(_PREFIX).strip() if said else ""


def _of_one(usage: RunUsage) -> RequestUsage:
    """The usage of a run of one request."""
    return RequestUsage(
        input_tokens=usage.input_tokens,
        cache_write_tokens=usage.cache_write_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        output_tokens=usage.output_tokens,
        cost=usage.cost,
    )
