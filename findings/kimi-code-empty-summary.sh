#!/usr/bin/env bash
# Kimi Code 2.1.0, by Anthropic's API: its compaction may ask for a summary of a conversation that it does not send.
#
# Most would expect: to compact, a client sends the conversation with a prompt to summarise it behind, as one valid request; if that is
# refused, it says so, or compacts nothing.
# What happens: where the conversation nears `max_context_size`, it leaves out the oldest messages first, so that the request begins with
# an answer of the model's. Anthropic's API refuses that ("first message must use the \"user\" role"). The client then leaves out all
# messages, and sends the prompt alone. Whatever the model makes of it, such as that there is nothing to summarise, becomes the summary
# in the place of the conversation, and the session goes on, exit code 0.
#
# Seen, of each request to summarise how many messages it has, and whose the first is:
#   several, from assistant: 400
#   one, from user: 200
#   the conversation after it: PROMPT, summary "There is nothing to summarise."
set -euo pipefail
folder=$(mktemp -d)
server=""
trap '[ -z "$server" ] || kill $server; rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-fund --no-audit --prefix "$folder/npm" node@22.23.3 @moonshot-ai/kimi-code@2.1.0 >/dev/null
mkdir -p home/.kimi-code work
python3 -c 'print("\n".join(f"Line {n} of a text that nobody needs for long." for n in range(250)))' | tee work/1 work/2 work/3 work/4 > work/5
cat > server.py <<'PYTHON'
import json
from http.server import BaseHTTPRequestHandler, HTTPServer

reads = 0


class Server(BaseHTTPRequestHandler):
    """Anthropic's API: has five files read, and refuses messages that do not begin with the user's."""

    def do_POST(self):
        global reads
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        messages = body["messages"]
        last = messages[-1]["content"]
        texts = [last] if isinstance(last, str) else [block.get("text", "") for block in last]
        summarises = any(text.startswith("You are about to run out of context") for text in texts)
        status = 200 if messages[0]["role"] == "user" else 400
        if summarises:
            with open("seen", "a") as file:
                file.write(f"{'several' if len(messages) > 1 else 'one'}, from {messages[0]['role']}: {status}\n")
        elif reads and len(messages) == 1:
            text = json.dumps(messages)
            if "nothing to summarise" in text and "PROMPT" in text:
                with open("seen", "a") as file:
                    file.write('the conversation after it: PROMPT, summary "There is nothing to summarise."\n')
            reads = 5
        if status == 400:
            error = {"type": "invalid_request_error", "message": 'messages: first message must use the "user" role'}
            self.reply(400, "application/json", json.dumps({"type": "error", "error": error}))
            return
        if summarises:
            block, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": "There is nothing to summarise."}
        elif reads < 5:
            reads += 1
            block = {"type": "tool_use", "id": f"toolu_{reads}", "name": "Read", "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps({"path": f"{body_folder}/{reads}"})}
        else:
            block, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": "Done."}
        usage = {"input_tokens": len(json.dumps(body)) // 4, "output_tokens": 1}
        message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": []}
        message |= {"stop_reason": None, "stop_sequence": None, "usage": usage}
        stop = "tool_use" if block["type"] == "tool_use" else "end_turn"
        events = [
            {"type": "message_start", "message": message},
            {"type": "content_block_start", "index": 0, "content_block": block},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": usage},
            {"type": "message_stop"},
        ]
        stream = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
        self.reply(200, "text/event-stream", stream)

    def reply(self, status, kind, data):
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data.encode())

    def log_message(self, *_):
        pass


with open("folder") as file:
    body_folder = file.read().strip()
server = HTTPServer(("127.0.0.1", 0), Server)
with open("url", "w") as file:
    file.write(f"http://127.0.0.1:{server.server_port}")
server.serve_forever()
PYTHON
echo "$folder/work" > folder
python3 server.py & server=$!
while [ ! -s url ]; do sleep 0.1; done
cat > home/.kimi-code/config.toml <<TOML
default_model = "m"
[providers.p]
type = "anthropic"
base_url = "$(cat url)"
api_key = "sk-dummy"
[models.m]
provider = "p"
model = "m"
max_context_size = 40000
TOML
(cd work && env -i PATH="$folder/npm/node_modules/node/bin:$PATH" HOME="$folder/home" KIMI_DISABLE_TELEMETRY=1 KIMI_CODE_NO_AUTO_UPDATE=1 \
  "$folder/npm/node_modules/.bin/kimi" -p "PROMPT: read all five." </dev/null >/dev/null)
cat seen
diff seen - <<'SEEN'
several, from assistant: 400
one, from user: 200
the conversation after it: PROMPT, summary "There is nothing to summarise."
SEEN
