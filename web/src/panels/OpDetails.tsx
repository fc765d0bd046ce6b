import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import type { InputEdge, Node, OpTensor, OpTensors, OpView, TensorType } from "../wire";
import { findOp } from "../load/findOp";
import { api, type GraphAt } from "../load/api";
import { useTensorVersion } from "../load/tensorVersion";
import { graphName, lastPart, leafText, opName, readParts, phaseText } from "../text/names";
import { counted, grouped, typeText } from "../text/numbers";
import { useResource } from "../load/resource";
import {
  chooseView,
  command,
  go,
  graph,
  graphAt,
  isOver,
  openTensor,
  place,
  rank,
  revealScope,
  run,
  selectOp,
  setOpTensors,
  throttledVersion,
  tab,
} from "../state/store";
import { attempt, toast } from "../state/toasts";
import { Empty } from "../parts/Empty";
import { Icon } from "../parts/Icon";
import { useScrollMemory } from "../parts/scrolling";
import { newWatchpoint } from "./dialogs";
import { KeepButton } from "./KeepButton";
import { canObtainValues, ObtainValues } from "./ObtainValues";
import { ScopeDetails } from "./ScopeDetails";
import { SourceStack } from "./SourceStack";
import { StatisticLine } from "./Statistics";

/** Everything about what is selected: an op, a leaf or a scope. */
export function OpDetails(): JSX.Element {
  const { op } = place.value;
  return op.endsWith("/") ? <ScopeDetails key={op} path={op} /> : <OneOp />;
}

/** Where an op is looked up first: the current one, if the screen does not show it, where it is. */
function graphOfOp(op: string): GraphAt | null {
  const at = graphAt.value;
  const isElsewhere = op === rank.value?.op && graph.value?.here === null;
  const has = isElsewhere ? rank.value?.graphs.find((each) => each.here !== null) : undefined;
  return at === null || has === undefined ? at : { ...at, graph: has.id };
}

function OneOp(): JSX.Element {
  const { op, view: detail } = place.value;
  const at = graphOfOp(op);
  const request = op === "" || at === null ? null : { ...at, view: detail, name: op };
  const tensorVersion = useTensorVersion();
  const version = `${graph.value?.nodes ?? 0} ${throttledVersion("hits")}`;
  const view = useResource(request, version, (wanted, signal) =>
    findOp(wanted, rank.peek()?.graphs ?? [], signal),
  );
  const tensors = useResource(request, tensorVersion, ({ run, rank, name }, signal) =>
    api.opTensors({ run, rank, name, step: place.value.step }, signal),
  );
  useEffect(() => {
    setOpTensors(tensors.data);
  }, [tensors.data]);
  const own = view.data?.node.name === op ? view.data : null;
  const scope = detail === "everything" ? own?.node.scope : own?.shown_in;
  useEffect(() => {
    if (scope !== undefined) revealScope(scope);
  }, [op, scope]);
  if (op === "") {
    return (
      <section class="pane op-details" aria-label="Op">
        <Empty title="Nothing selected">
          Click an op or a module in the graph or in the list, or press Ctrl-K to find one.
        </Empty>
      </section>
    );
  }
  return (
    <section class="pane op-details" aria-label="Op">
      {view.error !== null && <Unknown op={op} problem={view.error} />}
      {view.data !== null && (
        <Details view={view.data} tensors={tensors.data} problem={tensors.error} />
      )}
    </section>
  );
}

/** An op that no graph of this rank has; another rank may have run it. */
function Unknown({ op, problem }: { readonly op: string; readonly problem: string }): JSX.Element {
  const isOneOfMany = (run.value?.ranks.length ?? 0) > 1;
  return (
    <Empty title={lastPart(op)}>
      {isOneOfMany ? (
        <p>The known graphs of rank {rank.value?.rank} do not have this op.</p>
      ) : (
        <p class="error-line">{problem}</p>
      )}
    </Empty>
  );
}

/** Says that the graph on the screen is not the one that has the op, and leads there. */
function OtherGraph({ id }: { readonly id: number }): JSX.Element | null {
  const graphs = rank.value?.graphs ?? [];
  const other = graphs.find((each) => each.id === id);
  if (other === undefined || graph.value?.id === id) return null;
  return (
    <p class="quiet missing">
      This op is not in the graph on the screen, but in “{graphName(other, graphs)}”.{" "}
      <button type="button" class="link" onClick={() => go({ graph: id, tab: "graph" })}>
        Show that graph
      </button>
    </p>
  );
}

