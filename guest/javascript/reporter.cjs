/** A reporter of node:test that writes each result to the examiner's report channel. */
"use strict";

module.exports = async function* reporter(events) {
  const path = [];
  for await (const { type, data } of events) {
    if (type === "test:start") {
      path.length = data.nesting;
      path[data.nesting] = data.name;
    }
    if (type !== "test:pass" && type !== "test:fail") continue;
    // The results of subtests are in their parent's; a parent that only groups passes with them.
    path.length = data.nesting;
    const id = [...path, data.name].join(" > ");
    const { gone } = globalThis[Symbol.for("flywheel.candidate")];
    const ran = data.skip === undefined && data.todo === undefined;
    const cause = data.details?.error?.cause ?? data.details?.error;
    const message = gone ?? (ran ? (cause === undefined ? "" : String(cause?.message ?? cause)) : "it was not run");
    globalThis[Symbol.for("flywheel.report")]({
      event: "test",
      id,
      passed: type === "test:pass" && ran && gone === null,
      message: message.slice(0, 500),
      suite: data.details?.type === "suite",
    });
  }
  globalThis[Symbol.for("flywheel.report")]({ event: "end" });
  yield "";
};
