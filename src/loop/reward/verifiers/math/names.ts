/** Names that begin a factor of a formula. */

export const FUNCTIONS: Readonly<Record<string, string>> = {
  sin: "Sin",
  cos: "Cos",
  tan: "Tan",
  cot: "Cot",
  sec: "Sec",
  csc: "Csc",
  arcsin: "Arcsin",
  arccos: "Arccos",
  arctan: "Arctan",
  sinh: "Sinh",
  cosh: "Cosh",
  tanh: "Tanh",
  ln: "Ln",
  exp: "Exp",
  abs: "Abs",
  floor: "Floor",
  ceil: "Ceil",
  cbrt: "Cbrt",
  gcd: "GCD",
  lcm: "LCM",
  max: "Max",
  min: "Min",
  log: "Log",
};
export const INVERSES: Readonly<Record<string, string>> = { Sin: "Arcsin", Cos: "Arccos", Tan: "Arctan" };
export const GREEK: ReadonlySet<string> = new Set(
  (
    "alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta iota kappa lambda mu nu xi rho sigma tau phi varphi chi psi omega " +
    "Gamma Delta Theta Lambda Xi Sigma Phi Psi Omega ell hbar partial"
  ).split(" "),
);
export const OPENERS: ReadonlySet<string> = new Set([
  "frac",
  "sqrt",
  "binom",
  "pi",
  "infty",
  "lfloor",
  "lceil",
  "langle",
  "{",
  "emptyset",
  "sum",
  "prod",
]);
