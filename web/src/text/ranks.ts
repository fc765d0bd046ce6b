/** `0–3, 7`: consecutive numbers as ranges. */
export function rangesText(numbers: readonly number[]): string {
  const sorted = [...numbers].sort((one, other) => one - other);
  const parts: string[] = [];
  let start = 0;
  sorted.forEach((value, at) => {
    if (sorted[at + 1] === value + 1) return;
    const first = sorted[start] ?? value;
    parts.push(first === value ? String(value) : `${first}–${value}`);
    start = at + 1;
  });
  return parts.join(", ");
}

/** `rank 2`, `ranks 0–3, 7`. */
export function ranksText(numbers: readonly number[]): string {
  return `rank${numbers.length === 1 ? "" : "s"} ${rangesText(numbers)}`;
}

/** The kind of a finding or check in words: `gradients-not-exchanged` as it is said. */
export function checkText(kind: string): string {
  return kind.replaceAll("-", " ");
}
