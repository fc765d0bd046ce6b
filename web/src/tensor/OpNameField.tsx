import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useId } from "preact/hooks";
import type { ListedNode } from "../wire";
import { api } from "../load/api";
import { graphAt } from "../state/store";
import { isAborted } from "../state/toasts";
import { TextField } from "../parts/TextField";

const MOST_SUGGESTIONS = 12;

interface OpNameFieldProps {
  readonly label: string;
  readonly class: string;
  readonly title: string;
  readonly placeholder: string;
  readonly value: string;
  /** The run whose ops are suggested; null: the one that is shown. */
  readonly run: string | null;
  readonly onDone: (op: string) => void;
}

/** A field for the name of an op or a parameter, with the server's suggestions. */
export function OpNameField({ run, onDone, ...more }: OpNameFieldProps): JSX.Element {
  const list = useId();
  const found = useSignal<readonly ListedNode[]>([]);
  const query = useSignal("");
  useEffect(() => {
    const at = graphAt.value;
    if (at === null || query.value.length < 2) return undefined;
    const abort = new AbortController();
    const filter = {
      query: query.value,
      category: "",
      phase: "",
      file: "",
      line: null,
      hits: false,
    };
    const graphs = { ...at, run: run ?? at.run };
    api
      .nodes({ ...graphs, ...filter, offset: 0, limit: MOST_SUGGESTIONS }, abort.signal)
      .then((page) => (found.value = page.nodes))
      .catch((error: unknown) => {
        if (!isAborted(error)) found.value = [];
      });
    return () => abort.abort();
  }, [query.value]);
  return (
    <>
      <TextField
        {...more}
        list={list}
        onType={(text) => (query.value = text)}
        onDone={(text) => onDone(text)}
      />
      <datalist id={list}>
        {found.value.map((node) => (
          <option key={node.name} value={node.name} />
        ))}
      </datalist>
    </>
  );
}
