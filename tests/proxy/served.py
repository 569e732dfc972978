"""Providers that run tools themselves: what their answers then hold, at random but by a seed, and what clients keep."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.proxy.agents import Worker
from tests.proxy.strict import Reckless, StrictUpstream
from tests.proxy.wire.anthropic_replies import Made, accumulate_message
from tests.proxy.world import AnthropicClient, Client, GeminiCliClient, GeminiClient, ResponsesClient
from wane.testing.gemini import signature

Block = dict[str, Any]

LONG = "what a page says, as long as pages are\n" * 12
LOADED = "deferred_tool"
"""The tool that searches load."""

REFERENCE: Block = {"type": "tool_reference", "tool_name": LOADED}
DEFERRED: Block = {"type": "function", "name": LOADED, "parameters": {"type": "object"}}
_SERVED = ("server_tool_use", "mcp_tool_use")
_ITEMS: dict[str, tuple[str, Block]] = {
    "web_search_call": ("ws", {"action": {"type": "search", "query": LONG}}),
    "file_search_call": ("fs", {"queries": ["x"], "results": [{"text": LONG}]}),
    "code_interpreter_call": ("ci", {"code": "1", "container_id": "c", "outputs": [{"type": "logs", "logs": LONG}]}),
    "mcp_call": ("mcp", {"server_label": "crm", "name": "lookup", "arguments": "{}", "output": LONG}),
    "image_generation_call": ("ig", {"result": "eA=="}),
    "tool_search_call": ("tsc", {"arguments": {"q": "x"}}),
}


@dataclass
class Serving(StrictUpstream):
    """A provider with rules that runs tools of its own between those of the client."""

    seed: int = 0
    _number: int = 0

    def __post_init__(self) -> None:
        self._rng = random.Random(self.seed)

    def ask(self, body: Mapping[str, Any]) -> bytes:
        answer = json.loads(super().ask({**body, "stream": False} if body.get("stream") else body))
        if "output" in answer:
            answer["output"] = self._serve_items(answer["output"])
        elif "candidates" in answer:
            content = answer["candidates"][0]["content"]
            content["parts"] = self._serve_parts(content.get("parts") or [])
        else:
            answer["content"], paused = self._serve_messages(body, answer["content"])
            if paused:
                answer["stop_reason"] = "pause_turn"
            if body.get("stream"):
                for block in answer["content"]:
                    if block["type"] == "tool_use" and not isinstance(block["input"], dict):
                        block["input"] = {}  # the SDK reads no stream whose arguments are malformed
                return Made(answer["content"], answer["stop_reason"], answer["usage"], len(self.requests)).stream
        return json.dumps(answer).encode()

    # Anthropic's Messages

    def _serve_messages(self, body: Mapping[str, Any], content: list[Block]) -> tuple[list[Block], bool]:
        """Answer calls of the last turn that are open, and make others: with results, or for a later answer."""
        said = [[block for block in content if block["type"] == "thinking"]]
        said.append([block for block in content if block["type"] != "thinking"])
        thinking, rest = said
        # The calls that were open are answered before the model goes on.
        answers = [self._result_of(use) for use in open_uses(body["messages"])]
        roll = self._rng.random()
        if roll < 0.4:
            pairs: list[Block] = []
            for _ in range(self._rng.randint(1, 2)):
                use = self._use()
                pairs += [use, self._result_of(use)]
            rest = [*pairs, self._cited_text(), *rest]
        elif roll < 0.6:
            rest = [*[block for block in rest if block["type"] == "text"], self._use()]
            return [*answers, *thinking, *rest], True
        elif roll < 0.7 and any(block["type"] == "tool_use" for block in rest):
            rest.insert(self._rng.randint(0, len(rest)), self._use())
        return [*answers, *thinking, *rest], False

    def _use(self) -> Block:
        self._number += 1
        name = self._rng.choice(["web_search", "web_fetch", "code_execution", "tool_search_tool_regex", "lookup"])
        fields = {"id": f"srvtoolu_{self.seed}x{self._number}", "name": name, "input": {"n": self._number}}
        if name == "lookup":
            return {"type": "mcp_tool_use", "server_name": "crm", **fields}
        return {"type": "server_tool_use", **fields}

    def _result_of(self, use: Block) -> Block:
        name = use["name"]
        if name == "lookup":
            kind, content = "mcp", [{"type": "text", "text": LONG}]
        elif name == "web_search":
            hit = {"type": "web_search_result", "title": "t", "url": "https://example.org", "encrypted_content": LONG}
            kind, content = name, [hit]
        elif name == "web_fetch":
            source = {"type": "text", "media_type": "text/plain", "data": LONG}
            page = {"type": "document", "source": source}
            kind, content = name, {"type": "web_fetch_result", "url": "https://example.org", "content": page}
        elif name == "code_execution":
            ran = {"stdout": LONG, "stderr": "", "return_code": 0, "content": []}
            kind, content = name, {"type": "code_execution_result", **ran}
        else:
            references = [REFERENCE] if self._rng.random() < 0.2 else []
            kind, content = "tool_search", {"type": "tool_search_tool_search_result", "tool_references": references}
        return {"type": f"{kind}_tool_result", "tool_use_id": use["id"], "content": content}

    # OpenAI's Responses: call and result are one item, but for approvals and a search of the client's

    def _serve_items(self, output: list[Block]) -> list[Block]:
        ahead: list[Block] = []
        for _ in range(self._rng.choice((0, 0, 1, 1, 2))):
            self._number += 1
            item = self._served_item()
            if "id" in item and self._rng.random() < 0.5:
                thought = f"r{self.seed:x}f{self._number:x}"
                ahead.append(
                    {"type": "reasoning", "id": f"rs_{thought}", "summary": [], "encrypted_content": "x" * 900}
                )
                item["id"] = f"{item['id'].partition('_')[0]}_{thought}_0"
            ahead.append(item)
            if item["type"] == "tool_search_call" and "call_id" not in item:
                ahead.append({"type": "tool_search_output", "execution": "server", "tools": [DEFERRED]})
        if self._rng.random() < 0.1:
            self._number += 1
            made = f"{self.seed}x{self._number}"
            ask = {"type": "mcp_approval_request", "id": f"mcpr_{made}", "server_label": "crm", "name": "drop"}
            search = {"type": "tool_search_call", "call_id": f"call_{made}", "execution": "client"}
            output = [*output, self._rng.choice(({**ask, "arguments": "{}"}, {**search, "arguments": {"q": "x"}}))]
        return [*ahead, *output]

    def _served_item(self) -> Block:
        made, name = f"{self.seed}x{self._number}", self._rng.choice(sorted(_ITEMS))
        stem, fields = _ITEMS[name]
        if name == "tool_search_call":
            return {"type": name, "execution": "server", **fields}
        return {"type": name, "id": f"{stem}_{made}", "status": "completed", **fields}

    # Gemini

    def _serve_parts(self, parts: list[Block]) -> list[Block]:
        ahead: list[Block] = []
        for _ in range(self._rng.choice((0, 0, 1, 2))):
            self._number += 1
            ran: Block = {"executableCode": {"language": "PYTHON", "code": f"print({self._number})"}}
            answer: Block = {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": LONG}}
            if self._rng.random() < 0.6:
                about = {"id": f"t{self.seed}x{self._number}", "toolType": "GOOGLE_SEARCH_WEB"}
                ran = {"toolCall": {**about, "args": {"queries": ["x"]}}}
                answer = {"toolResponse": {**about, "response": {"pages": LONG}}}
                if self._rng.random() < 0.5:
                    ran["thoughtSignature"] = signature(ran)
            ahead += [ran, answer]
        return [*ahead, *parts]

    def _cited_text(self) -> Block:
        text: Block = {"type": "text", "text": f"So it is said, {self._number}."}
        if self._rng.random() < 0.5:
            place = {"url": "https://example.org", "title": "t", "encrypted_index": "x", "cited_text": "what"}
            text["citations"] = [{"type": "web_search_result_location", **place}]
        return text


def open_uses(messages: Sequence[Mapping[str, Any]]) -> list[Block]:
    """The calls of Anthropic's own tools that have no result yet."""
    uses: dict[str, Block] = {}
    for block in blocks_in(messages):
        if block["type"] in _SERVED:
            uses[block["id"]] = block
        elif block["type"].endswith("_tool_result"):
            uses.pop(block["tool_use_id"], None)
    return list(uses.values())


