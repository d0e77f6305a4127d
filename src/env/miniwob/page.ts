/** The script of a MiniWoB++ page, as far as an episode needs it. */
import type { Page } from "playwright-core";

/** What a page's script sees and says. */
interface Wob {
  readonly core: { EPISODE_MAX_TIME: number; getUtterance(): string; startEpisodeReal(): void };
  readonly WOB_DONE_GLOBAL: boolean;
  readonly WOB_RAW_REWARD_GLOBAL: number;
}

/** Starts the page's episode from the seed and returns what it asks for. What only shows scores and time is hidden. */
export async function begin(page: Page, { seed, milliseconds }: { seed: string; milliseconds: number }): Promise<string> {
  await page.addStyleTag({ content: "#reward-display, #click-canvas { display: none !important } #query { visibility: hidden }" });
  const asked = await page.evaluate(
    ([seedText, limit]) => {
      const { core } = globalThis as unknown as Wob;
      (Math as unknown as { seedrandom(text: string): void }).seedrandom(seedText);
      core.EPISODE_MAX_TIME = limit;
      core.startEpisodeReal();
      return core.getUtterance();
    },
    [seed, milliseconds] as const,
  );
  return `Task: ${asked}`;
}

export const isOver = (page: Page): Promise<boolean> => page.evaluate(() => (globalThis as unknown as Wob).WOB_DONE_GLOBAL);

export const rawReward = (page: Page): Promise<number> => page.evaluate(() => (globalThis as unknown as Wob).WOB_RAW_REWARD_GLOBAL);
