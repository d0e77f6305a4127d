/** `npm run bench`: compiles, then measures. Arguments go to bench/main.ts; `--help` lists them. */
import { runRepository } from "./setup.mjs";

await runRepository("bench/main.js");