interface DetailsProps {
  readonly view: OpView;
  readonly tensors: OpTensors | null;
  readonly problem: string | null;
}

function Details({ view, tensors, problem }: DetailsProps): JSX.Element {
  const { node } = view;
  const find = (io: "input" | "output", slot: number): OpTensor | null =>
    tensors?.tensors.find((each) => each.io === io && each.slot === slot) ?? null;
  const when = tensors?.step == null ? "" : ` in step ${tensors.step}`;
  const missing = commonReason(tensors);
  const scroller = useRef<HTMLDivElement>(null);
  useScrollMemory(scroller, `details ${node.name}`, tensors);
  return (
    <div ref={scroller} class="scroll">
      <OtherGraph id={view.graph} />
      {view.is_folded && place.value.view !== "everything" && (
        <p class="quiet missing">
          This op is a helper that your code did not call; the graph does not draw it.{" "}
          <button type="button" class="link" onClick={() => chooseView("everything")}>
            Draw everything
          </button>
        </p>
      )}
      <Head node={node} hits={view.hits} />
      {problem !== null &&
        (isOver.value ? (
          <p class="quiet missing">The training has ended. Only saved values can be shown.</p>
        ) : (
          <p class="error-line">{problem}</p>
        ))}
      <Unkept node={node} tensors={tensors} reason={missing} />
      {node.inputs.length > 0 && <h4>Inputs{when}</h4>}
      {node.inputs.map((edge, slot) => (
        <TensorRow
          key={slot}
          op={node.name}
          io="input"
          slot={slot}
          type={edge.type}
          tensor={find("input", slot)}
          hasCommonReason={missing !== null}
        >
          <Producer edge={edge} />
        </TensorRow>
      ))}
      {node.outputs.length > 0 && (
        <h4>
          {node.kind === "op" ? "Outputs" : "Value"}
          {when}
        </h4>
      )}
      {node.outputs.map((type, slot) => (
        <TensorRow
          key={slot}
          op={node.name}
          io="output"
          slot={slot}
          type={type}
          tensor={find("output", slot)}
          hasCommonReason={missing !== null}
        >
          <Consumers view={view} slot={slot} />
        </TensorRow>
      ))}
      {node.sources.length > 0 && <SourceStack sources={node.sources} />}
      {node.attributes.length > 0 && <h4>Attributes</h4>}
      {node.attributes.length > 0 && (
        <table class="attributes">
          <tbody>
            {node.attributes.map(([name, value]) => (
              <tr key={name}>
                <th scope="row">{name}</th>
                <td>{value}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </div>
  );
}

/** Says that there are no values of the op, and offers the ways to get them. */
function Unkept({
  node,
  tensors,
  reason,
}: {
  readonly node: Node;
  readonly tensors: OpTensors | null;
  readonly reason: string | null;
}): JSX.Element | null {
  const all = tensors?.tensors ?? [];
  if (all.length === 0 || all.some((each) => each.kept)) return null;
  if (!canObtainValues(node.name))
    return reason === null ? null : <p class="quiet missing">{reason}</p>;
  return (
    <p class="quiet missing">
      No values yet{all.some((each) => each.statistics !== null) && ", only statistics"}.{" "}
      <ObtainValues op={node.name} />
    </p>
  );
}

/** Why no tensor of the op has values, if it is the same for all. */
function commonReason(tensors: OpTensors | null): string | null {
  const all = tensors?.tensors ?? [];
  const first = all[0];
  const isCommon =
    first !== undefined && all.every((each) => each.statistics === null && each.why === first.why);
  return isCommon && first.why !== "" ? first.why : null;
}

function Head({ node, hits }: { node: Node; hits: number }): JSX.Element {
  const current = run.value;
  const canRunTo = current?.controls.includes("to") === true && node.kind === "op";
  return (
    <header class="op-head">
      <div class="op-title">
        <h3 title={node.name}>{node.kind === "op" ? opName(node.name) : leafText(node.name)}</h3>
        <span class="spacer" />
        <button
          type="button"
          class="icon"
          aria-label="Copy the full name"
          title="Copy the full name"
          onClick={() =>
            void attempt(() =>
              navigator.clipboard.writeText(node.name).then(() => toast("Name copied")),
            )
          }
        >
          <Icon name="copy" />
        </button>
      </div>
      <p class="path" title={node.name}>
        {readParts(node.scope).join(" › ")}
      </p>
      <p class="tags">
        <span class="tag">{node.type}</span>
        <span class={`phase ${phaseText(node)}`}>{phaseText(node)}</span>
        {node.kind !== "op" && node.kind !== node.type.toLowerCase() && (
          <span class="tag">{node.kind}</span>
        )}
        {node.categories
          .filter((each) => each !== "tensor")
          .map((each) => (
            <span key={each} class="tag">
              {each}
            </span>
          ))}
        <span class="quiet">op {node.order} of the step</span>
        {hits > 0 && (
          <button
            type="button"
            class="hit-count"
            title="Show its hits"
            onClick={() => go({ side: "hits", hitOp: true, hitGraph: null })}
          >
            {counted(hits, "hit")}
          </button>
        )}
      </p>
      <p class="actions">
        {canRunTo && (
          <button
            type="button"
            class="small"
            onClick={() => command({ command: "to", op: node.name })}
          >
            <Icon name="to" /> run to here
          </button>
        )}
        {!isOver.value && (
          <button type="button" class="small" onClick={() => newWatchpoint([node.name])}>
            <Icon name="eye" /> watch
          </button>
        )}
        {current?.kind === "live" && <KeepButton run={current.id} op={node.name} />}
      </p>
    </header>
  );
}

interface TensorRowProps {
  readonly op: string;
  readonly io: "input" | "output";
  readonly slot: number;
  readonly type: TensorType;
  readonly tensor: OpTensor | null;
  /** Whether the reason why there are no values is already shown above, for all tensors. */
  readonly hasCommonReason: boolean;
  readonly children: JSX.Element | null;
}

function TensorRow({
  op,
  io,
  slot,
  type,
  tensor,
  hasCommonReason,
  children,
}: TensorRowProps): JSX.Element {
  const now = place.value;
  const isOpen = tab.value === "tensor" && now.op === op && now.io === io && now.slot === slot;
  return (
    <div class={`tensor-row ${isOpen ? "selected" : ""}`}>
      <button
        type="button"
        class="tensor-open"
        title={tensor?.kept === false ? tensor.why : `Open ${io} ${slot}`}
        onClick={() => openTensor({ op, io, slot, step: now.step })}
      >
        <span class="slot">{slot}</span>
        <code>{typeText(tensor?.type ?? type)}</code>
        <Icon name="grid" />
      </button>
      {children}
      {tensor !== null && (tensor.statistics !== null || tensor.why !== "") && !hasCommonReason && (
        <div class="under">
          {tensor.statistics === null ? (
            <span class="quiet">{tensor.why}</span>
          ) : (
            <>
              <StatisticLine of={tensor.statistics} />
              {tensor.statistics_step !== null && (
                <span class="quiet"> step {tensor.statistics_step}</span>
              )}{" "}
              <button
                type="button"
                class="link over-steps"
                title="Its statistics over the steps"
                onClick={() => {
                  openTensor({ op, io, slot, step: now.step });
                  go({ mode: "curve" });
                }}
              >
                over steps
              </button>
            </>
          )}
        </div>
      )}
    </div>
  );
}

function Producer({ edge }: { edge: InputEdge }): JSX.Element {
  const { producer } = edge;
  if (producer === null) return <span class="quiet from">from outside the graph</span>;
  return (
    <span class="from">
      from{" "}
      <button type="button" class="link" title={producer} onClick={() => selectOp(producer)}>
        {opName(producer)}
      </button>
      {edge.slot > 0 && <span class="quiet"> output {edge.slot}</span>}
    </span>
  );
}

const MOST_CONSUMERS = 4;

function Consumers({ view, slot }: { view: OpView; slot: number }): JSX.Element | null {
  const showsAll = useSignal(false);
  const names = [
    ...new Set(view.consumers.filter(([output]) => output === slot).map(([, name]) => name)),
  ];
  if (names.length === 0) return null;
  return (
    <span class="from">
      to{" "}
      {(showsAll.value ? names : names.slice(0, MOST_CONSUMERS)).map((name, at) => (
        <span key={name}>
          {at > 0 && ", "}
          <button type="button" class="link" title={name} onClick={() => selectOp(name)}>
            {opName(name)}
          </button>
        </span>
      ))}
      {names.length > MOST_CONSUMERS && !showsAll.value && " "}
      {names.length > MOST_CONSUMERS && !showsAll.value && (
        <button type="button" class="link quiet" onClick={() => (showsAll.value = true)}>
          and {grouped(names.length - MOST_CONSUMERS)} more
        </button>
      )}
    </span>
  );
}
