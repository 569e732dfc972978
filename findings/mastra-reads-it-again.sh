#!/usr/bin/env bash
# Mastra 1.71.0 (`@mastra/core`), `new TokenLimiterProcessor(N)` as an input processor of an agent.
#
# Most would expect: the newest messages stay; and where the newest result alone is more than there is room for, the run ends with the
# processor's own error, which it has for the case that nothing fits.
# What happens: with the default, `best-fit`, what does not fit is left out wherever it stands, and the next older message is tried. A result that is
# too long is the newest message, so it leaves together with its call, and the person's message stays. The model gets the same request once
# more, byte for byte, makes the same call, and so on. Nothing is raised and nothing said: the run ends at the limit of steps, five by
# default, and its text is empty.
#
# Seen (one tool, whose result has some 5,000 tokens; a scripted server that calls it whenever it sees no result; at most 8 steps):
#   limit 1,000,000: 1 call, 2 requests, "Done."
#   limit 2,000:     8 calls, 8 equal requests, ""
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-fund --no-audit --prefix "$folder" node@22.23.3 @mastra/core@1.71.0 zod@4 >/dev/null
cat > run.mjs <<'JAVASCRIPT'
import http from "node:http";
import { Agent } from "@mastra/core/agent";
import { TokenLimiterProcessor } from "@mastra/core/processors";
import { createTool } from "@mastra/core/tools";
import { z } from "zod";

let requests = [];

function answer(body) {
  requests.push(JSON.stringify(body.messages));
  const seen = body.messages.some((message) => message.role === "tool");
  const call = { id: `c${requests.length}`, type: "function", function: { name: "read", arguments: "{}" } };
  const message = { role: "assistant", ...(seen ? { content: "Done." } : { content: null, tool_calls: [call] }) };
  const choices = [{ index: 0, finish_reason: seen ? "stop" : "tool_calls", message }];
  const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 };
  return JSON.stringify({ id: "1", object: "chat.completion", created: 1, model: body.model, choices, usage });
}

const server = http.createServer((request, response) => {
  let body = "";
  request.on("data", (data) => (body += data));
  request.on("end", () => response.setHeader("content-type", "application/json").end(answer(JSON.parse(body))));
});
await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
const url = `http://127.0.0.1:${server.address().port}/v1`;

async function run(limit) {
  requests = [];
  let calls = 0;
  const execute = async () => ((calls += 1), "word ".repeat(5000));
  const read = createTool({ id: "read", description: "Read the log.", inputSchema: z.object({}), execute });
  const agent = new Agent({
    id: "agent",
    name: "agent",
    instructions: "You are an agent.",
    model: { id: "local/model", url, apiKey: "none" },
    tools: { read },
    inputProcessors: [new TokenLimiterProcessor(limit)],
  });
  const { text } = await agent.generate("Find the bug.", { maxSteps: 8 });
  return { limit, calls, requests: requests.length, different: new Set(requests).size, text };
}

const seen = [await run(1_000_000), await run(2_000)];
console.log(seen);
const expected = [
  { limit: 1_000_000, calls: 1, requests: 2, different: 2, text: "Done." },
  { limit: 2_000, calls: 8, requests: 8, different: 1, text: "" },
];
if (JSON.stringify(seen) !== JSON.stringify(expected)) console.log("it changed");
process.exit(JSON.stringify(seen) === JSON.stringify(expected) ? 0 : 1);
JAVASCRIPT
MASTRA_TELEMETRY_DISABLED=1 node_modules/.bin/node run.mjs
