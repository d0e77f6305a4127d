/**
 * SymPy as a second engine, where this machine's Python has it: it proves identities that numbers only suggest. One process a question,
 * with limits of time and memory; the formulas arrive as data and are never evaluated as Python.
 */
import { execFile } from "node:child_process";
import { RewardError } from "../../../../errors.ts";
import type { Formula, SecondEngine } from "./second.ts";

interface SympyOptions {
  /** A Python that can import sympy. */
  readonly python?: string;
  readonly seconds?: number;
}

const MEMORY_MB = 1024;
const PROGRAM = `
import json, resource, sys
seconds, gold, answer = json.loads(sys.stdin.read())
resource.setrlimit(resource.RLIMIT_AS, (${MEMORY_MB} << 20, ${MEMORY_MB} << 20))
resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 2))
import sympy as s
table = {"Add": s.Add, "Multiply": s.Mul, "Power": s.Pow, "Sqrt": s.sqrt, "Sin": s.sin, "Cos": s.cos, "Tan": s.tan, "Cot": s.cot,
  "Sec": s.sec, "Csc": s.csc, "Arcsin": s.asin, "Arccos": s.acos, "Arctan": s.atan, "Sinh": s.sinh, "Cosh": s.cosh, "Tanh": s.tanh,
  "Ln": s.log, "Exp": s.exp, "Abs": s.Abs, "Floor": s.floor, "Ceil": s.ceiling, "Factorial": s.factorial, "Binomial": s.binomial,
  "Log": s.log, "Max": s.Max, "Min": s.Min, "GCD": s.gcd, "LCM": s.lcm, "Mod": s.Mod,
  "Subtract": lambda a, b: a - b, "Divide": lambda a, b: a / b, "Negate": lambda a: -a, "Root": lambda a, n: a ** (1 / n)}
names = {"Pi": s.pi, "ExponentialE": s.E, "ImaginaryUnit": s.I, "PositiveInfinity": s.oo}
def build(node):
  if isinstance(node, dict): return s.Rational(node["num"])
  if isinstance(node, (int, float)): return s.Rational(str(node))
  if isinstance(node, str): return names.get(node) or s.Symbol(node, real=True)
  head, args = node[0], node[1:]
  if head in ("Sum", "Product"):
    low, high = build(args[1][2]), build(args[1][3])
    index = s.Symbol(args[1][1], real=True)
    return (s.summation if head == "Sum" else s.product)(build(args[0]), (index, low, high))
  return table[head](*[build(arg) for arg in args])
try:
  difference = s.simplify(build(gold) - build(answer))
  verdict = True if difference == 0 else difference.equals(0)
  print("yes" if verdict is True else "no" if verdict is False else "open")
except Exception:
  print("open")
`;

/** Throws a `RewardError` while grading if that Python has no SymPy. */
export function sympy({ python = "/usr/bin/python3", seconds = 10 }: SympyOptions = {}): SecondEngine {
  return {
    name: "SymPy",
    async equal(gold: Formula, answer: Formula, signal?: AbortSignal) {
      if (gold.mathJson === null || answer.mathJson === null) return null;
      const said = await run(python, JSON.stringify([seconds, gold.mathJson, answer.mathJson]), { seconds, signal });
      return said === "yes" ? true : said === "no" ? false : null;
    },
  };
}

function run(
  python: string,
  input: string,
  limits: { readonly seconds: number; readonly signal: AbortSignal | undefined },
): Promise<string> {
  const { seconds, signal } = limits;
  return new Promise((resolve, reject) => {
    const options = {
      timeout: seconds * 1000,
      killSignal: "SIGKILL",
      env: {},
      maxBuffer: 4096,
      ...(signal === undefined ? {} : { signal }),
    } as const;
    const child = execFile(python, ["-c", PROGRAM], options, (error, stdout, stderr) => {
      const missing = error !== null && (("code" in error && error.code === "ENOENT") || stderr.includes("ModuleNotFoundError"));
      if (signal?.aborted === true) reject(signal.reason as Error);
      else if (missing) reject(new RewardError(`math verifier: ${python} has no SymPy; install it with: pip install sympy`));
      else resolve(stdout.trim());
    });
    child.stdin?.on("error", () => undefined);
    child.stdin?.end(input);
  });
}
