/** `/v1/sessions`: make one, look at it, reward it, forget it. */
import type { Context, Hono } from "hono";
import { z } from "zod";
import type { Scored } from "../../../types.ts";
import { callerOf, readBody, type AppEnv } from "../http.ts";
import { parsed } from "../requests.ts";
import type { Service } from "../service.ts";
import type { Session } from "./session.ts";

const createSchema = z.strictObject({
  id: z.string().optional(),
  task: z.strictObject({ id: z.string().min(1), data: z.record(z.string(), z.json()).optional() }).optional(),
});

const number = z.number();
/** A number, a thumb, sessions from best to worst, or words; a number may be for one turn, counted from 0. */
const rewardSchema = z.union([
  z.strictObject({ reward: number, turn: z.int().min(0).optional() }),
  z.strictObject({ good: z.boolean() }),
  z.strictObject({ order: z.array(z.string()).min(2) }),
  z.strictObject({ text: z.string().min(1) }),
]);

export function sessionRoutes(app: Hono<AppEnv>, { sessions }: Service): void {
  const find = (c: Context<AppEnv>): Session => sessions.get(c.req.param("id") ?? "", callerOf(c));
  app.post("/v1/sessions", async (c) => {
    const { id, task } = parsed(createSchema, await readBody(c, {}));
    const session = sessions.create(callerOf(c), {
      ...(id === undefined ? {} : { id }),
      ...(task === undefined ? {} : { task: { id: task.id, data: task.data ?? {} } }),
    });
    return c.json({ id: session.id, object: "session" }, 201);
  });
  app.get("/v1/sessions/:id", (c) => c.json(view(find(c))));
  app.delete("/v1/sessions/:id", (c) => {
    sessions.delete(find(c).id, callerOf(c));
    return c.json({ id: c.req.param("id"), object: "session", deleted: true });
  });
  app.post("/v1/sessions/:id/reward", async (c) => {
    const session = find(c);
    const given = parsed(rewardSchema, await readBody(c));
    if ("text" in given) session.feedback.push({ type: "text", text: given.text });
    else if ("good" in given) {
      session.feedback.push({ type: "binary", good: given.good });
      session.reward(given.good ? 1 : 0, given.good ? "thumb up" : "thumb down");
    } else if ("order" in given) rank(given.order.map((id) => sessions.get(id, callerOf(c))));
    else if (given.turn === undefined) session.reward(given.reward, "a number");
    else session.rewardTurn(given.turn, given.reward);
    return c.json({ id: session.id, object: "session", verdict: session.verdict });
  });
}

/** The best gets 1, the worst 0, the others evenly between. */
function rank(best: readonly Session[]): void {
  const order = best.map(({ id }) => id);
  best.forEach((session, place) => {
    session.feedback.push({ type: "rank", order });
    session.reward(1 - place / (best.length - 1), `rank ${place + 1} of ${best.length}`);
  });
}

interface SessionView extends Scored {
  readonly id: string;
  readonly object: "session";
  readonly calls: number;
  readonly feedback: Session["feedback"];
}

function view(session: Session): SessionView {
  return { id: session.id, object: "session", calls: session.counts.calls, ...session.scored(), feedback: session.feedback };
}
