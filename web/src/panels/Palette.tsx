import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { Dialog } from "../parts/Dialog";
import { Highlighted } from "../parts/Highlighted";
import { graphAt, shownGraphAt } from "../state/store";
import { isAborted } from "../state/toasts";
import { closeDialog } from "./dialogs";
import { foundHere, foundInGraph, type Choice } from "./paletteChoices";

const WAIT_MILLISECONDS = 120;

/** Finds anything by typing a few words: ops, modules, parameters, lines, steps, runs, actions. */
export function Palette(): JSX.Element {
  const typed = useSignal("");
  const fromServer = useSignal<readonly Choice[]>([]);
  const at = useSignal(0);
  const list = useRef<HTMLUListElement>(null);
  const query = typed.value.trim();
  useEffect(() => {
    const [graph, shown] = [graphAt.value, shownGraphAt.value];
    fromServer.value = [];
    if (query === "" || graph === null || shown === null) return undefined;
    const abort = new AbortController();
    const waiting = window.setTimeout(() => {
      foundInGraph(query, graph, shown, abort.signal).then(
        (found) => {
          if (!abort.signal.aborted) fromServer.value = found;
        },
        (problem: unknown) => {
          if (!isAborted(problem)) fromServer.value = [];
        },
      );
    }, WAIT_MILLISECONDS);
    return () => {
      window.clearTimeout(waiting);
      abort.abort();
    };
  }, [query]);
  const choices = [...foundHere(query), ...fromServer.value];
  const chosen = Math.min(at.value, Math.max(choices.length - 1, 0));
  useEffect(() => {
    list.current?.querySelector('[aria-selected="true"]')?.scrollIntoView({ block: "nearest" });
  }, [chosen]);
  const run = (choice: Choice | undefined): void => {
    if (choice === undefined) return;
    closeDialog();
    choice.act();
  };
  const words = query.split(/\s+/);
  return (
    <Dialog title="Find or do" onClose={() => closeDialog()} wide>
      <input
        type="search"
        data-first
        class="palette-field"
        aria-controls="palette-list"
        aria-activedescendant={choices.length === 0 ? undefined : `choice-${chosen}`}
        aria-label="Find an op, module, parameter, line, step, run or action"
        placeholder="20 gelu, fc1.weight, train.py:30, step 12, continue…"
        spellcheck={false}
        value={typed.value}
        onInput={(event) => {
          typed.value = event.currentTarget.value;
          at.value = 0;
        }}
        onKeyDown={(event) => {
          const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
          if (by !== undefined) at.value = Math.min(Math.max(chosen + by, 0), choices.length - 1);
          else if (event.key === "Enter") run(choices[chosen]);
          else if (event.key === "Escape") closeDialog();
          else return;
          event.preventDefault();
        }}
      />
      <ul ref={list} id="palette-list" class="palette" role="listbox" aria-label="Found">
        {choices.map((choice, place) => (
          <li
            key={choice.id}
            id={`choice-${place}`}
            role="option"
            aria-selected={place === chosen}
            title={choice.title ?? choice.text}
            onClick={() => run(choice)}
          >
            <span class="palette-kind">{choice.kind}</span>
            <span class="palette-text">
              <Highlighted text={choice.text} words={words} />
            </span>
            <span class="palette-more">
              <Highlighted text={choice.more ?? ""} words={words} />
            </span>
          </li>
        ))}
      </ul>
      {choices.length === 0 && (
        <p class="quiet" role="status">
          Nothing matches
        </p>
      )}
    </Dialog>
  );
}
