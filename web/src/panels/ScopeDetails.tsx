import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import { api } from "../load/api";
import { useResource } from "../load/resource";
import { useTensorVersion } from "../load/tensorVersion";
import { Empty } from "../parts/Empty";
import { Icon } from "../parts/Icon";
import {
  command,
  go,
  graph,
  isOver,
  place,
  rank,
  run,
  selectOp,
  shownGraphAt,
  throttledVersion,
} from "../state/store";
import { innerName, lastPart, opName, readParts } from "../text/names";
import { brief, counted, grouped, typeText } from "../text/numbers";
import type { ScopeParameter, ScopeTensor, ScopeView } from "../wire";
import { newWatchpoint } from "./dialogs";
import { KeepButton } from "./KeepButton";
import { SourceStack } from "./SourceStack";

/** Everything about the selected scope: a module, a phase, or a function of the step. */
export function ScopeDetails({ path }: { readonly path: string }): JSX.Element {
  const at = shownGraphAt.value;
  const request = at === null ? null : { ...at, scope: path };
  const version = `${graph.value?.nodes ?? 0} ${throttledVersion("hits")}`;
  const view = useResource(request, version, api.scope);
  return (
    <section class="pane op-details" aria-label="Scope">
      {view.error !== null && (
        <Empty title={lastPart(path)}>
          <p class="error-line">{view.error}</p>
        </Empty>
      )}
      {view.data !== null && (
        <div class="scroll">
          <Head view={view.data} />
          <Tensors title="Inputs" tensors={view.data.inputs} />
          <Tensors title="Outputs" tensors={view.data.outputs} />
          <Parameters view={view.data} />
          <Sources view={view.data} />
        </div>
      )}
    </section>
  );
}

function Head({ view }: { readonly view: ScopeView }): JSX.Element {
  const current = run.value;
  const targets = view.is_function ? view.op_names : [view.path];
  const [first] = targets;
  const canRunTo = current?.controls.includes("to") === true && first !== undefined;
  return (
    <header class="op-head">
      <div class="op-title">
        <h3 title={view.path}>{view.label}</h3>
      </div>
      <p class="path" title={view.path}>
        {readParts(view.path).join(" › ")}
      </p>
      <p class="tags">
        {view.cls !== "" && <span class="tag">{view.cls}</span>}
        {view.is_function && <span class="tag">function</span>}
        <span class={`phase ${view.phase}`}>{view.phase}</span>
        <span class="quiet">{counted(view.ops, "op")}</span>
        {view.hits > 0 && (
          <button
            type="button"
            class="hit-count"
            title="List the ops with hits inside it"
            onClick={() => go({ onlyHits: true, query: view.path, listing: "ops" })}
          >
            {counted(view.hits, "hit")}
          </button>
        )}
      </p>
      <p class="actions">
        {canRunTo && (
          <button type="button" class="small" onClick={() => command({ command: "to", op: first })}>
            <Icon name="to" /> run to its first op
          </button>
        )}
        {!isOver.value && (
          <button type="button" class="small" onClick={() => newWatchpoint(targets)}>
            <Icon name="eye" /> watch all inside
          </button>
        )}
        {current?.kind === "live" && <KeepButton run={current.id} op={view.path} ops={targets} />}
      </p>
    </header>
  );
}

function Tensors({
  title,
  tensors,
}: {
  readonly title: string;
  readonly tensors: readonly ScopeTensor[];
}): JSX.Element | null {
  if (tensors.length === 0) return null;
  return (
    <>
      <h4>{title}</h4>
      {tensors.map(({ producer, slot, type }) => (
        <div key={`${producer} ${slot}`} class="scope-tensor">
          <code>{typeText(type)}</code>
          <span class="from">
            {title === "Inputs" ? "from " : "made by "}
            <button type="button" class="link" title={producer} onClick={() => selectOp(producer)}>
              {opName(producer)}
            </button>
          </span>
        </div>
      ))}
    </>
  );
}

const MOST_ROWS = 12;

function Parameters({ view }: { readonly view: ScopeView }): JSX.Element | null {
  const showsAll = useSignal(false);
  if (view.parameters.length === 0) return null;
  const names = view.parameters.map((each) => each.name);
  const shown = showsAll.value ? view.parameters : view.parameters.slice(0, MOST_ROWS);
  return (
    <>
      <h4>
        {counted(view.parameters.length, "parameter")}, {counted(view.elements, "number")}
      </h4>
      <table class="parameters">
        <thead>
          <tr>
            <th scope="col">name</th>
            <th scope="col">shape</th>
            <th scope="col" title="L2 norm of the value">
              norm
            </th>
            <th scope="col" title="L2 norm of the gradient">
              gradient
            </th>
          </tr>
        </thead>
        <tbody>
          {shown.map((each) => (
            <ParameterRow key={each.name} parameter={each} text={innerName(each.name, names)} />
          ))}
        </tbody>
      </table>
      {shown.length < view.parameters.length && (
        <button type="button" class="link quiet" onClick={() => (showsAll.value = true)}>
          and {grouped(view.parameters.length - shown.length)} more
        </button>
      )}
    </>
  );
}

function ParameterRow({
  parameter,
  text,
}: {
  readonly parameter: ScopeParameter;
  readonly text: string;
}): JSX.Element {
  const { name, type, elements, is_weight } = parameter;
  return (
    <tr>
      <th scope="row">
        <button type="button" class="link" title={name} onClick={() => selectOp(name)}>
          {text}
        </button>
      </th>
      <td title={`${grouped(elements)} numbers, ${type.dtype}`}>
        {type.shape.length === 0 ? "scalar" : type.shape.join("×")}
      </td>
      <td>
        <Norm name={name} />
      </td>
      <td>{is_weight && <Norm name={`${name}.grad`} />}</td>
    </tr>
  );
}

/** The norm of a weight or gradient, if its value is known. */
function Norm({ name }: { readonly name: string }): JSX.Element {
  const [current, number] = [run.value, rank.value?.rank];
  const version = useTensorVersion();
  const request =
    current === null || number === undefined ? null : { run: current.id, rank: number, name };
  const found = useResource(request, version, (wanted, signal) =>
    api.opTensors({ ...wanted, step: place.value.step }, signal),
  );
  const norm = found.data?.tensors.find((each) => each.io === "output")?.statistics?.l2norm;
  return <span class={norm == null ? "quiet" : ""}>{norm == null ? "–" : brief(norm)}</span>;
}

function Sources({ view }: { readonly view: ScopeView }): JSX.Element | null {
  const lines = [view.defined, view.called].flatMap((line) => (line === null ? [] : [line]));
  useEffect(() => {
    if (place.value.frame !== -1) go({ frame: -1 });
  }, [view.path]);
  if (lines.length === 0) return null;
  return <SourceStack sources={lines} />;
}
