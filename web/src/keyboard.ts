import type { Command } from "./wire";
import { dialog, newWatchpoint, openDialog } from "./panels/dialogs";
import { selectNext } from "./panels/listKeys";
import { SEARCH_ID } from "./panels/NodeList";
import { continueTraining } from "./panels/Presets";
import { isMenuKey, openMenuBeside } from "./state/nodeMenu";
import { stepsToRun } from "./state/preferences";
import {
  command,
  go,
  opScope,
  place,
  rank,
  run,
  selectOp,
  tickedPatterns,
  toggleTick,
} from "./state/store";
import { scopeOf } from "./state/ticks";

/** Keys of the whole page; fields, lists and dialogs keep their own. */
export function listenToKeys(): void {
  window.addEventListener("keydown", (event) => {
    const isPalette = (event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k";
    if (isPalette && dialog.value === null) {
      event.preventDefault();
      openDialog({ kind: "palette" });
      return;
    }
    if (
      event.ctrlKey ||
      event.metaKey ||
      event.altKey ||
      dialog.value !== null ||
      isField(event.target)
    )
      return;
    if (event.key === " " && isPressed(event.target)) return;
    const act = isMenuKey(event) ? showMenu : actionOf(event.key);
    if (act === null) return;
    event.preventDefault();
    act();
  });
  noteFocus();
}

function isField(target: EventTarget | null): boolean {
  if (target instanceof HTMLInputElement)
    return target.type !== "checkbox" && target.type !== "radio";
  return target instanceof HTMLTextAreaElement || target instanceof HTMLSelectElement;
}

/** The element that got the focus by a click, and so does not need the keyboard. */
let touched: EventTarget | null = null;

function noteFocus(): void {
  let isByPointer = false;
  window.addEventListener("pointerdown", () => (isByPointer = true), true);
  window.addEventListener("keydown", () => (isByPointer = false), true);
  window.addEventListener("focusin", (event) => (touched = isByPointer ? event.target : null));
  // After a choice made with the pointer, keys belong to the page again.
  window.addEventListener("change", ({ target }) => {
    const isChoice =
      target instanceof HTMLSelectElement ||
      (target instanceof HTMLInputElement && target.type === "range");
    if (isChoice && target === touched && target.closest("dialog") === null) target.blur();
  });
}

/**
 * Whether the space bar belongs to the focused button or tick box, because the keyboard focused it.
 */
function isPressed(target: EventTarget | null): boolean {
  if (target === touched) return false;
  return (
    target instanceof HTMLButtonElement ||
    target instanceof HTMLInputElement ||
    target instanceof HTMLAnchorElement
  );
}

function showMenu(): void {
  if (place.value.op !== "") openMenuBeside(place.value.op, true);
}

function actionOf(key: string): (() => void) | null {
  switch (key) {
    case " ":
    case "F8":
      return () => send("continue");
    case "n":
      return () => send("next");
    case "s":
      return () => send("step");
    case "o":
      return () => {
        if (place.value.op !== "") send("to", place.value.op);
      };
    case "x":
      return () => {
        if (can("terminate")) openDialog({ kind: "terminate" });
      };
    case "/":
      return () => document.getElementById(SEARCH_ID)?.focus();
    case "?":
      return () => openDialog({ kind: "help" });
    case "w":
      return () => newWatchpoint(tickedPatterns.value);
    case "v":
      return () => {
        const { op } = place.value;
        if (op !== "") toggleTick(op, opScope.value === "" ? scopeOf(op) : opScope.value);
      };
    case "c":
      return () => {
        const op = rank.value?.op;
        if (op != null) selectOp(op);
      };
    case "m":
      return run.value?.peer == null ? null : () => go({ tab: "compare" });
    case "e":
      return () => go({ tab: "health" });
    case "g":
      return () => go({ tab: "graph" });
    case "t":
      return () => go({ tab: "tensor" });
    case "l":
      return () => go({ tab: "loss" });
    case "r":
      return (run.value?.ranks.length ?? 0) < 2 ? null : () => go({ tab: "ranks" });
    case "i":
      return () => go({ tab: "run" });
    case "h":
      return () => go({ side: "hits" });
    case "p":
      return () => go({ side: "watchpoints" });
    case "j":
      return () => selectNext.value?.(1);
    case "k":
      return () => selectNext.value?.(-1);
    default:
      return null;
  }
}

function can(name: Command): boolean {
  return run.value?.controls.includes(name) === true;
}

function send(wanted: Command, op = ""): void {
  const name = wanted === "continue" && rank.value?.state === "running" ? "pause" : wanted;
  if (!can(name)) return;
  if (name === "continue") continueTraining();
  else command({ command: name, op, steps: name === "step" ? stepsToRun.value : 1 });
}
