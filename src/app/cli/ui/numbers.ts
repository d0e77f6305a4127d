/** Numbers as options of a command. */
import { InvalidArgumentError } from "commander";

export function wholeOption(value: string): number {
  if (!/^\d{1,15}$/.test(value)) throw new InvalidArgumentError("expected a whole number.");
  return Number(value);
}

export function realOption(value: string): number {
  if (value.trim() === "" || !(Number(value) >= 0)) throw new InvalidArgumentError("expected a number of 0 or more.");
  return Number(value);
}
