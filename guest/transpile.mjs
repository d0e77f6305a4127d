/**
 * Worker thread: TypeScript and ES modules to CommonJS, which guests load by `require`, so that an import of the candidate can be answered
 * by another process. Types are removed and not checked. A file that cannot be read becomes one that throws the reason when loaded.
 */
import { parentPort } from "node:worker_threads";
import { transform } from "sucrase";

const CODE = /\.([cm]?)(js|ts)(x?)$/;

function compile(path, source) {
  const [, , kind, jsx] = CODE.exec(path);
  const transforms = [...(kind === "ts" ? ["typescript"] : []), ...(jsx === "" ? [] : ["jsx"]), "imports"];
  try {
    return transform(source, { transforms, filePath: path, disableESTransforms: true, jsxRuntime: "classic", production: true }).code;
  } catch (cause) {
    return `throw new SyntaxError(${JSON.stringify(String(cause?.message ?? cause).slice(0, 400))});`;
  }
}

parentPort.on("message", ({ files }) => {
  const compiled = Object.entries(files).map(([path, source]) => [path, CODE.test(path) ? compile(path, source) : source]);
  parentPort.postMessage({ files: Object.fromEntries(compiled) });
});
