/** As python.ts, for JavaScript. */
export const tests = ["assert.equal(add(1, 2), 3)", "assert.deepEqual([add(5, 5)], [10])"];

export const nodeTestFile = `
import test from "node:test";
import assert from "node:assert/strict";
import { add } from "./solution.js";
test("small", () => assert.equal(add(1, 2), 3));
test("large", () => assert.ok(add(5, 5) === 10));
test("loose", () => assert.deepEqual([add(1, 1)], [2]));
`;

export const hostile: Readonly<Record<string, string>> = {
  "process.exit(0) when loaded": "process.exit(0); export const add = 1;",
  "process.exit(0) when called": "export const add = () => process.exit(0);",
  "process.reallyExit": "export const add = () => process.reallyExit(0);",
  "kills itself": "export const add = () => process.kill(process.pid, 'SIGKILL');",
  "valueOf that fits": "export const add = (a, b) => ({ valueOf: () => a + b, toString: () => String(a + b), [Symbol.toPrimitive]: () => a + b });",
  "a patched assert": "import assert from 'node:assert'; for (const k of Object.keys(assert)) assert[k] = () => {}; for (const k of Object.keys(assert.strict)) assert.strict[k] = () => {}; export const add = () => 0;",
  "a patched node:test": "import test from 'node:test'; import Module from 'node:module'; Module._load = () => () => {}; export const add = () => 0;",
  "patched prototypes": "Object.is = () => true; Object.prototype.toString = () => 'x'; JSON.stringify = () => '{\"ok\":true}'; Array.prototype.map = () => []; export const add = () => 0;",
  "a patched JSON.parse": "const p = JSON.parse; JSON.parse = (t) => { const m = p(t); return m; }; JSON.stringify = () => '{\"ok\":3}'; export const add = () => 0;",
  "a report on every descriptor": "import fs from 'node:fs'; for (let fd = 0; fd < 32; fd++) { try { fs.writeSync(fd, '{\"event\":\"test\",\"id\":\"x\",\"passed\":true}\\n{\"event\":\"end\"}\\n'); } catch {} } export const add = () => 0;",
  "an answer before the question": "import fs from 'node:fs'; const m = Buffer.from('{\"ok\":true}'); const h = Buffer.alloc(4); h.writeUInt32BE(m.length); for (let i = 0; i < 50; i++) fs.writeSync(4, Buffer.concat([h, m])); export const add = () => true;",
  "keys of prototypes": "export const add = () => JSON.parse('{\"__proto__\":{\"passed\":true},\"constructor\":{\"prototype\":{\"passed\":true}}}');",
  "a proxy that has everything": "export const add = () => new Proxy({}, { get: (t, k) => (k === Symbol.toPrimitive ? () => 3 : 3), has: () => true, ownKeys: () => [], getPrototypeOf: () => Number.prototype });",
  "a thenable": "export const add = () => ({ then: (r) => r(3) });",
  "a promise of the number": "export const add = async (a, b) => a + b;",
  "a loop": "export const add = () => { for (;;); };",
  "a loop when loaded": "for (;;); export const add = 1;",
  "output without end": "import fs from 'node:fs'; export const add = () => { for (;;) fs.writeSync(1, 'x'.repeat(65536)); };",
  "memory": "export const add = () => { const x = []; for (let i = 0; i < 1024; i++) x.push(new Uint8Array(1 << 20).fill(1)); return 0; };",
  "throws what cannot be read": "export const add = () => { throw new Proxy(new Error('x'), { get() { throw 1; }, getPrototypeOf() { throw 2; } }); };",
  "looks for the tests": "import fs from 'node:fs'; const look = (d) => { try { return fs.readdirSync(d, { recursive: true }).map((f) => { try { return fs.readFileSync(d + '/' + f, 'utf8'); } catch { return ''; } }).join('\\n'); } catch { return ''; } }; const all = ['/work', '/box', '/tmp', '/home', '/root'].map(look).join(''); export const add = (a, b) => (all.includes('add(1, ' + '2), 3') ? a + b : 0);",
  "node_modules on disk": "import fs from 'node:fs'; try { fs.mkdirSync('/work/node_modules/node:test', { recursive: true }); fs.writeFileSync('/work/node_modules/node:test/index.js', ''); } catch {} export const add = () => 0;",
  "the string of the number": "export const add = (a, b) => String(a + b);",
  "a syntax error": "export const add = (a, b => a + b;",
  "nothing": "export {};",
};
