/**
 * A JSON schema as a grammar whose every text satisfies it. Members come in the order of `properties`, and members that it does not
 * name are not written unless `additionalProperties` alone describes the object. A keyword outside the table below is refused by its
 * place: nothing that a schema asks for is ignored.
 */
import { ConfigError, expected } from "../../../errors.ts";
import type { Json, JsonObject } from "../../../types.ts";
import { choice, literal, reference, type Part } from "./grammar.ts";
import * as json from "./json.ts";

/** Keywords that ask nothing of a value. */
const notes = [
  "title",
  "description",
  "default",
  "examples",
  "deprecated",
  "readOnly",
  "writeOnly",
  "$schema",
  "$id",
  "$comment",
  "$defs",
  "definitions",
];
const keywords: Readonly<Record<string, readonly string[]>> = {
  object: ["properties", "required", "additionalProperties"],
  array: ["items", "minItems", "maxItems"],
  string: ["minLength", "maxLength"],
  integer: ["minimum", "maximum", "exclusiveMinimum"],
  number: ["minimum"],
  boolean: [],
  null: [],
};
const types = Object.keys(keywords);

/** Largest bound of a length that is counted. */
const maxCount = 512;
const maxDepth = 64;

class Compiler {
  readonly #root: JsonObject;
  readonly #rules = new Map<string, Part>();

  constructor(root: JsonObject) {
    this.#root = root;
  }