def blocks_in(messages: Sequence[Mapping[str, Any]]) -> list[Block]:
    """The blocks of all messages."""
    contents = [message["content"] for message in messages if isinstance(message["content"], list)]
    return [block for content in contents for block in content]


def loads_in(body: Mapping[str, Any]) -> set[str]:
    """What loaded tools: ids of the calls; a number for each search without one."""
    if "input" in body:
        ids = [item.get("call_id") for item in body["input"] if item.get("type") == "tool_search_output"]
        return {*filter(None, ids), *map(str, range(ids.count(None)))}
    results = [block for block in blocks_in(body.get("messages", ())) if block["type"].endswith("tool_result")]
    return {block["tool_use_id"] for block in results if LOADED in json.dumps(block["content"])}


class PausingClient(AnthropicClient):
    """Sends an answer that is no end back as it is, and takes what comes then as a message of its own."""

    merges = False
    paused = False

    def copy(self) -> Any:
        other = super().copy()
        other.paused = self.paused
        return other

    def body(self) -> dict[str, Any]:
        body = super().body()
        del body["messages"][-1]["content"][-1]["cache_control"]
        deferred = {"name": LOADED, "description": "d", "input_schema": {"type": "object"}, "defer_loading": True}
        return {**body, "tools": [*body["tools"], deferred]}

    def take(self, answer: Mapping[str, Any], results: Callable[[str, Any], str]) -> int:
        before = self.history.pop()["content"] if self.merges and self.paused else []
        calls = super().take(answer, results)
        if before:
            position = -2 if calls else -1
            self.history[position]["content"] = [*before, *answer["content"]]
        self.paused = answer["stop_reason"] == "pause_turn"
        for block in self.history[-1]["content"] if calls else ():
            # The client has a search of its own.
            if block["content"].startswith("edit") and len(self.history) % 5 == 0:
                block["content"] = [REFERENCE]
        return calls + self.paused


