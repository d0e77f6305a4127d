/** `npm run bench`: compiles, then measures. Arguments go to `flywheel bench`. */
import { runCommand } from "./setup.mjs";

await runCommand("bench");
