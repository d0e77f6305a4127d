/** Who gets which connection: all episodes one, which is opened again when its server ends, or each episode one of its own. */
import { messageOf, ToolUnavailableError } from "../../../errors.ts";
import type { ToolContext } from "../../../types.ts";
import type { McpServer } from "./server.ts";
import { openSession, type McpSession } from "./session.ts";

/** Starts in a row without one answered call between them, after which the server is given up. */
const RESTARTS = 3;

export interface Sessions extends AsyncDisposable {
  for(context: ToolContext): Promise<McpSession>;
  /** False while its server starts. */
  started(context: ToolContext): boolean;
  answered(): void;
}

/** One connection for all. A call that a dying server was answering is not repeated: nobody knows what it did. */
export function sharedSessions(server: McpServer, { where, first }: { readonly where: string; readonly first: McpSession }): Sessions {
  let link = linkOf(Promise.resolve(first));
  let restarts = 0;
  let closed = false;
  return {
    async for() {
      if (closed) throw new ToolUnavailableError(`${where}: its tools were closed`);
      const lost = link.lost();
      if (lost !== null && ++restarts > RESTARTS) throw new ToolUnavailableError(`given up after ${RESTARTS} restarts: ${lost}`);
      if (lost !== null) link = linkOf(openSession(server, where));
      return link.session;
    },
    started: () => link.started,
    answered: () => void (restarts = 0),
    async [Symbol.asyncDispose]() {
      closed = true;
      await (await link.session.catch(() => undefined))?.close();
    },
  };
}

interface Link {
  readonly session: Promise<McpSession>;
  /** null also while it is being opened: all who ask wait for the one start. */
  lost: () => string | null;
  started: boolean;
}

function linkOf(session: Promise<McpSession>): Link {
  const link: Link = { session, lost: () => null, started: false };
  session.then(
    (opened) => ([link.lost, link.started] = [opened.lost, true]),
    (cause: unknown) => (link.lost = () => messageOf(cause)),
  );
  return link;
}

/** A connection for each episode, opened at its first call and closed with it. A server that ends, ends the episode. */
export function episodeSessions(server: McpServer, where: string): Sessions {
  const key = `mcp ${where} ${JSON.stringify(server)}`;
  const held = ({ state }: ToolContext): Link | undefined => state.get(key) as Link | undefined;
  return {
    async for(context) {
      const known = held(context);
      if (known !== undefined) return known.session;
      const link = linkOf(openSession(server, where));
      const close = async (): Promise<void> => (await link.session.catch(() => undefined))?.close();
      context.state.set(key, Object.assign(link, { [Symbol.asyncDispose]: close }));
      return link.session;
    },
    started: (context) => held(context)?.started === true,
    answered: () => undefined,
    [Symbol.asyncDispose]: () => Promise.resolve(),
  };
}
