import type { Command } from "./wire";
import { dialog, newWatchpoint } from "./panels/dialogs";
import { SEARCH_ID } from "./panels/NodeList";
import { tickedPaths } from "./state/preferences";
import { command, go, place, rank, run, selectOp } from "./state/store";

/** Keys of the whole page; fields, lists and dialogs keep their own. */
export function listenToKeys(): void {
  window.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || dialog.value !== null || isField(event.target)) return;
    if (event.key === " " && event.target instanceof HTMLButtonElement) return;
    const act = actionOf(event.key);
    if (act === null) return;
    event.preventDefault();
    act();
  });
}

function isField(target: EventTarget | null): boolean {
  if (target instanceof HTMLInputElement) return target.type !== "checkbox" && target.type !== "radio";
  return target instanceof HTMLTextAreaElement || target instanceof HTMLSelectElement;
}

function actionOf(key: string): (() => void) | null {
  switch (key) {
    case " ":
    case "F8":
      return () => send(rank.value?.state === "running" ? "pause" : "continue");
    case "n":
      return () => send("next");
    case "s":
      return () => send("step");
    case "o":
      return () => {
        if (place.value.op !== "") send("to", place.value.op);
      };
    case "/":
      return () => document.getElementById(SEARCH_ID)?.focus();
    case "?":
      return () => (dialog.value = { kind: "help" });
    case "w":
      return () => newWatchpoint(tickedPaths.value);
    case "c":
      return () => {
        const op = rank.value?.op;
        if (op != null) selectOp(op);
      };
    case "m":
      return run.value?.peer == null ? null : () => go({ tab: "compare" });
    case "g":
      return () => go({ tab: "graph" });
    case "t":
      return () => go({ tab: "tensor" });
    case "l":
      return () => go({ tab: "loss" });
    case "i":
      return () => go({ tab: "run" });
    case "h":
      return () => go({ side: "hits" });
    case "p":
      return () => go({ side: "watchpoints" });
    case "j":
      return () => moveInList(1);
    case "k":
      return () => moveInList(-1);
    default:
      return null;
  }
}

function send(name: Command, op = ""): void {
  if (run.value?.controls.includes(name) === true) command({ command: name, op });
}

/** Selects the op after or before the selected one, of those the list has on the screen. */
function moveInList(by: 1 | -1): void {
  const lines = [...document.querySelectorAll<HTMLElement>(".node-list .line")].sort(
    (a, b) => a.getBoundingClientRect().top - b.getBoundingClientRect().top,
  );
  // The place is ahead of the screen when keys come fast.
  const at = lines.findIndex((line) => line.dataset["path"] === place.value.op);
  const start = at === -1 && by === -1 ? lines.length : at;
  for (let next = start + by; next >= 0 && next < lines.length; next += by) {
    const line = lines[next];
    if (line !== undefined && line.getAttribute("aria-expanded") === null) {
      line.click();
      return;
    }
  }
}