  compile(schema: Json | undefined, where: string, depth = 0): Part {
    if (depth > maxDepth) throw refused(where, `at most ${maxDepth} levels of nesting`, "more");
    if (schema === true) return json.anyValue;
    if (!isObject(schema)) throw refused(where, "a schema", JSON.stringify(schema));
    const given = Object.keys(schema).filter((key) => !notes.includes(key));
    const only = (...allowed: readonly string[]): void => {
      const other = given.find((key) => !allowed.includes(key));
      if (other !== undefined)
        throw refused(`${where}.${other}`, `no keyword but ${allowed.join(", ")} here`, JSON.stringify(schema[other]).slice(0, 60));
    };
    if (given.length === 0) return json.anyValue;
    if (schema.$ref !== undefined) {
      only("$ref");
      return this.#rule(schema.$ref, `${where}.$ref`);
    }
    if (schema.anyOf !== undefined) {
      only("anyOf");
      const options = listOf(schema.anyOf, `${where}.anyOf`);
      return choice(...options.map((option, i) => this.compile(option, `${where}.anyOf.${i}`, depth + 1)));
    }
    if (schema.const !== undefined || schema.enum !== undefined) {
      only("const", "enum", "type");
      return constants(schema, where);
    }
    const named = typesOf(schema, where);
    only("type", ...named.flatMap((name) => keywords[name]!));
    return choice(...named.map((name) => this.#typed(name, schema, { where, depth })));
  }

  /** A reference to a part of the document; it may lead back to itself. */
  #rule(target: Json, where: string): Part {
    if (typeof target !== "string" || !/^#(\/|$)/.test(target))
      throw refused(where, 'a place in this schema, as "#/$defs/name"', JSON.stringify(target));
    if (!this.#rules.has(target)) {
      let found: Json | undefined = this.#root;
      for (const step of target.split("/").slice(1).map(decodePointer))
        found = isObject(found) && Object.hasOwn(found, step) ? found[step] : undefined;
      if (found === undefined) throw refused(where, "a place that is there", target);
      this.#rules.set(
        target,
        reference(() => this.#rules.get(target)!),
      ); // met again while it is compiled
      const compiled = this.compile(found, target);
      this.#rules.set(target, compiled);
    }
    return reference(() => this.#rules.get(target)!);
  }

  #typed(name: string, schema: JsonObject, at: { readonly where: string; readonly depth: number }): Part {
    switch (name) {
      case "object":
        return this.#object(schema, at);
      case "array": {
        const items = schema.items === undefined ? json.anyValue : this.compile(schema.items, `${at.where}.items`, at.depth + 1);
        return json.array(items, countsOf(schema, ["minItems", "maxItems"], at.where));
      }
      case "string":
        return json.string(countsOf(schema, ["minLength", "maxLength"], at.where));
      case "integer":
        return json.integers[signOf(schema, at.where)];
      case "number":
        return json.numbers[signOf(schema, at.where) === "any" ? "any" : "natural"];
      case "boolean":
        return json.boolean;
      default:
        return json.nothing;
    }
  }

  #object(schema: JsonObject, { where, depth }: { readonly where: string; readonly depth: number }): Part {
    const { properties = {}, additionalProperties: other = true } = schema;
    if (!isObject(properties)) throw refused(`${where}.properties`, "an object of schemas", JSON.stringify(properties));
    const required = isEmpty(schema.required) ? [] : listOf(schema.required, `${where}.required`);
    const unnamed = required.filter((key) => typeof key === "string" && !Object.hasOwn(properties, key));
    if (Object.keys(properties).length === 0 && required.length === 0) {
      if (other === true) return json.anyObject;
      return other === false ? literal("{}") : json.objectOf(this.compile(other, `${where}.additionalProperties`, depth + 1));
    }
    if (other === false && unnamed.length > 0) throw refused(`${where}.required`, "keys of properties", JSON.stringify(unnamed[0]));
    const members = Object.entries(properties).map(([key, value]) => {
      const compiled = this.compile(value, `${where}.properties.${key}`, depth + 1);
      return { key, value: compiled, required: required.includes(key) };
    });
    const more = unnamed.map((key) => {
      if (typeof key !== "string") throw refused(`${where}.required`, "strings", JSON.stringify(key));
      return { key, value: this.compile(other, `${where}.additionalProperties`, depth + 1), required: true };
    });
    return json.object([...members, ...more]);
  }
}

/** The grammar of the texts that a schema allows. ConfigError names the first keyword that is not supported. */
export function jsonSchemaGrammar(schema: JsonObject, where: string): Part {
  return new Compiler(schema).compile(schema, where);
}

function refused(where: string, want: string, got: string): ConfigError {
  return new ConfigError(expected(where, want, got, "constrained decoding does not support it"));
}

function typesOf({ type }: JsonObject, where: string): readonly string[] {
  const named = Array.isArray(type) ? (type as readonly Json[]) : [type ?? null];
  const wrong = named.find((name) => typeof name !== "string" || !types.includes(name));
  if (wrong !== undefined || named.length === 0)
    throw refused(`${where}.type`, `one or more of ${types.join(", ")}`, JSON.stringify(type) ?? "none");
  return named as readonly string[];
}

/** `const` and `enum`: the values of the named types, each as its one compact text. */
function constants(schema: JsonObject, where: string): Part {
  const all = schema.const === undefined ? listOf(schema.enum, `${where}.enum`) : [schema.const];
  const named = schema.type === undefined ? types : typesOf(schema, where);
  const also =
    schema.const === undefined || schema.enum === undefined
      ? undefined
      : listOf(schema.enum, `${where}.enum`).map((value) => JSON.stringify(value));
  const fitting = all.filter((value) => named.some((name) => isOfType(value, name)) && (also?.includes(JSON.stringify(value)) ?? true));
  if (fitting.length === 0) throw refused(where, `a value of type ${named.join(" or ")}`, JSON.stringify(all).slice(0, 60));
  return choice(...fitting.map((value) => literal(JSON.stringify(value))));
}

function isOfType(value: Json, name: string): boolean {
  if (name === "integer") return Number.isInteger(value);
  if (name === "null") return value === null;
  if (name === "array") return Array.isArray(value);
  return name === "object" ? isObject(value) : typeof value === name;
}

function countsOf(
  schema: JsonObject,
  [low, high]: readonly [string, string],
  where: string,
): { readonly least: number; readonly most: number } {
  const read = (key: string, none: number): number => {
    const value = schema[key];
    if (value === undefined) return none;
    if (typeof value === "number" && Number.isInteger(value) && value >= 0 && value <= maxCount) return value;
    throw refused(`${where}.${key}`, `a whole number from 0 to ${maxCount}`, JSON.stringify(value));
  };
  const [least, most] = [read(low, 0), read(high, Infinity)];
  if (least > most) throw refused(`${where}.${low}`, `at most ${high}, ${most}`, String(least));
  return { least, most };
}

/** Bounds that say no more than the sign, or nothing to numbers of 15 digits. */
function signOf(schema: JsonObject, where: string): "any" | "natural" | "positive" {
  const { minimum, maximum, exclusiveMinimum } = schema;
  const wide = 999_999_999_999_999;
  if (maximum !== undefined && !(typeof maximum === "number" && maximum >= wide))
    throw refused(`${where}.maximum`, "none", JSON.stringify(maximum));
  if (exclusiveMinimum !== undefined && exclusiveMinimum !== 0)
    throw refused(`${where}.exclusiveMinimum`, "0", JSON.stringify(exclusiveMinimum));
  const positive = exclusiveMinimum === 0;
  if (minimum === 1 && schema.type !== "number") return "positive";
  if (minimum === undefined || (typeof minimum === "number" && minimum <= -wide)) return positive ? "positive" : "any";
  if (minimum === 0) return positive ? "positive" : "natural";
  throw refused(`${where}.minimum`, "0 or 1, or none", JSON.stringify(minimum));
}

function listOf(value: Json | undefined, where: string): readonly Json[] {
  if (Array.isArray(value) && value.length > 0) return value as readonly Json[];
  throw refused(where, "a list that is not empty", JSON.stringify(value) ?? "none");
}

const isEmpty = (value: Json | undefined): boolean => value === undefined || (Array.isArray(value) && value.length === 0);

const decodePointer = (step: string): string => step.replaceAll("~1", "/").replaceAll("~0", "~");

function isObject(value: Json | undefined): value is JsonObject {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}
