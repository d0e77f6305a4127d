/** `flywheel new env <name>`: a commented environment and its test, to begin from. */
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Argument, type Command } from "commander";
import { ConfigError, expected } from "../../../errors.ts";
import { envSource, envTest } from "../new/env-template.ts";
import type { CliServices } from "../services.ts";
import { pathFrom } from "../ui/places.ts";

export function registerNew(program: Command, services: CliServices): void {
  program
    .command("new")
    .description("write a commented environment and its test")
    .addArgument(new Argument("<what>", "what to write").choices(["env"]))
    .argument("<name>", "its name, in lower case with dashes")
    .option("-f, --folder <path>", "where to write", ".")
    .action((_what: string, name: string, { folder }: { readonly folder: string }) => run(name, folder, services));
}

async function run(name: string, folder: string, { cwd, stdout }: CliServices): Promise<void> {
  if (!/^[a-z][a-z0-9]*(?:-[a-z0-9]+)*$/.test(name) || name.length > 60) {
    throw new ConfigError(expected("new env", "a name of lower-case letters, digits and dashes that begins with a letter", name));
  }
  const factory = name.replace(/-([a-z0-9])/g, (_all, letter: string) => letter.toUpperCase());
  const place = pathFrom(cwd, folder);
  const files = { [`${name}.ts`]: envSource({ name, factory }), [`${name}.test.ts`]: envTest({ name, factory }) };
  await mkdir(place, { recursive: true });
  const written: string[] = [];
  for (const [file, text] of Object.entries(files)) {
    const path = join(place, file);
    try {
      await writeFile(path, text, { flag: "wx" });
    } catch (cause) {
      if (!(cause instanceof Error && "code" in cause && cause.code === "EEXIST")) throw cause;
      const remedy = "choose another name or --folder";
      throw new ConfigError(expected(`new env ${name}`, `no file ${path}`, "one that is there", remedy), { cause });
    }
    written.push(path);
  }
  const next = `test it: npx vitest run ${written[1]!}\nplay it: flywheel play ${written[0]!}`;
  stdout.write(`wrote ${written.join("\nwrote ")}\n${next}\n`);
}
