/** The derivative of a formula by one symbol, for answers that leave d/dx unevaluated. */
import { apply, integerOf, symbolsOf, type Expr } from "./expression.ts";
import { MathSyntaxError } from "./tokens.ts";

const multiply = (a: Expr, b: Expr): Expr => apply("Multiply", a, b);
const square = (a: Expr): Expr => apply("Power", a, integerOf(2));

/** f' as a function of u, for f(u). */
const OUTER: Readonly<Record<string, (u: Expr) => Expr>> = {
  Sin: (u) => apply("Cos", u),
  Cos: (u) => apply("Negate", apply("Sin", u)),
  Tan: (u) => apply("Divide", integerOf(1), square(apply("Cos", u))),
  Ln: (u) => apply("Divide", integerOf(1), u),
  Exp: (u) => apply("Exp", u),
  Sqrt: (u) => apply("Divide", integerOf(1), multiply(integerOf(2), apply("Sqrt", u))),
  Arctan: (u) => apply("Divide", integerOf(1), apply("Add", integerOf(1), square(u))),
  Arcsin: (u) => apply("Divide", integerOf(1), apply("Sqrt", apply("Subtract", integerOf(1), square(u)))),
  Sinh: (u) => apply("Cosh", u),
  Cosh: (u) => apply("Sinh", u),
};

export function derivative(expr: Expr, by: string): Expr {
  if (expr.kind === "symbol") return integerOf(expr.name === by ? 1 : 0);
  if (!symbolsOf(expr).has(by)) return integerOf(0);
  if (expr.kind !== "apply") throw new MathSyntaxError(`the derivative of a ${expr.kind}`);
  const [a, b] = expr.args as [Expr, Expr];
  const d = (part: Expr): Expr => derivative(part, by);
  switch (expr.head) {
    case "Add":
    case "Subtract":
      return apply(expr.head, d(a), d(b));
    case "Negate":
      return apply("Negate", d(a));
    case "Multiply":
      return apply("Add", multiply(d(a), b), multiply(a, d(b)));
    case "Divide":
      return apply("Divide", apply("Subtract", multiply(d(a), b), multiply(a, d(b))), square(b));
    case "Power":
      return powerRule(a, b, by);
    default: {
      const outer = Object.hasOwn(OUTER, expr.head) ? OUTER[expr.head] : undefined;
      if (outer === undefined) throw new MathSyntaxError(`the derivative of ${expr.head}`);
      return multiply(outer(a), d(a));
    }
  }
}

/** u^v: v u^(v-1) u' for constant v, else u^v (v' ln u + v u'/u). */
function powerRule(u: Expr, v: Expr, by: string): Expr {
  if (!symbolsOf(v).has(by)) {
    return multiply(multiply(v, apply("Power", u, apply("Subtract", v, integerOf(1)))), derivative(u, by));
  }
  const growth = multiply(derivative(v, by), apply("Ln", u));
  return multiply(apply("Power", u, v), apply("Add", growth, apply("Divide", multiply(v, derivative(u, by)), u)));
}
