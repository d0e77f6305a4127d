/** The server: tokens a second of 1, 8 and 16 streaming clients over HTTP, beside the sampler's own with as many requests. */
import { openModelFiles } from "../../src/compute/models/files/model-folder.ts";
import { rendererOf } from "../../src/compute/policy/open.ts";
import { startServer } from "../../src/app/server/server.ts";
import { rng } from "../../src/random.ts";
import { openEngine } from "../engines.ts";
import { median, type Figure, type FigureGroup } from "../figure.ts";
import { architectureOf } from "../shapes.ts";

const model = "bench";

/** Each client's own question, so that no prompt is shared. */
const questionOf = (client: number): string => `What is ${client} + ${client * 7 + 3}?`;

/** Reads a stream to its end; returns the number of its events. */
async function ask(url: string, client: number, tokens: number): Promise<number> {
  const body = {
    model,
    messages: [{ role: "user", content: questionOf(client) }],
    max_tokens: tokens,
    seed: client,
    stream: true,
    logprobs: true,
  };
  const headers = { "content-type": "application/json" };
  const response = await fetch(`${url}/v1/chat/completions`, { method: "POST", headers, body: JSON.stringify(body) });
  return (await response.text()).split("\n\n").length;
}

export const serving: FigureGroup = async ({ shape, quick, repeats, say }) => {
  const architecture = architectureOf(shape);
  await using engine = openEngine(architecture, "none", { retainBudget: 0 });
  const files = await openModelFiles("models/desk-1m");
  await files.close();
  const renderer = Object.assign(rendererOf(files), { stopIds: [] }); // random weights: every answer has its full length
  const server = await startServer({ policy: { engine, renderer }, models: new Map([[model, "policy"]]) });
  const tokens = quick ? 16 : 64;
  const figures: Figure[] = [];
  for (const clients of [1, 8, 16]) {
    const each = Array.from({ length: clients }, (_, client) => client);
    const served = (): Promise<unknown> => Promise.all(each.map((client) => ask(server.url, client, tokens)));
    const direct = (): Promise<unknown> =>
      Promise.all(
        each.map((client) => {
          const { ids } = renderer.start([{ role: "user", content: questionOf(client) }]);
          return engine.sample({
            prompt: ids,
            count: 1,
            maxTokens: tokens,
            temperature: 1,
            stopIds: [],
            topLogprobs: 0,
            keys: [rng(client)],
          });
        }),
      );
    await direct();
    await served();
    const times: { readonly served: number; readonly direct: number }[] = [];
    for (let i = 0; i < repeats; i++) times.push({ direct: await seconds(direct), served: await seconds(served) });
    const rate = (clients * tokens) / median(times.map((time) => time.served));
    const share = median(times.map((time) => time.direct / time.served));
    say(`${clients} clients: ${rate.toFixed(0)} tokens/s`);
    figures.push({
      name: `served, ${clients} client${clients === 1 ? "" : "s"}`,
      value: rate,
      unit: "tokens/s",
      note: `${(100 * share).toFixed(0)} % of the sampler's own`,
    });
  }
  await server.close(0);
  return figures;
};

async function seconds(run: () => Promise<unknown>): Promise<number> {
  const started = performance.now();
  await run();
  return (performance.now() - started) / 1000;
}
