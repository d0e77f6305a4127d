/** A second engine by its name. */
import { ConfigError, expected } from "../../../../errors.ts";
import type { SecondEngine } from "./second.ts";
import { sympy } from "./sympy.ts";
import { wolframAlpha } from "./wolfram.ts";

/** The key of Wolfram Alpha comes from the environment variable WOLFRAM_ALPHA_APPID, so that it stands in no file or history. */
export function secondEngine(name: "sympy" | "wolfram-alpha", python: string | undefined): SecondEngine {
  if (name === "sympy") return sympy(python === undefined ? {} : { python });
  const key = process.env["WOLFRAM_ALPHA_APPID"] ?? "";
  if (key === "") throw new ConfigError(expected("WOLFRAM_ALPHA_APPID", "the AppID of your account", "nothing", "set the variable"));
  return wolframAlpha({ key });
}
