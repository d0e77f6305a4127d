/** Chromium, started at the first page and ended after the last: one process for an environment, one context for an episode. */
import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";
import type { Browser } from "playwright-core";
import type * as PlaywrightCore from "playwright-core";
import { EnvError, expected, messageOf } from "../../errors.ts";

type Playwright = typeof PlaywrightCore;

const PLAYWRIGHT = "playwright-core@1.65.1";
const programs = ["chromium", "chromium-browser", "google-chrome-stable", "google-chrome"] as const;

/** Milliseconds that the browser waits for another episode before it is closed. */
const LINGER = 1000;

const flags = [
  "--disable-gpu",
  "--disable-quic",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
  // A peer connection would be a way around the proxy.
  "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
  // Bounds what the script of one page can hold; a page beyond it crashes, and the episode with it.
  "--js-flags=--max-old-space-size=256",
];

export interface BrowserOptions {
  /** Path of Chromium or Chrome; default: FLYWHEEL_CHROMIUM, else the first that PATH has. */
  readonly program?: string;
  /** Pages open at the same time, which bounds the memory; further episodes wait. Default 8. */
  readonly pages?: number;
}

/** A place among the pages. Releasing it twice is releasing it once. */
interface Place {
  readonly browser: Browser;
  release(): void;
}

export type OpenPlace = (signal: AbortSignal) => Promise<Place>;

/** Where Chromium is, or null. */
export function findChromium(environment: NodeJS.ProcessEnv = process.env): string | null {
  const named = environment.FLYWHEEL_CHROMIUM ?? "";
  if (named !== "") return named;
  const folders = [...(environment.PATH ?? "").split(delimiter).filter((folder) => folder !== ""), "/usr/bin"];
  return programs.flatMap((program) => folders.map((folder) => join(folder, program))).find(runnable) ?? null;
}

function runnable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** Refuses, with what to do, where the package or the program is missing. */
export async function loadPlaywright(load: () => Promise<Playwright> = () => import("playwright-core")): Promise<Playwright> {
  try {
    return await load();
  } catch (cause) {
    const remedy = `npm install --save-exact ${PLAYWRIGHT}`;
    throw new EnvError(expected("browser", "the package playwright-core", messageOf(cause).split("\n")[0]!, remedy), { cause });
  }
}

/** Places for pages of one browser. The process is started for the first and closed a second after the last was released. */
export function browserPlaces({ program, pages = 8 }: BrowserOptions): OpenPlace {
  if (!Number.isInteger(pages) || pages < 1) throw new EnvError(expected("browser: pages", "1 or more", String(pages)));
  let running: Promise<Browser> | undefined;
  let taken = 0;
  let idle: NodeJS.Timeout | undefined;
  const waiting: (() => void)[] = [];

  const started = async (): Promise<Browser> => {
    try {
      const browser = await launch(program);
      browser.once("disconnected", () => (running = undefined));
      return browser;
    } catch (cause) {
      running = undefined;
      throw cause;
    }
  };
  const release = (): void => {
    const next = waiting.shift();
    if (next !== undefined) return next();
    if (--taken > 0) return;
    idle = setTimeout(() => {
      const last = running;
      running = undefined;
      last?.then((browser) => browser.close()).catch(() => undefined);
    }, LINGER);
  };
  return async (signal) => {
    signal.throwIfAborted();
    // Who waits gets the place of the one that left.
    if (taken >= pages) await turn(waiting, signal);
    else taken++;
    clearTimeout(idle);
    try {
      signal.throwIfAborted();
      running ??= started();
      const browser = await running;
      let released = false;
      return {
        browser,
        release: () => {
          if (!released) release();
          released = true;
        },
      };
    } catch (cause) {
      release();
      throw cause;
    }
  };
}

/** Waits until a place is free; the first to come is the first to go. */
function turn(waiting: (() => void)[], signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const go = (): void => {
      signal.removeEventListener("abort", leave);
      resolve();
    };
    const leave = (): void => {
      waiting.splice(waiting.indexOf(go), 1);
      reject(signal.reason as Error);
    };
    waiting.push(go);
    if (signal.aborted) leave();
    else signal.addEventListener("abort", leave, { once: true });
  });
}

async function launch(program: string | undefined): Promise<Browser> {
  const { chromium } = await loadPlaywright();
  const executablePath = program ?? findChromium();
  if (executablePath === null) {
    const remedy = "apt-get install chromium, or name the program with FLYWHEEL_CHROMIUM";
    throw new EnvError(expected("browser", `one of ${programs.join(", ")}`, "none on PATH", remedy));
  }
  try {
    return await chromium.launch({
      executablePath,
      args: flags,
      // Chromium's own sandbox refuses to run as root.
      chromiumSandbox: process.getuid?.() !== 0,
      // Signals are the program's; Chromium ends when its pipe closes.
      handleSIGINT: false,
      handleSIGTERM: false,
      handleSIGHUP: false,
      timeout: 30_000,
    });
  } catch (cause) {
    throw new EnvError(`browser: ${executablePath} did not start: ${messageOf(cause).split("\n")[0]}`, { cause });
  }
}
