import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { api } from "../load/api";
import { Icon, type IconName } from "../parts/Icon";
import { closeNodeMenu, nodeMenu, type NodeMenu as Menu } from "../state/nodeMenu";
import { stepsToKeep } from "../state/preferences";
import { command, isOver, openTensor, place, rank, run } from "../state/store";
import { attempt, toast } from "../state/toasts";
import { SAME } from "../tensor/CompareChoice";
import { previousStep } from "../tensor/previousStep";
import { lastPart } from "../text/names";
import { counted } from "../text/numbers";
import { newWatchpoint } from "./dialogs";

interface Action {
  readonly icon: IconName;
  readonly text: string;
  readonly title?: string;
  /** Null: it cannot be done now. */
  readonly act: (() => void) | null;
}

/** The menu of a node: what can be done with it. */
export function NodeMenu(): JSX.Element | null {
  const open = nodeMenu.value;
  return open === null ? null : <OpenMenu key={`${open.path} ${open.x} ${open.y}`} open={open} />;
}

function OpenMenu({ open }: { open: Menu }): JSX.Element {
  const element = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const menu = element.current;
    if (menu === null) return;
    const { width, height } = menu.getBoundingClientRect();
    menu.style.left = `${Math.max(4, Math.min(open.x, window.innerWidth - width - 4))}px`;
    menu.style.top = `${Math.max(4, Math.min(open.y, window.innerHeight - height - 4))}px`;
    items(menu)[0]?.focus();
  }, []);
  useEffect(() => {
    const leave = (event: Event): void => {
      if (!(event.target instanceof Node && element.current?.contains(event.target) === true))
        closeNodeMenu();
    };
    window.addEventListener("pointerdown", leave, true);
    window.addEventListener("wheel", leave, true);
    window.addEventListener("resize", closeNodeMenu);
    return () => {
      window.removeEventListener("pointerdown", leave, true);
      window.removeEventListener("wheel", leave, true);
      window.removeEventListener("resize", closeNodeMenu);
    };
  }, []);
  return (
    <div
      ref={element}
      class="node-menu"
      role="menu"
      aria-label={`Actions of ${lastPart(open.path)}`}
      onKeyDown={(event) => pressed(event, element.current)}
      onContextMenu={(event) => event.preventDefault()}
    >
      <p class="node-menu-name" title={open.path}>
        {lastPart(open.path)}
      </p>
      {actionsOf(open).map(({ icon, text, title, act }) => (
        <button
          key={text}
          type="button"
          role="menuitem"
          tabIndex={-1}
          title={title}
          disabled={act === null}
          onClick={() => {
            closeNodeMenu();
            act?.();
          }}
        >
          <Icon name={icon} /> {text}
        </button>
      ))}
    </div>
  );
}

function items(menu: HTMLElement | null): HTMLButtonElement[] {
  return [...(menu?.querySelectorAll<HTMLButtonElement>("button:not(:disabled)") ?? [])];
}

function pressed(event: KeyboardEvent, menu: HTMLElement | null): void {
  event.stopPropagation();
  const all = items(menu);
  const at = all.findIndex((each) => each === document.activeElement);
  const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: -1 }[event.key];
  if (to !== undefined) {
    event.preventDefault();
    all.at(to % all.length)?.focus();
  } else if (event.key === "Escape" || event.key === "Tab") {
    event.preventDefault();
    closeNodeMenu();
  }
}

function actionsOf({ path, isOp }: Menu): readonly Action[] {
  const current = run.value;
  const isScope = path.endsWith("/");
  const canRunTo = current?.controls.includes("to") === true && (isOp || isScope);
  const actions: Action[] = [];
  if (current?.kind === "live")
    actions.push({
      icon: "to",
      text: "Continue to",
      title: "Run until this op has run, or the first op of this scope (o)",
      act: canRunTo ? () => command({ command: "to", op: path }) : null,
    });
  if (!isScope)
    actions.push(
      {
        icon: "grid",
        text: "View the tensor",
        act: () => openTensor({ op: path, io: "output", slot: 0, step: place.value.step }),
      },
      {
        icon: "step",
        text: "Compare with previous step",
        act: isOver.value ? null : () => void attempt(() => comparePrevious(path)),
      },
    );
  actions.push({
    icon: "eye",
    text: "Watch…",
    title: "New watchpoint on this node (w)",
    act: isOver.value ? null : () => newWatchpoint([path]),
  });
  if (current?.kind === "live" && !isScope)
    actions.push({
      icon: "plus",
      text: "Keep values",
      act: isOver.value ? null : () => void attempt(() => keep(current.id, path)),
    });
  actions.push({
    icon: "copy",
    text: "Copy name",
    act: () =>
      void attempt(() => navigator.clipboard.writeText(path).then(() => toast("Name copied"))),
  });
  return actions;
}

async function keep(id: string, path: string): Promise<void> {
  const steps = stepsToKeep.value;
  await api.keep(id, [path], steps);
  toast(`From now on the values of the last ${counted(steps, "step")} are kept`);
}

/** Shows the output of a node beside its value in the step before. */
async function comparePrevious(op: string): Promise<void> {
  const [current, number] = [run.value, rank.value?.rank];
  if (current === null || number === undefined) return;
  const at = { run: current.id, rank: number, name: op, step: place.value.step };
  const found = await api.opTensors(at, new AbortController().signal);
  const output = found.tensors.find((each) => each.io === "output" && each.slot === 0);
  const step = previousStep(output?.steps ?? [], place.value.step, current.kind === "live");
  if (step === null) {
    toast("There is no previous step yet");
    return;
  }
  openTensor({
    op,
    io: "output",
    slot: 0,
    step: place.value.step,
    against: { ...SAME, step },
  });
}
