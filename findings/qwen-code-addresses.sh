#!/usr/bin/env bash
# Qwen Code 0.24.4: an address on the command line loses to one in the settings, and by Anthropic's API it calls itself Claude Code.
#
# Most would expect: `--openai-base-url` on the command line overrides the settings file, as it does for `security.auth.baseUrl` there;
# and a client that speaks to an Anthropic endpoint names itself, as Qwen Code does to OpenAI's (`QwenCode/0.24.4`).
# What happens: if `modelProviders` lists the model, its `baseUrl` gets the request, and the option is ignored without a word. With
# `--auth-type anthropic` the header `user-agent` is that of Claude Code, with Qwen Code's own version: a gateway that treats clients
# by name takes it for a Claude Code of long ago. It sends none of the ids of session that Claude Code sends.
#
# Seen:
#   with modelProviders: file QwenCode/0.24.4
#   without: option QwenCode/0.24.4
#   anthropic: option claude-cli/0.24.4 (external, cli)
set -euo pipefail
folder=$(mktemp -d)
server=""
trap '[ -z "$server" ] || kill $server; rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-fund --no-audit --prefix "$folder/npm" node@22.23.3 @qwen-code/qwen-code@0.24.4 >/dev/null
mkdir -p home/.qwen work
cat > server.py <<'PYTHON'
import json
from http.server import BaseHTTPRequestHandler, HTTPServer


class Server(BaseHTTPRequestHandler):
    """Answers with one word, and writes down by which address it was asked, and by whom."""

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        client = self.headers["user-agent"]
        with open("asked", "a") as file:
            file.write(f"{self.path.split('/')[1]} {client.removesuffix(' (linux; x64)')}\n")
        if self.path.split("?")[0].endswith("/messages"):
            usage = {"input_tokens": 9, "output_tokens": 1}
            message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": []}
            message |= {"stop_reason": None, "stop_sequence": None, "usage": usage}
            events = [
                {"type": "message_start", "message": message},
                {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
                {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hello."}},
                {"type": "content_block_stop", "index": 0},
                {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage},
                {"type": "message_stop"},
            ]
            data = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
        else:
            head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
            answer = {"index": 0, "delta": {"role": "assistant", "content": "Hello."}, "finish_reason": None}
            end = {"index": 0, "delta": {}, "finish_reason": "stop"}
            chunks = [{**head, "choices": [choice]} for choice in (answer, end)]
            data = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
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
python3 server.py & server=$!
while [ ! -s url ]; do sleep 0.1; done
url=$(cat url)
ask() { # name, then options: prints by which address the server was asked
  rm -f asked
  (cd work && env -i PATH="$folder/npm/node_modules/node/bin:$PATH" HOME="$folder/home" KEY=sk-dummy OPENAI_API_KEY=sk-dummy \
    ANTHROPIC_API_KEY=sk-dummy ANTHROPIC_BASE_URL="$url/option" ANTHROPIC_MODEL=m OPENAI_MODEL=m \
    "$folder/npm/node_modules/.bin/qwen" "${@:2}" -p "Hello." </dev/null >/dev/null 2>&1)
  echo "$1: $(head -1 asked)" | tee -a seen
}
cat > home/.qwen/settings.json <<JSON
{"model": {"name": "m"}, "modelProviders": {"openai": [{"id": "m", "baseUrl": "$url/file/v1", "envKey": "KEY"}]}}
JSON
ask "with modelProviders" --auth-type openai --openai-base-url "$url/option/v1"
echo '{"model": {"name": "m"}, "security": {"auth": {"baseUrl": "'"$url"'/file/v1"}}}' > home/.qwen/settings.json
ask "without" --auth-type openai --openai-base-url "$url/option/v1"
ask "anthropic" --auth-type anthropic
diff seen - <<'SEEN'
with modelProviders: file QwenCode/0.24.4
without: option QwenCode/0.24.4
anthropic: option claude-cli/0.24.4 (external, cli)
SEEN
