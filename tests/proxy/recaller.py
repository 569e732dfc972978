"""A model that reads its evicted episodes again, and knows by itself what they held."""

from __future__ import annotations

import json
import random
import re
from dataclasses import dataclass, field, replace

from tests.proxy.agents import Worker
from wane import Kind
from wane.testing import Call, Reply, Request
from wane.testing.anthropic import UNSCRIPTED

OWN = ("delimiter", "recall")
_NOTE = "\n\n[Automatic note on the context window"
_HEAD = re.compile(r'Episode "(\w+)", (?:whole|characters (\d+) to (\d+) of (\d+)):\n\n')


@dataclass
class Recaller:
    """Works as `Worker` does, and recalls its closed episodes page by page: alone, beside other calls, several at once.

    What an episode held is told from what the model said and was answered, and from the protocol: not from the proxy.

    Attributes:
        seed: of its choices.
        reasons: whether it reasons aloud.
        share: how often it recalls.
        label: begins the ids of its calls, which are its own in every fork.
        read: what it has read of each episode so far.
        whole: what each episode held that was read to its end.
        removed: names of episodes of which nothing was in view when they were recalled.
    """

    seed: int
    reasons: bool = False
    share: float = 0.5
    label: str = "c"
    read: dict[str, str] = field(default_factory=dict)
    whole: dict[str, str] = field(default_factory=dict)
    removed: set[str] = field(default_factory=set)
    _said: list[Reply] = field(default_factory=list)
    _calls: dict[str, str] = field(default_factory=dict)
    _results: dict[str, str] = field(default_factory=dict)
    _settled: int = 0

    def __post_init__(self) -> None:
        self._rng = random.Random(self.seed)
        self._worker = Worker(self.seed, reasons=self.reasons)

    def __call__(self, request: Request) -> Reply:
        # Providers make of arguments that are not JSON what they like. Those of own calls go back empty (`{}`), but the
        # history, and so what is recalled, has them as the provider gave them.
        for part in request.parts:
            if part.kind is Kind.CALL and (part.text != "{}" or part.tool not in OWN):
                self._calls[part.call_id or ""] = part.text
        for call_id, shown in request.results.items():
            # A reminder stands at the request's tail, so in its last result where nothing else may follow.
            text = shown.partition(_NOTE)[0]
            if call_id not in self._results:
                self._results[call_id] = text
                self._note(text)
        alone = bool(self._said and self._said[-1].calls) and all(call.tool in OWN for call in self._said[-1].calls)
        if not alone:
            # What it marked and was told since then is not in the history yet.
            self._settled = len(self._said)
        reply = self._worker(request)
        if "recall" in request.tools and self._rng.random() < self.share:
            reply = self._recalling(request, reply)
        calls = tuple(
            replace(call, id=f"{self.label}-{len(self._said)}-{number}") for number, call in enumerate(reply.calls)
        )
        reply = replace(reply, calls=calls)
        self._said.append(reply)
        return reply

    def holds(self, name: str) -> list[str]:
        """What an episode holds, each call, result and text for itself, in order of the calls."""
        return [block for episode, block, _ in self._blocks(len(self._said)) if episode == name]

    def check(self) -> int:
        """See that everything that was recalled is exact; return how many episodes were."""
        for name, whole in self.whole.items():
            # With a budget for thinking the server's model thinks as it begins a turn, which is not of the script.
            text = whole.replace(f"[reasoning]\n{UNSCRIPTED}\n\n", "").replace(f"\n\n[reasoning]\n{UNSCRIPTED}", "")
            blocks = self.holds(name)
            assert len(text) == sum(map(len, blocks)) + 2 * (len(blocks) - 1), (name, text, blocks)
            assert all(block in text for block in blocks), (name, text, blocks)
            at = 0
            for call in (block for block in blocks if block.startswith("[call")):
                at = text.index(call, at) + len(call)
        return len(self.whole)

    def _recalling(self, request: Request, reply: Reply) -> Reply:
        blocks = self._blocks(self._settled)
        ended = [
            n for n, block, _ in blocks if n and '"action":"end"' in block and block.startswith("[call delimiter]")
        ]
        names = [name for name in dict.fromkeys(ended) if name not in self.whole]
        if not names:
            return reply
        shown = {part.call_id for part in request.parts}
        in_view = {name for name, _, call_id in blocks if call_id and call_id in shown}
        gone = [name for name in names if name not in in_view]
        picked = {self._rng.choice(gone or names) for _ in range(self._rng.randint(1, 2))}
        self.removed |= picked & set(gone)
        recalls = [Call("recall", {"name": name, "offset": len(self.read.get(name, ""))}) for name in sorted(picked)]
        if not reply.calls or self._rng.random() < 0.4:
            return Reply(text=reply.text if reply.calls else None, reasoning=reply.reasoning, calls=tuple(recalls))
        calls = list(reply.calls)
        for recall in recalls:
            calls.insert(self._rng.randint(0, len(calls)), recall)
        return replace(reply, calls=tuple(calls))

    def _note(self, text: str) -> None:
        head = _HEAD.match(text)
        if head is None:
            assert not text.startswith("Episode "), text
            return
        name, page = head[1], text[head.end() :]
        if head[2] is None:
            self.whole[name] = page
            return
        start, stop, total = map(int, head.groups()[1:])
        page = page[: stop - start]
        if start == len(self.read.get(name, "")):
            self.read[name] = self.read.get(name, "") + page
        if len(self.read[name]) == total:
            self.whole[name] = self.read[name]

    def _blocks(self, replies: int) -> list[tuple[str | None, str, str | None]]:
        """Of each thing that was said: the episode that it is in, what it is in a recall, and the id of its call."""
        blocks: list[tuple[str | None, str, str | None]] = []
        active: str | None = None
        for reply in self._said[:replies]:
            if reply.reasoning:
                blocks.append((active, f"[reasoning]\n{reply.reasoning}", None))
            if reply.text:
                blocks.append((active, f"[text]\n{reply.text}", None))
            for call in reply.calls:
                result = self._results.get(call.id or "", "")
                ends = call.tool == "delimiter" and result.startswith("Ended")
                if call.tool == "delimiter" and result.startswith("Started"):
                    active = json.loads(call.raw_arguments)["name"]
                blocks.append(
                    (active, f"[call {call.tool}] {self._calls.get(call.id or '', call.raw_arguments)}", call.id)
                )
                blocks.append((active, f"[result]\n{result}", call.id))
                active = None if ends else active
        return blocks


def recall_results(request: Request) -> list[str]:
    """The results of all calls of `recall` in a request."""
    calls = {part.call_id for part in request.parts if part.kind is Kind.CALL and part.tool == "recall"}
    return [text for call_id, text in request.results.items() if call_id in calls]
