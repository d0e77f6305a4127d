/**
 * `npm test`: sets up, with the system packages that the sandbox's tests need, then runs vitest with the arguments given. Sources that do
 * not compile fail the run, after the tests.
 */
import { join } from "node:path";
import { root, runNode, setUp } from "./setup.mjs";
import { systemPackages } from "./system.mjs";

const compiled = setUp();
systemPackages();
const code = await runNode(join(root, "node_modules", "vitest", "vitest.mjs"), ["run", ...process.argv.slice(2)]);
if (!compiled) process.stderr.write("flywheel: the sources do not compile; see the top of this output\n");
process.exitCode = compiled ? code : code || 1;
