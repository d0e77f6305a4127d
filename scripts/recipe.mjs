/** `npm run recipe:<name>`: compiles, then runs recipes/<name>/main.ts with the folder of the sources and the given arguments. */
import { join } from "node:path";
import { root, runRepository } from "./setup.mjs";

const [name, ...args] = process.argv.slice(2);
await runRepository(join("recipes", name, "main.js"), [join(root, "recipes", name), ...args]);
