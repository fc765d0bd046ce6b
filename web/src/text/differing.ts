import { moduleName, readParts } from "./names";

/** The parts of a scope that say where it is; the phase stands elsewhere. */
function partsOf(scope: string): string[] {
  const parts = readParts(scope);
  return parts[0] === "Forward" || parts[0] === "Backward" ? parts.slice(1) : parts;
}

/** The parts that all of these scopes have. */
export function commonParts(scopes: readonly string[]): ReadonlySet<string> {
  const [first, ...rest] = scopes.map((scope) => new Set(partsOf(scope)));
  if (first === undefined || rest.length === 0) return new Set();
  return new Set([...first].filter((part) => rest.every((each) => each.has(part))));
}

/**
 * A scope from the first part on that not all results have: `20-Block › mlp › 1-GELU`. The whole
 * scope if nothing distinguishes it.
 */
export function differingPart(scope: string, common: ReadonlySet<string>): string {
  const parts = partsOf(scope);
  const first = parts.findIndex((part) => !common.has(part));
  return parts.slice(Math.max(first, 0)).map(moduleName).join(" › ");
}
