#!/usr/bin/env bash
# Vercel's AI SDK 7.0.173, `pruneMessages({ messages, reasoning: "before-last-message" })` in `prepareStep`, with `@ai-sdk/anthropic` 4.0.105.
#
# Most would expect: reasoning of earlier steps leaves, and that of the latest answer stays, as Anthropic demands within a loop of calls: its
# documentation wants the thinking blocks of an answer with calls back, unchanged and ahead of the calls, until the results are answered.
# What happens: the last message of a step is the result, not the answer. So "before the last message" takes the thinking of the very call
# that is being answered, in each step but the first, and thinking stays on for the request. No option of `pruneMessages` keeps it and drops
# older reasoning: "none" keeps all of it, and "all" none. Models that demand reasoning beside calls, such as DeepSeek's and Kimi's, are hit the same way.
#
# Seen (thinking enabled, two calls, a scripted server; blocks of the last request):
#   reasoning "none":                 text | thinking+tool_use | tool_result | thinking+tool_use | tool_result
#   reasoning "before-last-message":  text | tool_use | tool_result | tool_use | tool_result
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-fund --no-audit --prefix "$folder" node@22.23.3 ai@7.0.173 @ai-sdk/anthropic@4.0.105 zod@4 >/dev/null
cat > run.mjs <<'JAVASCRIPT'
import http from "node:http";
import { createAnthropic } from "@ai-sdk/anthropic";
import { generateText, isStepCount, pruneMessages, tool } from "ai";
import { z } from "zod";

let requests = [];

function answer(body) {
  const n = requests.push(body);
  const thinking = { type: "thinking", thinking: "I must look.", signature: `signature${n}` };
  const call = { type: "tool_use", id: `toolu_${n}`, name: "read", input: {} };
  const content = n < 3 ? [thinking, call] : [{ type: "text", text: "Done." }];
  const ending = { stop_reason: n < 3 ? "tool_use" : "end_turn", stop_sequence: null };
  const usage = { input_tokens: 1, output_tokens: 1 };
  return JSON.stringify({ id: "msg_1", type: "message", role: "assistant", model: body.model, content, ...ending, usage });
}

const server = http.createServer((request, response) => {
  let body = "";
  request.on("data", (data) => (body += data));
  request.on("end", () => response.setHeader("content-type", "application/json").end(answer(JSON.parse(body))));
});
await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
const anthropic = createAnthropic({ baseURL: `http://127.0.0.1:${server.address().port}/v1`, apiKey: "none" });

async function run(reasoning) {
  requests = [];
  await generateText({
    model: anthropic("claude-opus-4-5"),
    maxOutputTokens: 3000,
    providerOptions: { anthropic: { thinking: { type: "enabled", budgetTokens: 1024 } } },
    prompt: "Find the bug.",
    stopWhen: isStepCount(5),
    tools: { read: tool({ description: "Read the log.", inputSchema: z.object({}), execute: async () => "text" }) },
    prepareStep: ({ messages }) => ({ messages: pruneMessages({ messages, reasoning }) }),
  });
  const { messages, thinking } = requests.at(-1);
  const blocks = messages.map((message) => message.content.map((block) => block.type).join("+")).join(" | ");
  return `${reasoning}: thinking ${thinking.type}, ${blocks}`;
}

const seen = [await run("none"), await run("before-last-message")];
console.log(seen.join("\n"));
const expected = [
  "none: thinking enabled, text | thinking+tool_use | tool_result | thinking+tool_use | tool_result",
  "before-last-message: thinking enabled, text | tool_use | tool_result | tool_use | tool_result",
];
if (seen.join() !== expected.join()) console.log("it changed");
process.exit(seen.join() === expected.join() ? 0 : 1);
JAVASCRIPT
node_modules/.bin/node run.mjs
