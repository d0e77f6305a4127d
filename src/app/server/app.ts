/** The routes, and what every request passes before it comes to one: host, key, budget, size. */
import { Hono, type Context } from "hono";
import { bodyLimit } from "hono/body-limit";
import { cors } from "hono/cors";
import type { Access } from "./access.ts";
import { sessionRoutes } from "./capture/routes.ts";
import type { Session } from "./capture/session.ts";
import { chat } from "./chat.ts";
import { complete } from "./completions.ts";
import { ApiError, toApiError } from "./errors.ts";
import { callerOf, readBody, sessionOf, type AppEnv } from "./http.ts";
import { readChat, readCompletion } from "./requests.ts";
import type { Service } from "./service.ts";

interface AppOptions {
  readonly access: Access;
  readonly maxBodyBytes: number;
  /** Requests that may be sampled or wait at once. */
  readonly maxRequests: number;
  /** Pages of these origins may ask; none unless named. */
  readonly corsOrigins: readonly string[];
  /** Only these may stand in the header Host; undefined: any. */
  readonly hosts?: ReadonlySet<string>;
  /** Only calls of sessions that were made beforehand are answered. */
  readonly sessionsOnly: boolean;
  /** True once the server takes no new work. */
  readonly draining: () => boolean;
}

export function createApp(service: Service, options: AppOptions): Hono<AppEnv> {
  const app = new Hono<AppEnv>();
  app.onError((cause) => failure(cause));
  app.notFound((c) => failure(new ApiError(404, `${c.req.method} ${c.req.path}: there is no such route`, { code: "unknown_url" })));
  guard(app, service, options);
  app.get("/health", (c) => c.json({ status: options.draining() ? "draining" : "ok", version: service.policy.engine.version }));
  app.get("/metrics", (c) => c.text(service.metrics.text(), 200, { "content-type": "text/plain; version=0.0.4; charset=utf-8" }));
  app.get("/v1/models", (c) => c.json({ object: "list", data: [...service.models.keys()].map((id) => model(service, id)) }));
  app.get("/v1/models/:id{.+}", (c) => {
    const id = c.req.param("id");
    if (!service.models.has(id))
      throw new ApiError(404, `model ${id}: there is none of this name`, { param: "model", code: "model_not_found" });
    return c.json(model(service, id));
  });
  app.post("/v1/embeddings", () => {
    throw new ApiError(400, "embeddings: expected a request for text, got one for embeddings; a policy has none", {
      code: "unsupported_endpoint",
    });
  });
  for (const prefix of ["/v1", "/s/:session/v1"]) {
    app.post(`${prefix}/chat/completions`, (c) => chatRoute(c, service, options));
    app.post(`${prefix}/completions`, (c) => completionRoute(c, service, options));
  }
  sessionRoutes(app, service);
  return app;
}

function guard(app: Hono<AppEnv>, service: Service, { access, maxBodyBytes, maxRequests, corsOrigins, hosts, draining }: AppOptions): void {
  const { metrics, gate } = service;
  const reject = (reason: string, error: ApiError): never => {
    metrics.add("flywheel_rejected_total", { reason });
    throw error;
  };
  app.use(async (c, next) => {
    await next();
    metrics.add("flywheel_requests_total", { route: `${c.req.method} ${routeOf(c)}`, status: c.res.status });
  });
  // With no key, the only ones to be served are programs on this machine: not a page whose name was pointed here.
  app.use(async (c, next) => {
    const host = c.req.header("host") ?? "";
    if (hosts !== undefined && !hosts.has(hostName(host))) {
      reject("host", new ApiError(403, `host: expected ${[...hosts].join(" or ")}, got ${host}`, { code: "unknown_host" }));
    }
    await next();
  });
  if (corsOrigins.length > 0) app.use(cors({ origin: [...corsOrigins], exposeHeaders: ["x-flywheel-policy-version"] }));
  app.use(async (c, next) => {
    if (c.req.path === "/health") return next();
    if (draining()) reject("draining", unavailable("the server is ending", 5));
    try {
      c.set("caller", access.callerOf(c.req.header("authorization")));
      if (c.req.method === "POST") access.take(callerOf(c));
    } catch (cause) {
      return reject(cause instanceof ApiError && cause.status === 429 ? "rate" : "key", cause as ApiError);
    }
    if (c.req.method === "POST" && gate.running >= maxRequests)
      reject("full", unavailable(`${maxRequests} requests are running or wait`, 1));
    return next();
  });
  const onError = (): never => {
    const message = `body: expected at most ${maxBodyBytes} bytes`;
    return reject("size", new ApiError(413, message, { code: "request_too_large" }));
  };
  app.use(bodyLimit({ maxSize: maxBodyBytes, onError }));
}

