/**
 * What the examiner reported, as a verdict. Positive evidence: a test has passed if its line says so under this run's number, every test
 * that was planned has such a line, and the report was finished. Exit codes and output are never read.
 */
import type { PairResult, SandboxLimits } from "../../../../compute/sandbox/sandbox.ts";
import { scored } from "../../../../errors.ts";
import { parseJsonStrict } from "../../../../json.ts";
import type { Json, JsonObject, Verdict } from "../../../../types.ts";
import { infrastructure, shown, unscorable } from "../verifier.ts";

interface TestResult {
  readonly id: string;
  readonly passed: boolean;
  readonly message: string;
}

interface Reported {
  readonly results: readonly TestResult[];
  /** Ids announced before the candidate's code was loaded; null where the framework finds its tests as it goes. */
  readonly plan: readonly string[] | null;
  readonly finished: boolean;
  readonly broken: string | null;
  readonly missing: string | null;
}

interface GradingRules {
  readonly nonce: string;
  readonly expected: number | null;
  readonly grade: "all" | "fraction";
  readonly limits: Pick<SandboxLimits, "wallSeconds">;
  readonly dropped: readonly string[];
}

export function verdictOf(pair: PairResult, rules: GradingRules): Verdict {
  const reported = read(pair.report, rules.nonce);
  if (reported.missing !== null)
    return infrastructure(`code: ${reported.missing} is not installed; apt-get install python3-${reported.missing}`);
  if (reported.broken !== null) return unscorable(`code: ${shown(reported.broken, 200)}`);
  const results = new Map<string, TestResult>();
  for (const result of reported.results) if (results.get(result.id)?.passed !== false) results.set(result.id, result);
  const ids = [...new Set([...(reported.plan ?? []), ...results.keys()])];
  // node:test says nothing at all where there is no test; it then ends by itself.
  const silent = pair.report === "" && pair.examiner.exit === 0;
  if ((reported.finished || silent) && ids.length === 0) return unscorable("code: the tests hold no test");
  const wanted = Math.max(ids.length, rules.expected ?? 0);
  const passed = ids.filter((id) => results.get(id)?.passed === true).length;
  const all = reported.finished && wanted > 0 && passed === wanted;
  const score = rules.grade === "all" || wanted === 0 ? Number(all) : passed / wanted;
  const note =
    rules.dropped.length === 0 ? "" : `; the answer tried to bring files of the tests, which were ignored: ${rules.dropped.join(", ")}`;
  return scored(score, explanation({ ids, results, wanted, passed, reported, pair, rules }) + note);
}

interface Told {
  readonly ids: readonly string[];
  readonly results: ReadonlyMap<string, TestResult>;
  readonly wanted: number;
  readonly passed: number;
  readonly reported: Reported;
  readonly pair: PairResult;
  readonly rules: GradingRules;
}

function explanation({ ids, results, wanted, passed, reported, pair, rules }: Told): string {
  const parts = [`${passed} of ${wanted} tests passed`];
  const failed = ids.filter((id) => results.get(id)?.passed === false);
  const first = failed[0] === undefined ? undefined : results.get(failed[0]);
  if (first !== undefined)
    parts.push(
      `failed: ${shown(first.id, 100)} (${shown(first.message, 200)})${failed.length > 1 ? ` and ${failed.length - 1} more` : ""}`,
    );
  const silent = ids.filter((id) => !results.has(id));
  if (silent.length > 0) parts.push(`not run: ${shown(silent[0]!, 100)}${silent.length > 1 ? ` and ${silent.length - 1} more` : ""}`);
  if (ids.length < wanted) parts.push(`${wanted} tests were expected, ${ids.length} were found`);
  if (!reported.finished) parts.push(unfinished(pair, rules));
  return parts.join("; ");
}

function unfinished({ examiner, candidate }: PairResult, { limits }: GradingRules): string {
  const killed = examiner.killedBy ?? candidate.killedBy;
  if (killed === "wall") return `the tests did not finish within ${limits.wallSeconds} s`;
  if (killed === "cpu") return "the processor time was used up";
  if (killed === "memory") return "the memory was used up";
  if (killed === "output") return "the output was a flood";
  return "the tests did not finish";
}

function read(report: string, nonce: string): Reported {
  const results: TestResult[] = [];
  let plan: string[] | null = null;
  let finished = false;
  let broken: string | null = null;
  let missing: string | null = null;
  for (const line of report.split("\n")) {
    const event = eventOf(line);
    if (event === null || event["nonce"] !== nonce) continue;
    if (event["event"] === "plan") plan = [...(plan ?? []), ...texts(event["ids"])];
    if (event["event"] === "test" && event["suite"] !== true) {
      results.push({ id: textOf(event["id"]), passed: event["passed"] === true, message: textOf(event["message"]) });
    }
    if (event["event"] === "test" && event["suite"] === true && event["passed"] !== true) {
      results.push({ id: textOf(event["id"]), passed: false, message: textOf(event["message"]) });
    }
    if (event["event"] === "end") finished = true;
    if (event["event"] === "broken") broken = textOf(event["message"]);
    if (event["event"] === "missing") missing = textOf(event["what"]);
  }
  return { results, plan, finished, broken, missing };
}

function eventOf(line: string): JsonObject | null {
  if (line === "") return null;
  try {
    const value = parseJsonStrict(line);
    return value !== null && typeof value === "object" && !Array.isArray(value) ? (value as JsonObject) : null;
  } catch {
    return null;
  }
}

function textOf(value: Json | undefined): string {
  return typeof value === "string" ? value : "";
}

function texts(value: Json | undefined): string[] {
  return Array.isArray(value) ? value.map(textOf) : [];
}
