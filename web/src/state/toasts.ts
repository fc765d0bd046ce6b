import { signal, type ReadonlySignal } from "@preact/signals";
import { ApiError } from "../load/api";

export interface Toast {
  readonly id: number;
  readonly kind: "error" | "note";
  readonly text: string;
  readonly slug: string;
  /** A button in the toast. */
  readonly action: ToastAction | null;
}

export interface ToastAction {
  readonly text: string;
  readonly act: () => void;
}

const STAYS_MILLISECONDS = 5000;
/** Notes with a button stay longer: the user may want to press it. */
const WITH_ACTION_MILLISECONDS = 9000;
const MOST = 3;

const shown = signal<readonly Toast[]>([]);
export const toasts: ReadonlySignal<readonly Toast[]> = shown;
let last = 0;

/** Shows a note for some seconds, an error until the user dismisses it. */
export function toast(
  text: string,
  kind: Toast["kind"] = "note",
  slug = "",
  action: ToastAction | null = null,
): void {
  const same = toasts.value.find((each) => each.text === text);
  if (same !== undefined) return;
  last += 1;
  const id = last;
  // A new note replaces the one before; errors stay beside it.
  const others = toasts.value.filter((each) => kind === "error" || each.kind === "error");
  shown.value = [...others.slice(1 - MOST), { id, kind, text, slug, action }];
  const stays = action === null ? STAYS_MILLISECONDS : WITH_ACTION_MILLISECONDS;
  if (kind === "note") setTimeout(() => dismiss(id), stays);
}

export function dismiss(id: number): void {
  shown.value = toasts.value.filter((each) => each.id !== id);
}

export function isAborted(error: unknown): boolean {
  return error instanceof DOMException && error.name === "AbortError";
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** Runs an action of the user, and shows its error if it fails. */
export async function attempt(work: () => Promise<unknown>): Promise<boolean> {
  try {
    await work();
    return true;
  } catch (error) {
    if (!isAborted(error))
      toast(messageOf(error), "error", error instanceof ApiError ? error.slug : "");
    return false;
  }
}
