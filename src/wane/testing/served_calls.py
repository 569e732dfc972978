"""What a provider says of a tool call that it ran by itself, in each protocol that has such calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wane.testing.sent_request import compact

if TYPE_CHECKING:
    from wane.testing.script import ServedCall

Wire = dict[str, Any]


def write_blocks(call: ServedCall, call_id: str) -> tuple[Wire, Wire]:
    """Return the blocks of a call and of its result in Anthropic's Messages; the call's input is still raw text."""
    content: Any
    if call.tool == "web_search":
        query = "query"
        hit = {"type": "web_search_result", "url": "https://example.org", "title": call.query, "page_age": None}
        content = [{**hit, "encrypted_content": call.result}]
    else:
        query = "code"
        output: Wire = {"stdout": call.result, "stderr": "", "return_code": 0, "content": []}
        content = {"type": "code_execution_result", **output}
    use = {"type": "server_tool_use", "id": call_id, "name": call.tool, "input": compact({query: call.query})}
    return use, {"type": f"{call.tool}_tool_result", "tool_use_id": call_id, "content": content}


def write_item(call: ServedCall) -> Wire:
    """Return the item of OpenAI's Responses, call and result in one, without its id and status."""
    if call.tool == "web_search":
        action = {"type": "search", "query": call.query, "queries": [call.query], "sources": []}
        return {"type": "web_search_call", "action": action}
    if call.tool == "file_search":
        hit = {"file_id": "file_1", "filename": "f", "score": 1.0, "attributes": {}, "text": call.result}
        return {"type": "file_search_call", "queries": [call.query], "results": [hit]}
    outputs = [{"type": "logs", "logs": call.result}]
    return {"type": "code_interpreter_call", "code": call.query, "container_id": "cntr_1", "outputs": outputs}


def write_parts(call: ServedCall, call_id: str) -> tuple[Wire, Wire]:
    """Return Gemini's parts of a call and of its result; code has no id."""
    if call.tool == "code_execution":
        code = {"executableCode": {"language": "PYTHON", "code": call.query}}
        return code, {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": call.result}}
    about = {"id": call_id, "toolType": "GOOGLE_SEARCH_WEB"}
    called = {"toolCall": {**about, "args": {"queries": [call.query]}}}
    return called, {"toolResponse": {**about, "response": {"result": call.result}}}
