import { expect, test } from "vitest";
import { lockMismatch, nodeProblem } from "../../scripts/setup.mjs";

test("Node is compared part by part, as numbers", () => {
  for (const version of ["20.10.0", "20.20.2", "22.0.0", "100.0.0"]) expect(nodeProblem(version, "20.10")).toBeNull();
  for (const version of ["20.9.0", "18.19.1", "9.99.99"]) {
    expect(nodeProblem(version, "20.10")).toBe(
      `Node.js: expected at least 20.10, got ${version}; install a newer one from https://nodejs.org`,
    );
  }
});

test("an installation is right if it holds what the lock file names; packages of other platforms may be absent", () => {
  const lock = {
    packages: {
      "": { version: "0.1.0" },
      "node_modules/zod": { version: "4.6.7" },
      "node_modules/a/node_modules/b": { version: "1.0.0", dev: true },
      "node_modules/for-another-platform": { version: "2.0.0", optional: true },
    },
  };
  const installed = { "node_modules/zod": { version: "4.6.7" }, "node_modules/a/node_modules/b": { version: "1.0.0" } };
  const mismatch = (packages: Record<string, { version: string }>): string | null => lockMismatch(lock, { packages });
  expect(mismatch(installed)).toBeNull();
  expect(mismatch({ ...installed, "node_modules/zod": { version: "4.6.6" } })).toBe("zod");
  expect(mismatch({ "node_modules/zod": { version: "4.6.7" } })).toBe("b");
  expect(mismatch({ ...installed, "node_modules/for-another-platform": { version: "1.9.0" } })).toBe("for-another-platform");
});
