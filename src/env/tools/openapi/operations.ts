/** Operations of an OpenAPI document as what a tool needs: one flat object of arguments, and where each of them goes. */
import { expected, ToolError } from "../../../errors.ts";
import type { Json, JsonObject } from "../../../types.ts";
import { isObject, resolved, schemaOf } from "./resolve.ts";

interface Parameter {
  readonly name: string;
  readonly in: "path" | "query" | "header";
  /** Lists: one entry for each item, or one with commas. */
  readonly explode: boolean;
}

export interface Operation {
  readonly id: string;
  readonly description: string;
  readonly method: string;
  readonly path: string;
  readonly parameters: readonly Parameter[];
  readonly hasBody: boolean;
  /** Of the arguments: each parameter by its name, the JSON body as `body`. */
  readonly schema: JsonObject;
}

const METHODS = ["get", "put", "post", "delete", "patch", "head"];

/** The operations with these ids. Throws `ToolError` for one that does not exist or cannot be a tool. */
export function operationsOf(document: JsonObject, ids: readonly string[]): readonly Operation[] {
  const version = document["openapi"];
  if (typeof version !== "string" || !/^3\.[01]/.test(version)) {
    throw new ToolError(expected("OpenAPI document: openapi", "3.0 or 3.1", JSON.stringify(version) ?? "nothing"));
  }
  const all = new Map<string, () => Operation>();
  for (const [path, listed] of Object.entries(resolved(document, document["paths"], "OpenAPI document: paths"))) {
    const item = resolved(document, listed, path);
    for (const method of METHODS) {
      const operation = item[method];
      if (!isObject(operation)) continue;
      const { operationId: given } = operation;
      const id = typeof given === "string" ? given : `${method}${path}`.replace(/[^A-Za-z0-9]+/g, "_");
      all.set(id, () => read(document, { id, method, path, operation, shared: item["parameters"] }));
    }
  }
  return ids.map((id) => {
    const found = all.get(id);
    if (found === undefined) throw new ToolError(expected("OpenAPI operations", `some of ${[...all.keys()].join(", ")}`, id));
    return found();
  });
}

interface Found {
  readonly id: string;
  readonly method: string;
  readonly path: string;
  readonly operation: JsonObject;
  readonly shared: Json | undefined;
}

function read(document: JsonObject, { id, method, path, operation, shared }: Found): Operation {
  const where = `OpenAPI operation ${id}`;
  const list = (value: Json | undefined): readonly Json[] => (Array.isArray(value) ? (value as readonly Json[]) : []);
  const properties: Record<string, JsonObject> = {};
  const required: string[] = [];
  const parameters = new Map<string, Parameter>();
  // An operation's own parameter stands for one of its path's.
  for (const given of [...list(shared), ...list(operation["parameters"])]) {
    const item = resolved(document, given, `${where}: parameter`);
    const { name } = item;
    if (typeof name !== "string") throw new ToolError(expected(`${where}: parameter`, "a name", JSON.stringify(name) ?? "nothing"));
    if (item["in"] === "cookie") {
      if (item["required"] !== true) continue;
      throw new ToolError(expected(`${where}: parameter ${name}`, "one of path, query or header", "a cookie"));
    }
    const before = parameters.get(name);
    if (name === "body" || (before !== undefined && before.in !== item["in"]))
      throw new ToolError(expected(where, "one argument of each name", name));
    const schema = schemaOf(document, item["schema"], `${where}: parameter ${name}`);
    const explode = typeof item["explode"] === "boolean" ? item["explode"] : item["in"] === "query";
    if (item["content"] !== undefined || schema["type"] === "object" || (item["style"] ?? usual(item["in"])) !== usual(item["in"])) {
      throw new ToolError(expected(`${where}: parameter ${name}`, "plain values or lists of them, in the usual style", "another form"));
    }
    parameters.set(name, { name, in: item["in"] as Parameter["in"], explode });
    properties[name] = typeof item["description"] === "string" ? { ...schema, description: item["description"] } : schema;
    if (item["required"] === true && !required.includes(name)) required.push(name);
  }
  const hasBody = operation["requestBody"] !== undefined;
  if (hasBody) {
    const body = resolved(document, operation["requestBody"], `${where}: requestBody`);
    const content = resolved(document, body["content"], `${where}: requestBody`)["application/json"];
    if (!isObject(content)) throw new ToolError(expected(`${where}: requestBody`, "application/json", "another type"));
    properties["body"] = schemaOf(document, content["schema"], `${where}: body`);
    if (body["required"] === true) required.push("body");
  }
  const texts = [operation["summary"], operation["description"]].filter((text) => typeof text === "string");
  const description = texts.join(" ").trim() || `${method.toUpperCase()} ${path}`;
  const schema = { type: "object", properties, ...(required.length === 0 ? {} : { required }), additionalProperties: false };
  return { id, description, method: method.toUpperCase(), path, parameters: [...parameters.values()], hasBody, schema };
}

const usual = (place: Json | undefined): string => (place === "query" ? "form" : "simple");
