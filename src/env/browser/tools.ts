/** What an agent can do in a browser. Every tool answers with the page as it is then. */
import { z } from "zod";
import { defineTool } from "../../loop/rollout/tools.ts";
import type { Tool } from "../../types.ts";
import type { Session } from "../../compute/browser/session.ts";

/** Fields that take a value and no keys. */
const valued = ["color", "date", "datetime-local", "month", "range", "time", "week"];

const ref = z.string().regex(/^(?:f\d+)?e\d+$/, "an element's reference, like e5");

/** The tools of one page; null only where their descriptions are wanted and nothing is run. */
export function browserTools(session: Session | null): readonly Tool[] {
  const open = (): Session => {
    if (session === null) throw new Error("there is no page");
    return session;
  };
  return [
    defineTool({
      name: "click",
      description: "Clicks on an element.",
      parameters: z.strictObject({ ref }),
      run: (args) => open().act(args.ref, (element, timeout) => element.click({ timeout })),
    }),
    defineTool({
      name: "type",
      description: "Replaces the text of a field.",
      parameters: z.strictObject({ ref, text: z.string().max(2000) }),
      run: ({ ref: place, text }) =>
        open().act(place, async (element, timeout) => {
          const kind = await element.getAttribute("type", { timeout });
          if (valued.includes(kind ?? "") || text.length > 200) return element.fill(text, { timeout });
          await element.fill("", { timeout });
          await element.pressSequentially(text, { timeout });
        }),
    }),
    defineTool({
      name: "select",
      description: "Chooses an option of a list by its text.",
      parameters: z.strictObject({ ref, option: z.string().max(500) }),
      run: ({ ref: place, option }) => open().act(place, (element, timeout) => element.selectOption(option, { timeout })),
    }),
    defineTool({
      name: "press",
      description: 'Presses a key where the cursor is: "Enter", "Tab", "ArrowDown", "Control+a".',
      parameters: z.strictObject({ key: z.string().min(1).max(30) }),
      run: ({ key }) => open().run((page) => page.keyboard.press(key)),
    }),
    defineTool({
      name: "navigate",
      description: "Opens an address of this site.",
      parameters: z.strictObject({ url: z.string().max(2000) }),
      run: ({ url }) => open().goto(url),
    }),
    defineTool({
      name: "back",
      description: "Goes back to the page before.",
      parameters: z.strictObject({}),
      run: () => open().run((page) => page.goBack()),
    }),
    defineTool({
      name: "read",
      description: "Shows the page, from a character on.",
      parameters: z.strictObject({ from: z.int().min(0).optional() }),
      run: ({ from }) => open().observe(from ?? 0),
    }),
  ];
}