class MergingClient(PausingClient):
    """Puts what comes behind such an answer into the same message."""

    merges = True


class ThinkingClient(PausingClient):
    """Asks for thinking with a budget, so that each turn must begin with it."""

    def body(self) -> dict[str, Any]:
        return {**super().body(), "thinking": {"type": "enabled", "budget_tokens": 1_024}}


def model_of(make: type[Client], seed: int) -> Worker:
    """The model that a client asks: with a budget for thinking it thinks where a turn begins, and then works on."""
    return Worker(seed, steps=20) if make is ThinkingClient else Reckless(seed)


class StreamedClient(PausingClient):
    """Asks for streams, and reads its answers from them by Anthropic's SDK."""

    def body(self) -> dict[str, Any]:
        return {**super().body(), "stream": True}

    def read(self, answer: bytes) -> dict[str, Any]:
        message = accumulate_message(answer)
        content = [block.to_dict(mode="json", exclude_unset=True) for block in message.content]
        return {"content": content, "stop_reason": message.stop_reason}


class SearchingClient(ResponsesClient):
    """Approves calls of MCP servers, and searches for tools."""

    def take(self, answer: Mapping[str, Any], results: Callable[[str, Any], str]) -> int:
        calls = super().take(answer, results)
        for item in answer["output"]:
            if item["type"] == "mcp_approval_request":
                reason = {"reason": "It is the test system."} if calls % 2 else {}
                said = {"type": "mcp_approval_response", "approval_request_id": item["id"], "approve": True, **reason}
            elif item["type"] == "tool_search_call" and item.get("call_id"):
                said = {"type": "tool_search_output", "call_id": item["call_id"], "execution": "client"}
                said["tools"] = [DEFERRED]
            else:
                continue
            self.history.append(said)
            calls += 1
        return calls


PROVIDERS: tuple[tuple[type[Client], str], ...] = (
    *((PausingClient, "anthropic"), (MergingClient, "anthropic"), (ThinkingClient, "anthropic")),
    *((StreamedClient, "anthropic"), (SearchingClient, "openai")),
    *((GeminiClient, "gemini 3"), (GeminiCliClient, "gemini 2")),
)
"""Clients, each with the server that it asks."""
