"""A question to the user that waits for its answer at the prompt."""

from __future__ import annotations

import asyncio

from wane.agent.approval.permissions import Approval, ApprovalRequest
from wane.cli.chat.questions import answer_to, prompt_of


class Asking:
    """The question that is open, if there is one; there is one at a time."""

    def __init__(self) -> None:
        self._request: ApprovalRequest | None = None
        self._answer: asyncio.Future[Approval] | None = None

    @property
    def open(self) -> bool:
        """Whether a question waits for its answer."""
        return self._answer is not None and not self._answer.done()

    @property
    def prompt(self) -> str:
        """The words of the prompt for the answer; "" if no question is open."""
        return prompt_of(self._request) if self.open and self._request is not None else ""

    async def ask(self, request: ApprovalRequest) -> Approval:
        """Return the answer, once there is one."""
        self._request, self._answer = request, asyncio.get_running_loop().create_future()
        try:
            return await self._answer
        finally:
            self._request = self._answer = None

    def take(self, line: str) -> bool:
        """Take a line as the answer; False if the question does not offer it."""
        assert self._request is not None
        approval = answer_to(self._request, line)
        if approval is not None:
            self.answer(approval)
        return approval is not None

    def answer(self, approval: Approval) -> None:
        """Answer the question that is open."""
        assert self._answer is not None
        self._answer.set_result(approval)
