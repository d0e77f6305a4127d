// An agent on OpenAI's SDK that knows nothing of its training. Train it with:
//   flywheel train examples/agents/sums.json --agent "node examples/agents/openai.mjs"
// OPENAI_BASE_URL and OPENAI_API_KEY are read by the SDK; FLYWHEEL_TASK is what it is asked.
import OpenAI from "openai";

const client = new OpenAI();
const { messages } = JSON.parse(process.env.FLYWHEEL_TASK);
const tools = [
  {
    type: "function",
    function: {
      name: "calculator",
      description: "Works out a sum of two numbers, for example 12+30",
      parameters: { type: "object", properties: { expression: { type: "string" } }, required: ["expression"] },
    },
  },
];

/** Sums alone: what a model writes is never evaluated. */
function calculate(expression) {
  const [, a, operator, b] = /^\s*(\d+)\s*([-+*])\s*(\d+)\s*$/.exec(expression) ?? [];
  if (operator === undefined) return "error: expected two whole numbers and one of + - *";
  return String({ "+": Number(a) + Number(b), "-": Number(a) - Number(b), "*": Number(a) * Number(b) }[operator]);
}

for (let turn = 0; turn < 3; turn++) {
  const { choices } = await client.chat.completions.create({ model: "any", messages, tools });
  const [{ message }] = choices;
  messages.push(message);
  if (message.tool_calls === undefined) break;
  for (const { id, function: call } of message.tool_calls) {
    messages.push({ role: "tool", tool_call_id: id, content: calculate(JSON.parse(call.arguments).expression ?? "") });
  }
}
