/** Numbers as options of a command. */
import { InvalidArgumentError } from "commander";
import { ConfigError, expected } from "../../../errors.ts";

export function wholeOption(value: string): number {
  if (!/^\d{1,15}$/.test(value)) throw new InvalidArgumentError("expected a whole number.");
  return Number(value);
}

/** --max-tokens as it was given, which must leave the prompt some room in the context; or the usual number, as far as it does. */
export function tokenLimit(given: number | undefined, usual: number, contextLength: number): number {
  if (given === undefined) return Math.min(usual, contextLength - 1);
  if (given > 0 && given < contextLength) return given;
  throw new ConfigError(expected("--max-tokens", `1 to ${contextLength - 1}, less than the model's context`, String(given)));
}

export function realOption(value: string): number {
  if (value.trim() === "" || !(Number(value) >= 0)) throw new InvalidArgumentError("expected a number of 0 or more.");
  return Number(value);
}
