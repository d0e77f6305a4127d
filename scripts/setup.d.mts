interface Lock {
  readonly packages: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
}
export const root: string;
export function nodeProblem(version: string, minimum: string): string | null;
export function lockMismatch(lock: Lock, installed: Lock): string | null;
export function setUp(options?: { readonly force?: boolean }): boolean;
export function runNode(script: string, args: readonly string[]): Promise<number>;
export function runCommand(name: string): Promise<void>;
