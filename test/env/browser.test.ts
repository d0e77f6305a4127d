/** Pages as an environment: what is seen, what can be done, what cannot be reached, and what is left behind: nothing. */
import { readdirSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { browserPlaces, findChromium, loadPlaywright } from "../../src/compute/browser/chromium.ts";
import { describe as describePage, part } from "../../src/compute/browser/observation.ts";
import { scoreTrajectory } from "../../src/loop/reward/score.ts";
import type { Trajectory } from "../../src/types.ts";
import { playByHand, serveSite, siteEnv, type Site } from "../fakes/site.ts";

const html = (body: string): string => `<!doctype html><title>Shop</title><body>${body}</body>`;
const shop = html(`<h1>Shop</h1><div><div><a href="/cart">Cart</a></div></div>
  <label>Name <input id=name></label><label><input type=checkbox checked> Gift</label>
  <select aria-label=Size><option>Small<option>Large</select><input type=date aria-label=Day>
  <button onclick="out.textContent=document.getElementById('name').value+' '+document.querySelector('select').value+' '+
  document.querySelector('[type=date]').value">Order</button><p id=out></p><div onclick="out.textContent='box'">a box</div>`);

describe("observation", () => {
  test("boxes without text vanish, references and states stay", () => {
    const tree = [
      {
        role: "generic",
        ref: "e1",
        children: [
          { role: "checkbox", name: "Gift", ref: "e2", checked: true },
          "Gift",
          { role: "generic", ref: "e3", children: [{ role: "link", name: "Cart", ref: "e4", url: "/cart", children: ["Cart"] }] },
          { role: "list", ref: "e5", children: [{ role: "listitem", ref: "e6", text: "one" }] },
        ],
      },
    ];
    expect(describePage(tree)).toEqual(['e2 checkbox "Gift" checked', 'e4 link "Cart" -> /cart', "e5 list", ' e6 listitem = "one"']);
  });

  test("a cut is stated, and reading on gives the rest", () => {
    expect(part("abcdefgh", { from: 0, limit: 3 })).toBe("abc\n[characters 0 to 3 of 8; read from 3 shows more]");
    expect(part("abcdefgh", { from: 6, limit: 3 })).toBe("gh");
  });
});

test("a missing package or program is refused, with what to do", async () => {
  const load = (): Promise<never> => Promise.reject(new Error("Cannot find package 'playwright-core' imported from x\nmore"));
  await expect(loadPlaywright(load)).rejects.toThrow(
    "browser: expected the package playwright-core, got Cannot find package 'playwright-core' imported from x; " +
      "npm install --save-exact playwright-core@1.65.1",
  );
  const place = browserPlaces({ program: "/nowhere/chromium" });
  await expect(place(new AbortController().signal)).rejects.toThrow(/^browser: \/nowhere\/chromium did not start: /);
  expect(() => browserPlaces({ pages: 0 })).toThrow("browser: pages: expected 1 or more, got 0");
  expect(findChromium({ PATH: "/nowhere", FLYWHEEL_CHROMIUM: "/opt/own" })).toBe("/opt/own");
});

describe.skipIf(findChromium() === null)("in Chromium", () => {
  let site: Site;
  let other: Site;
  beforeAll(async () => {
    other = await serveSite({ "/": html("secret"), "/pixel.png": html(""), "/api": html("secret") });
    site = await serveSite({
      "/": shop,
      "/cart": html("<h1>Cart</h1><script>document.title='Your cart'</script>"),
      "/long": html(Array.from({ length: 400 }, (_, i) => `<p>line number ${i}</p>`).join("")),
      "/out": html(`<a href="${other.origin}/">away</a><a href="/redirect">redirect</a><a href="/" target=_blank>window</a>
        <a href="/file">file</a><button onclick="alert('hello')">say</button><button onclick="window.r=confirm('sure?')">ask</button>
        <img src="${other.origin}/pixel.png"><iframe src="${other.origin}/"></iframe><script>
        fetch("${other.origin}/api",{mode:"no-cors"}).catch(()=>0); new WebSocket("${other.origin.replace("http", "ws")}/socket");
        navigator.sendBeacon("${other.origin}/beacon","x")</script>`),
      "/redirect": (_request, response) => void response.writeHead(302, { location: `${other.origin}/` }).end(),
      "/file": (_request, response) => void response.writeHead(200, { "content-disposition": "attachment; filename=f.bin" }).end("x"),
      "/hang": html('<button onclick="while(true){}">hang</button>'),
    });
  });
  afterAll(async () => {
    await site[Symbol.asyncDispose]();
    await other[Symbol.asyncDispose]();
  });

  test("every tool, and the page after it", async () => {
    const { env, task } = siteEnv(`${site.origin}/`, { maxTurns: 20 });
    await using hand = await playByHand(env, task);
    expect(hand.opening).toBe(`page "Shop" at ${site.origin}/
e2 heading 1 "Shop"
e5 link "Cart" -> /cart
Name
e7 textbox "Name"
e9 checkbox "Gift" checked
e10 combobox "Size"
 option "Small" selected
 option "Large"
e11 textbox "Day"
e12 button "Order"
e13 a box`);
    expect(await hand.say(["type", { ref: "e7", text: "Ann" }])).toContain('e7 textbox "Name" = "Ann"');
    expect(await hand.say(["select", { ref: "e10", option: "Large" }])).toContain('option "Large" selected');
    await hand.say(["type", { ref: "e11", text: "2024-02-29" }]);
    expect(await hand.say(["click", { ref: "e12" }])).toContain("Ann Large 2024-02-29");
    expect(await hand.say(["click", { ref: "e13" }])).toMatch(/paragraph = "box"/);
    expect(await hand.say(["navigate", { url: "/cart" }])).toMatch(/^page "Your cart" at .*\/cart\n.* heading 1 "Cart"$/);
    expect(await hand.say(["back", {}])).toMatch(/^page "Shop"/);
    // A page that was loaded again has references of its own; the old ones are nothing now.
    const field = /(\S+) textbox "Name"/.exec(await hand.say(["read", {}]))![1]!;
    await hand.say(["click", { ref: field }]);
    expect(await hand.say(["press", { key: "x" }])).toContain('= "Annx"');
    expect(await hand.take("done")).toMatchObject({ done: true, reward: 1 });
    expect(await hand.verdict()).toMatchObject({ type: "scored", score: 1 });
    expect(hand.episode.measures()).toMatchObject({ "tools/calls": 10, "tools/errors": 0, refusedRequests: 0 });
  });

  test("faults of the agent are told to it", async () => {
    const { env, task } = siteEnv(`${site.origin}/`, { limits: { actionMs: 700 } });
    await using hand = await playByHand(env, task);
    expect(await hand.say(["click", { ref: "e99" }])).toBe("error: no element e99 on the page now");
    expect(await hand.say(["click", { ref: "button" }])).toMatch(/^error: "ref" must be right/);
    expect(await hand.say(["press", { key: "NoSuchKey" }])).toBe('error: Unknown key: "NoSuchKey"');
    expect(await hand.say(["select", { ref: "e10", option: "Huge" }])).toMatch(/^error: Timeout 700ms exceeded/);
    for (const url of [other.origin, "file:///etc/passwd", "chrome://crash", "javascript:alert(1)", "data:text/html,x"]) {
      expect(await hand.say(["navigate", { url }])).toBe(`error: navigate: expected an address of ${site.origin}, got ${url}`);
    }
    expect(await hand.take("no")).toMatchObject({ done: true, reward: 0 });
  });

  test("a long page is shown in parts", async () => {
    const { env, task } = siteEnv(`${site.origin}/long`, { limits: { observationChars: 1000 } });
    await using hand = await playByHand(env, task);
    const [, more] = /\[characters 0 to 1000 of (\d+); read from 1000 shows more\]$/.exec(hand.opening)!;
    expect(hand.opening.length).toBeLessThan(1150);
    expect(await hand.say(["read", { from: Number(more) - 40 }])).toMatch(/line number 399"$/);
  });

  test("no way leads to another origin: links, redirects, pictures, frames, requests, sockets, beacons, windows, files", async () => {
    const { env, task } = siteEnv(`${site.origin}/out`);
    await using hand = await playByHand(env, task);
    expect(hand.opening).toContain(`[refused: a request to ${new URL(other.origin).host}]`);
    const refOf = (name: string): string => new RegExp(`(e\\d+) (?:link|button) "${name}"`).exec(hand.opening)![1]!;
    for (const name of ["away", "redirect"]) {
      const seen = await hand.say(["click", { ref: refOf(name) }]);
      expect(seen).toContain(`[refused: a request to ${new URL(other.origin).host}]`);
      expect(seen).toContain(`at ${site.origin}/out`);
      expect(seen).not.toContain("secret");
    }
    expect(await hand.say(["navigate", { url: "/redirect" }])).toMatch(/error: /);
    expect(await hand.say(["click", { ref: refOf("window") }])).toContain("[refused: a new window]");
    expect(await hand.say(["click", { ref: refOf("file") }])).toContain("[refused: a download]");
    expect(await hand.say(["click", { ref: refOf("say") }])).toContain("[alert: hello (accepted)]");
    expect(await hand.say(["click", { ref: refOf("ask") }])).toContain("[confirm: sure? (dismissed)]");
    expect(other.seen).toEqual([]);
    expect(hand.episode.measures()["refusedRequests"]).toBeGreaterThan(6);
  });

  test("episodes at once share nothing, and no more pages are open than allowed", async () => {
    const open: number[] = [];
    const look = async (page: { context(): { browser(): { contexts(): unknown[] } | null } }): Promise<void> =>
      void open.push(page.context().browser()!.contexts().length);
    const { env, task } = siteEnv(`${site.origin}/`, { pages: 2, look });
    const names = ["Ann", "Ben", "Cid", "Dee", "Eve"];
    const seen = await Promise.all(
      names.map(async (name) => {
        await using hand = await playByHand(env, task);
        await hand.say(["type", { ref: "e7", text: name }]);
        return await hand.say(["click", { ref: "e12" }]);
      }),
    );
    for (const [i, name] of names.entries()) expect(seen[i]).toContain(`"${name} Small"`);
    expect(Math.max(...open)).toBe(2);
  });

  test("a crash of the page or the browser ends the episode as an error, which is never a score", async () => {
    const crash = siteEnv(`${site.origin}/`, {
      look: async (page) => {
        const session = await page.context().newCDPSession(page);
        void session.send("Page.crash").catch(() => undefined);
        await page.waitForEvent("crash");
      },
    });
    await using first = await playByHand(crash.env, crash.task);
    await first.say(["read", {}]);
    await expect(first.say(["read", {}])).rejects.toThrow("browser: the page crashed");
    const gone = siteEnv(`${site.origin}/`, { look: (page) => page.context().browser()!.close() });
    await using second = await playByHand(gone.env, gone.task);
    await second.say(["read", {}]);
    await expect(second.say(["read", {}])).rejects.toThrow("browser: the browser ended");
    // The next episode gets a browser of its own.
    await using third = await playByHand(gone.env, gone.task);
    expect(third.opening).toContain("Shop");
    const end = { type: "error", boundary: "environment", message: "browser: the page crashed" } as const;
    const empty = { sample: 0, rows: [], turns: [], messages: [], measures: {}, seconds: 0 };
    const cut: Trajectory = { id: "x", task: gone.task, end, ...empty };
    expect(await scoreTrajectory(gone.env.reward, cut)).toMatchObject({ verdict: { type: "infrastructure" } });
  });

  test("a page that hangs costs its action's time and closes", async () => {
    const { env, task } = siteEnv(`${site.origin}/hang`, { limits: { actionMs: 800, loadMs: 800 } });
    const started = performance.now();
    const hand = await playByHand(env, task);
    expect(await hand.say(["click", { ref: "e2" }])).toMatch(/^error: Timeout 800ms exceeded/);
    await hand[Symbol.asyncDispose]();
    expect(performance.now() - started).toBeLessThan(15_000);
  });

  test("a site that does not answer is nobody's failure", async () => {
    const { env, task } = siteEnv(`${site.origin}/nothing`);
    await expect(playByHand(env, task)).rejects.toThrow(`environment site: ${site.origin}/nothing: expected a page, got HTTP 404`);
  });

  test("the turns' end is graded, and nothing runs after it", async () => {
    const { env, task } = siteEnv(`${site.origin}/`, { maxTurns: 2 });
    await using hand = await playByHand(env, task);
    expect(await hand.take(["read", {}])).toMatchObject({ done: false });
    expect(await hand.take(["click", { ref: "e5" }])).toMatchObject({ done: true, reward: 0, messages: [{ content: /Your cart/ }] });
    await expect(hand.take(["read", {}])).rejects.toThrow(/no turn after the end/);
  });

  test("when the last episode is closed, no process and no profile folder is left", async () => {
    const mine = (): string[] =>
      readdirSync("/proc").filter((pid) => {
        if (!/^\d+$/.test(pid)) return false;
        try {
          return readFileSync(`/proc/${pid}/cmdline`, "utf8").includes("playwright_chromiumdev_profile") && parentOf(pid) === process.pid;
        } catch {
          return false;
        }
      });
    const { env, task } = siteEnv(`${site.origin}/`);
    const hand = await playByHand(env, task);
    expect(mine().length).toBeGreaterThan(0);
    const profiles = mine().map((pid) => /user-data-dir=([^\0]*)/.exec(readFileSync(`/proc/${pid}/cmdline`, "utf8"))![1]!);
    await hand[Symbol.asyncDispose]();
    for (let i = 0; i < 100 && mine().length > 0; i++) await sleep(100);
    expect(mine()).toEqual([]);
    const left = (): string[] => profiles.filter((profile) => readdirSync(tmpdir()).some((name) => profile.endsWith(name)));
    for (let i = 0; i < 100 && left().length > 0; i++) await sleep(100);
    expect(left()).toEqual([]);
  });
});

function parentOf(pid: string): number {
  return Number(/\) \S (\d+)/.exec(readFileSync(`/proc/${pid}/stat`, "utf8"))![1]);
}
