/** Removes the indentation that all non-empty lines have in common. */
export function outdented(lines: readonly string[]): readonly string[] {
  const told = lines.filter((line) => line.trim() !== "");
  const common = told
    .map(indentOf)
    .reduce((least, each) => sharedStart(least, each), indentOf(told[0] ?? ""));
  return lines.map((line) =>
    line.startsWith(common) ? line.slice(common.length) : line.trimStart(),
  );
}

/** The white space a line begins with. */
export function indentOf(line: string): string {
  return /^\s*/.exec(line)?.[0] ?? "";
}

function sharedStart(one: string, other: string): string {
  let length = 0;
  while (length < one.length && one[length] === other[length]) length += 1;
  return one.slice(0, length);
}
