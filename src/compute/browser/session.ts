/** One episode's page: a context of its own behind a wall of its own, what an agent can do to it, and what it then looks like. */
import { setTimeout } from "node:timers/promises";
import type { Locator, Page } from "playwright-core";
import { EnvError, expected, messageOf } from "../../errors.ts";
import type { OpenPlace } from "./chromium.ts";
import { describe, part, readTree } from "./observation.ts";
import { openWall, type Wall, type WallOptions } from "./wall.ts";

export interface SessionLimits {
  /** Characters of an observation; what is cut off is stated and can be read on. */
  readonly observationChars: number;
  /** Milliseconds that an action may take, and a page to load. */
  readonly actionMs: number;
  readonly loadMs: number;
  /** Milliseconds after an action before the page is looked at. */
  readonly settleMs: number;
}

interface SessionOptions extends WallOptions {
  readonly limits: SessionLimits;
  /** Whether an observation begins with the page's title and address. */
  readonly showAddress: boolean;
}

export interface Session extends AsyncDisposable {
  readonly page: Page;
  /** Requests to other origins, windows and downloads; all were refused. */
  refusals(): number;
  /** Throws where the page or the browser crashed: that is nobody's answer. */
  check(): void;
  observe(from?: number): Promise<string>;
  /** Does something to an element of the last observation, and observes. */
  act(ref: string, action: (element: Locator, timeout: number) => Promise<unknown>): Promise<string>;
  /** Does something to the page, and observes. */
  run(action: (page: Page, timeout: number) => Promise<unknown>): Promise<string>;
  goto(url: string): Promise<string>;
}

/** Milliseconds that a page may take to close. */
const CLOSING = 5000;

/** Refusals and dialogs that one observation tells of. */
const MOST_NOTES = 5;

const viewport = { width: 1280, height: 800 };

export async function openSession(place: OpenPlace, options: SessionOptions, signal: AbortSignal): Promise<Session> {
  const taken = await place(signal);
  let wall: Wall | undefined;
  try {
    wall = await openWall(options);
    const context = await taken.browser.newContext({
      viewport,
      proxy: { server: wall.address },
      acceptDownloads: false,
      serviceWorkers: "block",
      locale: "en-US",
      timezoneId: "UTC",
      reducedMotion: "reduce",
    });
    const page = await context.newPage();
    page.setDefaultTimeout(options.limits.actionMs);
    page.setDefaultNavigationTimeout(options.limits.loadMs);
    const close = async (): Promise<void> => {
      // A renderer that hangs does not hold up the end of its episode.
      await Promise.race([context.close().catch(() => undefined), setTimeout(CLOSING, undefined, { ref: false })]);
      await wall?.[Symbol.asyncDispose]();
      taken.release();
    };
    return watched(page, { ...options, close });
  } catch (cause) {
    await wall?.[Symbol.asyncDispose]();
    taken.release();
    throw new EnvError(`browser: no page: ${firstLine(cause)}`, { cause });
  }
}

interface Watching extends SessionOptions {
  readonly close: () => Promise<void>;
}

interface Watch {
  /** What an agent is to be told with the next observation. */
  readonly notes: string[];
  refusals(): number;
  fault(): string | undefined;
  stop(): void;
}

/** Refuses windows and downloads, answers dialogs, and notes both, requests to other origins and crashes. */
function listen(page: Page, allowed: readonly string[]): Watch {
  let fault: string | undefined;
  let refusals = 0;
  const notes: string[] = [];
  const refuse = (what: string): void => {
    refusals++;
    notes.push(`refused: ${what}`);
  };
  page.once("crash", () => (fault = "the page crashed"));
  const browser = page.context().browser()!;
  const ended = (): void => void (fault = "the browser ended");
  browser.once("disconnected", ended);
  page.context().on("page", (other) => {
    if (other !== page) refuse("a new window");
    if (other !== page) other.close().catch(() => undefined);
  });
  page.on("download", () => refuse("a download"));
  // The wall refuses these; here they are told. Chromium's own requests are refused silently.
  const outside = (url: string): void => {
    const { protocol, origin, host } = new URL(url.replace(/^ws/, "http"));
    if (/^https?:$/.test(protocol) && !allowed.includes(origin)) refuse(`a request to ${host.slice(0, 60)}`);
  };
  page.on("request", (request) => outside(request.url()));
  page.on("websocket", (socket) => outside(socket.url()));
  page.on("dialog", (dialog) => {
    const agreed = dialog.type() === "alert" || dialog.type() === "beforeunload";
    notes.push(`${dialog.type()}: ${dialog.message().slice(0, 200)} (${agreed ? "accepted" : "dismissed"})`);
    (agreed ? dialog.accept() : dialog.dismiss()).catch(() => undefined);
  });
  return { notes, refusals: () => refusals, fault: () => fault, stop: () => void browser.off("disconnected", ended) };
}

function watched(page: Page, { close, limits, showAddress, origins, site }: Watching): Session {
  const allowed = [...origins, ...(site === undefined ? [] : [site.origin])];
  const watch = listen(page, allowed);
  const { notes } = watch;
  const check = (): void => {
    const fault = watch.fault();
    if (fault !== undefined) throw new EnvError(`browser: ${fault}`);
  };

  const settled = async (): Promise<void> => {
    await page.waitForTimeout(limits.settleMs);
    await page.waitForLoadState("load", { timeout: limits.loadMs }).catch(() => undefined);
    // A tunnel that was refused leaves Chromium's own error page behind.
    if (page.url().startsWith("chrome-error:")) await page.goBack().catch(() => undefined);
  };
  const observe = async (from = 0): Promise<string> => {
    check();
    const tree: unknown = await page.ariaSnapshotJSON({ mode: "ai", timeout: limits.actionMs });
    const said = [...new Set(notes.splice(0))].slice(0, MOST_NOTES).map((note) => `[${note}]`);
    const head = showAddress ? [`page ${JSON.stringify(await page.title())} at ${page.url()}`] : [];
    const body = describe(readTree(tree)).join("\n");
    return [...said, ...head, part(body, { from, limit: limits.observationChars })].join("\n");
  };
  const after = async (action: Promise<unknown>): Promise<string> => {
    try {
      await action;
    } catch (cause) {
      check();
      throw new EnvError(firstLine(cause), { cause });
    }
    await settled();
    return observe();
  };

  return {
    page,
    refusals: () => watch.refusals(),
    check,
    observe,
    act: async (ref, action) => {
      const element = page.getByRef(ref);
      if ((await element.count().catch(() => 0)) === 0) throw new EnvError(`no element ${ref} on the page now`);
      return after(action(element, limits.actionMs));
    },
    run: (action) => after(action(page, limits.actionMs)),
    goto: async (url) => {
      const target = URL.canParse(url, page.url()) ? new URL(url, page.url()) : undefined;
      if (target === undefined || !allowed.includes(target.origin)) {
        throw new EnvError(expected("navigate", `an address of ${allowed.join(" or ")}`, url.slice(0, 100)));
      }
      return after(page.goto(target.href));
    },
    async [Symbol.asyncDispose]() {
      watch.stop();
      await close();
    },
  };
}

/** Playwright's messages go on with a log of what it tried. */
function firstLine(cause: unknown): string {
  return messageOf(cause).split("\n")[0]!.replace(/^(?:[a-z]+\.)+[a-zA-Z]+: /, "");
}
