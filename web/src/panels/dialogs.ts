import { signal } from "@preact/signals";
import type { WatchpointDraft } from "../wire";

/** A draft with everything said, as the form needs it. */
export type Draft = Required<WatchpointDraft>;

/** The dialog that is open. */
export type OpenDialog =
  | { readonly kind: "help" }
  | { readonly kind: "watchpoint"; readonly id: number | null; readonly draft: Draft };

export const dialog = signal<OpenDialog | null>(null);

export const EMPTY_DRAFT: Draft = {
  name: "",
  conditions: [{ id: "tensor_overflow", parameters: {}, expression: "" }],
  ops: [],
  join: "any",
  enabled: true,
  break_after: 1,
  ranks: [],
};

export function newWatchpoint(ops: readonly string[]): void {
  dialog.value = { kind: "watchpoint", id: null, draft: { ...EMPTY_DRAFT, ops } };
}
