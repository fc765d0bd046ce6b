import type { ReadonlySignal } from "@preact/signals";
import { stored } from "../state/preferences";
import type { WatchpointDraft } from "../wire";

/** A draft without optional parts, as the form needs it. */
export type Draft = Required<WatchpointDraft>;

/** The dialog that is open. */
export type OpenDialog =
  | { readonly kind: "help" }
  | { readonly kind: "palette" }
  | { readonly kind: "rule"; readonly rule: string }
  | { readonly kind: "terminate" }
  | { readonly kind: "unwatched" }
  | {
      readonly kind: "watchpoint";
      readonly id: number | null;
      readonly draft: Draft;
      readonly isForAll: boolean;
    };

function isOpenDialog(value: unknown): value is OpenDialog | null {
  if (value === null) return true;
  if (typeof value !== "object" || !("kind" in value)) return false;
  if (value.kind === "palette") return true;
  if (value.kind === "help" || value.kind === "terminate" || value.kind === "unwatched")
    return true;
  if (value.kind === "rule") return "rule" in value && typeof value.rule === "string";
  return value.kind === "watchpoint" && "draft" in value && "id" in value && "isForAll" in value;
}

// Stored in the tab with the typed text, so that a reload loses nothing.
const open = stored<OpenDialog | null>(sessionStorage, "sonde.dialog", null, isOpenDialog);
export const dialog: ReadonlySignal<OpenDialog | null> = open;

export function openDialog(wanted: OpenDialog): void {
  open.set(wanted);
}

export function closeDialog(): void {
  open.set(null);
}

export const EMPTY_DRAFT: Draft = {
  name: "",
  conditions: [{ id: "tensor_overflow", parameters: {}, expression: "" }],
  ops: [],
  join: "any",
  enabled: true,
  break_after: 1,
  ranks: [],
};

/** The watchpoint form; `id` null makes a new one. */
export function openWatchpoint(id: number | null, draft: Draft): void {
  openDialog({ kind: "watchpoint", id, draft, isForAll: draft.ops.length === 0 });
}

export function newWatchpoint(ops: readonly string[]): void {
  openWatchpoint(null, { ...EMPTY_DRAFT, ops });
}
