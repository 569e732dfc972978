"""What must hold before each model call: the journal is on the disk, and there is money left."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic_ai.capabilities import AbstractCapability
from typing_extensions import override

from wane.agent.costs import dollars
from wane.core.errors import WaneError

if TYPE_CHECKING:
    from pydantic_ai import RunContext
    from pydantic_ai.models import ModelRequestContext

    from wane.agent.saving.recorder import Recorder


class CostLimitError(WaneError):
    """The session has spent what it may spend; no further model call is made."""


@dataclass
class Checkpoint(AbstractCapability[Any]):
    """Stands last before a model call.

    Attributes:
        recorder: the session's journal and totals.
        cost_limit: dollars that the session may spend; None for no limit.
    """

    recorder: Recorder
    cost_limit: float | None

    @override
    async def prepare_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Let the call go out, or stop the turn.

        Raises:
            JournalError: if the journal cannot be written.
            CostLimitError: if the limit is reached, or cannot be kept because a price is not known.
        """
        self.check_cost()
        await asyncio.to_thread(self.recorder.flush)
        return request_context

    def check_cost(self) -> None:
        """Raise `CostLimitError` if no further call may be made."""
        if self.cost_limit is None:
            return
        spent = self.recorder.totals.cost
        if spent is None:
            raise CostLimitError(
                f"the cost limit of {dollars(self.cost_limit)} cannot be kept, because the model's price is not known;"
                " start without -l/--cost-limit, or choose another model"
            )
        if spent >= self.cost_limit:
            raise CostLimitError(
                f"the cost limit of {dollars(self.cost_limit)} is reached: {dollars(spent)} were spent."
                " Nothing is lost; go on with a higher -l/--cost-limit"
            )
