import type { SummaryLog } from "../../wire";

/** A tag, and the logs that have it. */
export interface TaggedLogs {
  readonly tag: string;
  readonly logs: readonly SummaryLog[];
}

/** Tags with a common first part, as `train` of `train/loss`; empty for tags of one part. */
export interface TagGroup {
  readonly name: string;
  readonly tags: readonly TaggedLogs[];
}

export type TagKind = "scalars" | "histograms" | "images";

/** The tags of some logs that contain `text`, by group. */
export function tagGroups(
  logs: readonly SummaryLog[],
  kind: TagKind,
  text: string,
): readonly TagGroup[] {
  const found = new Map<string, SummaryLog[]>();
  for (const log of logs) {
    for (const tag of log[kind]) {
      if (!tag.toLowerCase().includes(text.toLowerCase())) continue;
      found.set(tag, [...(found.get(tag) ?? []), log]);
    }
  }
  const groups = new Map<string, TaggedLogs[]>();
  for (const [tag, having] of [...found].sort(([a], [b]) => a.localeCompare(b))) {
    const name = tag.includes("/") ? (tag.split("/")[0] ?? "") : "";
    groups.set(name, [...(groups.get(name) ?? []), { tag, logs: having }]);
  }
  return [...groups].map(([name, tags]) => ({ name, tags }));
}

/** The names of all facts of some logs, and for each the value in every log. */
export function lineageRows(
  logs: readonly SummaryLog[],
): readonly { readonly name: string; readonly values: readonly string[] }[] {
  const tables = logs.map((log) => new Map(log.lineage.map(({ name, value }) => [name, value])));
  const names = [...new Set(tables.flatMap((table) => [...table.keys()]))];
  return names.map((name) => ({ name, values: tables.map((table) => table.get(name) ?? "") }));
}
