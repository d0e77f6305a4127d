/**
 * Citations against the sources that were given: a quotation must stand in a source word by word, a number such as [2] must be a
 * source's. The score is the share of citations that are found; an answer that cites nothing earns nothing.
 */
import { RewardError, expected, scored } from "../../../errors.ts";
import type { Json, JsonObject } from "../../../types.ts";
import { shown, unscorable, verifierOf, type Verifier } from "./verifier.ts";

export interface CitationsOptions {
  /** Words that a quotation must have to count; shorter ones are names and scare quotes. Default 4. */
  readonly minWords?: number;
  /** Citations that an answer needs for the full score; fewer earn in proportion. Default 1. */
  readonly least?: number;
  /** "fraction" (default), or "all": 1 if every citation is found, else 0. */
  readonly credit?: "fraction" | "all";
}

interface Source {
  readonly id: string;
  readonly text: string;
}

const MAX_CITATIONS = 200;
const MAX_LENGTH = 200_000;
/** Pairs of quotation marks, at most 2,000 characters apart; "…" between is not allowed to join two passages. */
const QUOTATION = /"([^"]{1,2000})"|“([^”]{1,2000})”|«([^»]{1,2000})»/g;
const NUMBERED = /\[((?:[\p{L}\p{N}_.-]{1,40})(?:\s*[,;]\s*[\p{L}\p{N}_.-]{1,40}){0,9})\](?!\()/gu;

/**
 * Gold: the sources, as a list of texts (numbered from 1), of { id, text }, or { sources: [...] }. A quotation that a number follows
 * must stand in that source; the pair is one citation.
 */
export function citations({ minWords = 4, least = 1, credit = "fraction" }: CitationsOptions = {}): Verifier {
  for (const [name, value] of Object.entries({ minWords, least })) {
    if (!Number.isInteger(value) || value < 1)
      throw new RewardError(expected(`citations verifier: ${name}`, "an integer above 0", String(value)));
  }
  if (credit !== "fraction" && credit !== "all") {
    throw new RewardError(expected("citations verifier: credit", '"fraction" or "all"', String(credit)));
  }
  return verifierOf("citations", ({ answer, gold }) => {
    const sources = sourcesOf(gold);
    if (sources === null) return unscorable("the gold is no list of sources");
    if (answer.length > MAX_LENGTH) return scored(0, `the answer has more than ${MAX_LENGTH} characters`);
    const cited = citationsIn(answer, minWords);
    if (cited.length === 0) return scored(0, "the answer cites nothing", { found: 0, cited: 0 });
    const plain = sources.map(({ id, text }) => ({ id, text: plainText(text) }));
    const missing = cited.filter((citation) => !isFound(citation, plain));
    const found = cited.length - missing.length;
    const share = (found / cited.length) * Math.min(1, cited.length / least);
    const why =
      missing.length === 0
        ? `all ${found} citations are found`
        : `${found} of ${cited.length} citations are found; not ${labelOf(missing[0]!)}`;
    return scored(credit === "fraction" ? share : share === 1 ? 1 : 0, why, { found, cited: cited.length });
  });
}

interface Citation {
  readonly quotation: string | null;
  readonly ids: readonly string[];
}

function labelOf({ quotation, ids }: Citation): string {
  return quotation === null ? `[${ids.join(", ")}]` : `"${shown(quotation, 60)}"`;
}

function sourcesOf(gold: Json): readonly Source[] | null {
  const list = isObject(gold) ? (gold["sources"] ?? null) : gold;
  if (!Array.isArray(list) || list.length === 0) return null;
  const sources = (list as readonly Json[]).map((each, i): Source | null => {
    if (typeof each === "string") return { id: String(i + 1), text: each };
    if (!isObject(each) || typeof each["text"] !== "string") return null;
    const id = each["id"] ?? i + 1;
    return typeof id === "string" || typeof id === "number" ? { id: String(id), text: each["text"] } : null;
  });
  return sources.every((source) => source !== null) ? sources : null;
}

function isObject(value: Json): value is JsonObject {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}

function citationsIn(answer: string, minWords: number): Citation[] {
  const numbered = [...answer.matchAll(NUMBERED)].slice(0, MAX_CITATIONS).map((match) => ({
    start: match.index,
    ids: match[1]!.split(/[,;]/).map((id) => id.trim()),
  }));
  const used = new Set<number>();
  const cited: Citation[] = [];
  for (const match of [...answer.matchAll(QUOTATION)].slice(0, MAX_CITATIONS)) {
    const quotation = match[1] ?? match[2] ?? match[3]!;
    if (
      plainText(quotation)
        .split(" ")
        .filter((word) => word !== "").length < minWords
    )
      continue;
    const end = match.index + match[0].length;
    const behind = numbered.find(({ start }) => start >= end && start - end <= 3 && answer.slice(end, start).trim().length <= 1);
    if (behind !== undefined) used.add(behind.start);
    cited.push({ quotation, ids: behind?.ids ?? [] });
  }
  for (const { start, ids } of numbered) if (!used.has(start)) cited.push({ quotation: null, ids });
  return cited;
}

function isFound({ quotation, ids }: Citation, sources: readonly Source[]): boolean {
  const named = ids.map((id) => sources.find((source) => source.id === id));
  if (named.some((source) => source === undefined)) return false;
  if (quotation === null) return true;
  const within = named.length > 0 ? (named as Source[]) : sources;
  const wanted = ` ${plainText(quotation)} `;
  return within.some(({ text }) => ` ${text} `.includes(wanted));
}

/** Words alone: letters and digits of any script, lower case, one space between. */
function plainText(text: string): string {
  return text
    .normalize("NFKC")
    .toLowerCase()
    .replace(/[^\p{L}\p{N}]+/gu, " ")
    .trim();
}
