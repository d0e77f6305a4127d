/** `npm run bench`: compiles, then measures. Arguments go to bench/main.ts; `--help` lists them. */
import { runBench } from "./setup.mjs";

await runBench();
