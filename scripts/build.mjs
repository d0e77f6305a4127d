/** `npm run build`: compiles src/ to dist/ and makes the command executable. */
import { setUp } from "./setup.mjs";

process.exitCode = setUp({ force: true }) ? 0 : 1;
