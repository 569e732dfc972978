#!/usr/bin/env bash
# Copilot CLI 1.0.102, by OpenAI's Responses API: of an answer it sends back the reasoning under the server's id, the items behind under ids of its own.
#
# Most would expect: the items of an answer come back as they were, with all their ids or with none; a reasoning item belongs to the item
# behind it, and OpenAI refuses one "without its required following item".
# What happens: the reasoning keeps the id that the server gave it. The message behind it has `msg_` with a UUID that the client made up, and
# the call `fc_` with the call's `call_id`. A server that knows its items by their ids finds the reasoning's follower gone, and two items
# that it never made.
#
# Seen, the ids that the server gave and those that came back:
#   reasoning rs_server1: same
#   message msg_server1: msg_ and a UUID
#   function_call fc_server1: fc_call_server1
set -euo pipefail
folder=$(mktemp -d)
server=""
trap '[ -z "$server" ] || kill $server; rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-fund --no-audit --prefix "$folder/npm" node@22.23.3 @github/copilot@1.0.102 >/dev/null
mkdir -p home work
echo "print(41)" > work/a.py
cat > server.py <<'PYTHON'
import json
import re
from http.server import BaseHTTPRequestHandler, HTTPServer

folder = open("folder").read().strip()
UUID = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
arguments = json.dumps({"path": f"{folder}/work/a.py"})
TEXT = {"type": "output_text", "text": "I look.", "annotations": []}
ANSWER = [
    {"type": "reasoning", "id": "rs_server1", "summary": [{"type": "summary_text", "text": "Hm."}], "encrypted_content": "c2VhbA=="},
    {"type": "message", "id": "msg_server1", "role": "assistant", "status": "completed", "content": [TEXT]},
    {
        "type": "function_call",
        "id": "fc_server1",
        "call_id": "call_server1",
        "name": "view",
        "arguments": arguments,
        "status": "completed",
    },
]
DONE = [{**ANSWER[1], "id": "msg_server2", "content": [{**TEXT, "text": "Done."}]}]


def events(output):
    response = {"id": "resp_1", "object": "response", "created_at": 1, "model": "m", "status": "in_progress", "output": []}
    yield {"type": "response.created", "response": response}
    for index, item in enumerate(output):
        place = {"output_index": index, "item_id": item["id"]}
        begun = {"content": []} if item["type"] == "message" else {"arguments": ""} if item["type"] == "function_call" else {}
        yield {"type": "response.output_item.added", "output_index": index, "item": {**item, **begun, "status": "in_progress"}}
        if item["type"] == "message":
            part = item["content"][0]
            yield {"type": "response.content_part.added", **place, "content_index": 0, "part": {**part, "text": ""}}
            yield {"type": "response.output_text.delta", **place, "content_index": 0, "delta": part["text"]}
            yield {"type": "response.output_text.done", **place, "content_index": 0, "text": part["text"]}
            yield {"type": "response.content_part.done", **place, "content_index": 0, "part": part}
        elif item["type"] == "function_call":
            yield {"type": "response.function_call_arguments.delta", **place, "delta": item["arguments"]}
            yield {"type": "response.function_call_arguments.done", **place, "arguments": item["arguments"]}
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 1}}
    usage = {"input_tokens": 100, "output_tokens": 5, "total_tokens": 105, **details}
    yield {"type": "response.completed", "response": {**response, "status": "completed", "output": output, "usage": usage}}


class Server(BaseHTTPRequestHandler):
    """Has a file viewed, and notes what comes back of that answer."""

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        back = {item.get("type"): item for item in body["input"] if item.get("role") != "user"}
        if "function_call_output" in back:
            with open("seen", "a") as file:
                for item in ANSWER:
                    returned = str(back.get(item["type"], {}).get("id"))
                    how = "same" if returned == item["id"] else re.sub(f"^msg_{UUID}$", "msg_ and a UUID", returned)
                    file.write(f"{item['type']} {item['id']}: {how}\n")
        output = DONE if "function_call_output" in back or not body.get("tools") else ANSWER
        numbered = ({**event, "sequence_number": number} for number, event in enumerate(events(output)))
        data = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in numbered)
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data.encode())

    def log_message(self, *_):
        pass


server = HTTPServer(("127.0.0.1", 0), Server)
with open("url", "w") as file:
    file.write(f"http://127.0.0.1:{server.server_port}")
server.serve_forever()
PYTHON
echo "$folder" > folder
python3 server.py & server=$!
while [ ! -s url ]; do sleep 0.1; done
(cd work && env -i PATH="$folder/npm/node_modules/node/bin:$PATH" HOME="$folder/home" COPILOT_PROVIDER_BASE_URL="$(cat ../url)/v1" \
  COPILOT_PROVIDER_TYPE=openai COPILOT_PROVIDER_API_KEY=sk-dummy COPILOT_PROVIDER_WIRE_API=responses COPILOT_MODEL=gpt-5.2 \
  COPILOT_OFFLINE=true COPILOT_AUTO_UPDATE=false "$folder/npm/node_modules/.bin/copilot" --allow-all-tools --allow-all-paths \
  -p "Look at a.py." </dev/null >/dev/null)
cat seen
diff seen - <<'SEEN'
reasoning rs_server1: same
message msg_server1: msg_ and a UUID
function_call fc_server1: fc_call_server1
SEEN
