/** `npm run quickstart`: from a fresh clone to a trained policy. Arguments go to `flywheel quickstart`. */
import { runCommand } from "./setup.mjs";

await runCommand("quickstart");
