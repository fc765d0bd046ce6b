import { stored } from "../state/preferences";
import type { WatchpointDraft } from "../wire";

/** A draft with everything said, as the form needs it. */
export type Draft = Required<WatchpointDraft>;

/** The dialog that is open. */
export type OpenDialog =
  | { readonly kind: "help" }
  | { readonly kind: "watchpoint"; readonly id: number | null; readonly draft: Draft };

function isOpenDialog(value: unknown): value is OpenDialog | null {
  if (value === null) return true;
  if (typeof value !== "object" || !("kind" in value)) return false;
  if (value.kind === "help") return true;
  return value.kind === "watchpoint" && "draft" in value && "id" in value;
}

/** Kept in the tab, with what was typed, so that a reload loses nothing. */
export const dialog = stored<OpenDialog | null>(sessionStorage, "sonde.dialog", null, isOpenDialog);

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