const unavailable = (why: string, seconds: number): ApiError =>
  new ApiError(503, `${why}; try again in ${seconds} s`, {
    type: "server_error",
    code: "unavailable",
    headers: { "retry-after": String(seconds) },
  });

/** Without the port. */
const hostName = (host: string): string => host.replace(/:\d+$/, "").toLowerCase();

/** The route's pattern, so that ids in paths make no series of their own. */
function routeOf(c: Context<AppEnv>): string {
  const { path } = c.req;
  return path
    .replace(/^\/s\/[^/]+\//, "/s/:session/")
    .replace(/^\/v1\/(sessions|models)\/[^/]+/, "/v1/$1/:id")
    .slice(0, 60);
}

function failure(cause: unknown): Response {
  const error = toApiError(cause);
  return Response.json(error.body, { status: error.status, headers: error.headers });
}

const model = ({ started, policy }: Service, id: string): object => ({
  id,
  object: "model",
  created: started,
  owned_by: "flywheel",
  max_model_len: policy.engine.info.contextLength,
});

/** The session that a call belongs to, if any; made by its first call unless only given ones are served. */
function sessionFor(
  c: Context<AppEnv>,
  { sessions }: Service,
  found: { metadata: string | undefined; sessionsOnly: boolean },
): Session | undefined {
  const id = sessionOf(c, found.metadata);
  if (id === undefined && found.sessionsOnly)
    throw new ApiError(404, "session: expected a call of a session, got none", { code: "session_not_found" });
  if (id === undefined) return undefined;
  return found.sessionsOnly ? sessions.get(id, callerOf(c)) : sessions.getOrCreate(id, callerOf(c));
}

/** The client has gone, or the session was ended. */
const signalOf = (c: Context<AppEnv>, session: Session | undefined): AbortSignal =>
  session === undefined ? c.req.raw.signal : AbortSignal.any([c.req.raw.signal, session.ended]);

async function chatRoute(c: Context<AppEnv>, service: Service, { sessionsOnly }: AppOptions): Promise<Response> {
  const asked = readChat(await readBody(c));
  const session = sessionFor(c, service, { metadata: asked.sampling.session, sessionsOnly });
  const request = session === undefined ? asked : { ...asked, sampling: session.ruled(asked.sampling) };
  const { renderer } = service.policy;
  const open = (): ReturnType<Parameters<typeof chat>[2]["open"]> => {
    if (session !== undefined) return session.open(request, () => service.metrics.add("flywheel_history_changed_total"));
    return { ids: renderer.start(request.messages, request.tools).ids, commit: () => undefined, release: () => undefined };
  };
  return chat(service, request, { open, signal: signalOf(c, session) });
}

async function completionRoute(c: Context<AppEnv>, service: Service, { sessionsOnly }: AppOptions): Promise<Response> {
  const asked = readCompletion(await readBody(c));
  const session = sessionFor(c, service, { metadata: asked.sampling.session, sessionsOnly });
  const request = session === undefined ? asked : { ...asked, sampling: session.ruled(asked.sampling) };
  return complete(service, request, {
    signal: signalOf(c, session),
    open: (prompt) => session?.openRaw(prompt),
  });
}
