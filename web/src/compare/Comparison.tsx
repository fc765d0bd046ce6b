import type { JSX } from "preact";
import type { ComparisonView, FirstDivergence, SourceLine } from "../wire";
import { api } from "../load/api";
import { fileName, runTitle } from "../text/names";
import { brief, cosineText, counted, grouped } from "../text/numbers";
import { useResource } from "../load/resource";
import { go, place, run, runs, topicVersion } from "../state/store";
import { Empty } from "../parts/Empty";
import { openPair } from "./openPair";
import { PairTable } from "./PairTable";
import { Unpaired } from "./Unpaired";

/** Two dumps compared: the verdict and the first divergence on top, then every pair. */
export function Comparison(): JSX.Element {
  const current = run.value;
  const subject = current?.peer == null ? null : current.id;
  const { data, error, loading } = useResource(subject, topicVersion("status"), api.comparison);
  if (subject === null)
    return <Empty title="Nothing to compare with">Open two dumps: sonde view DIR DIR2</Empty>;
  if (data === null) return <Empty title={loading ? "Loading…" : "No comparison"}>{error}</Empty>;
  if (data.problem !== "")
    return <Empty title="The dumps could not be compared">{data.problem}</Empty>;
  if (data.verdict === null) return <Progress view={data} />;
  return <Found view={data} />;
}

function Progress({ view }: { view: ComparisonView }): JSX.Element {
  return (
    <Empty title="Comparing">
      <progress aria-label="Comparison" max={Math.max(view.total, 1)} value={view.done} />
      <p role="status">
        {view.what}
        {view.total > 0 && `, ${grouped(view.done)} of ${grouped(view.total)} tensors`}
      </p>
    </Empty>
  );
}

function Found({ view }: { view: ComparisonView }): JSX.Element {
  const list = place.value.pairList;
  const tabs = [
    ["pairs", "Pairs", view.pairs],
    ["a", `Only in ${runTitle(runs.value, view.a)}`, view.unpaired_a],
    ["b", `Only in ${runTitle(runs.value, view.b)}`, view.unpaired_b],
  ] as const;
  return (
    <section class="comparison" aria-label="Comparison">
      <Verdict view={view} />
      {view.first !== null && <First found={view.first} view={view} />}
      <div class="tabs" role="tablist" aria-label="Pairs and ops without a counterpart">
        {tabs.map(([value, text, count]) => (
          <button
            key={value}
            type="button"
            role="tab"
            aria-selected={list === value}
            onClick={() => go({ pairList: value })}
          >
            {text} <span class="count">{grouped(count)}</span>
          </button>
        ))}
      </div>
      {list === "pairs" ? <PairTable view={view} /> : <Unpaired view={view} side={list} />}
    </section>
  );
}

function Verdict({ view }: { view: ComparisonView }): JSX.Element {
  return (
    <header class="verdict">
      <p>
        <span class={`pill verdict-${view.verdict ?? ""}`}>{view.verdict}</span>
        <span>
          <b>a</b> {runTitle(runs.value, view.a)} <span class="quiet">against</span> <b>b</b>{" "}
          {runTitle(runs.value, view.b)}{" "}
          <span class="quiet">
            (the reference),{" "}
            {view.by === "values"
              ? "by values"
              : view.by === "statistics"
                ? "by statistics only"
                : "by values and statistics"}
          </span>
        </span>
      </p>
      {(view.reasons.length > 0 || view.notes.length > 0) && (
        <ul>
          {[...view.reasons, ...view.notes].map((text) => (
            <li key={text}>{text}</li>
          ))}
        </ul>
      )}
    </header>
  );
}

function First({ found, view }: { found: FirstDivergence; view: ComparisonView }): JSX.Element {
  const { pair, tensor } = found;
  const distances = tensor.distances;
  return (
    <article class="first-divergence" aria-label="First divergence">
      <h3>
        First divergence{" "}
        <span class="quiet">
          in step {pair.step}, pair {pair.order}
        </span>
        {found.confidence === "low" && <span class="tag">low confidence</span>}
      </h3>
      <dl>
        <dt>a</dt>
        <dd>
          <code>{pair.a}</code> <Line source={pair.source_a} />
        </dd>
        <dt>b</dt>
        <dd>
          <code>{pair.b}</code> <Line source={pair.source_b} />
        </dd>
      </dl>
      <p>{found.cause}</p>
      <p class="numbers">
        <Number name="relative L2" value={brief(tensor.error)} />
        <Number name="allowed" value={brief(pair.allowed)} />
        <Number name="error of its inputs" value={brief(pair.input_error)} />
        {distances !== null && (
          <Number name="largest absolute" value={brief(distances.max_abs_error)} />
        )}
        {distances !== null && (
          <Number name="largest relative" value={brief(distances.max_relative_error)} />
        )}
        {distances !== null && <Number name="cosine" value={cosineText(distances.cosine)} />}
        {distances !== null && distances.max_ulp !== "nan" && (
          <Number name="ULP" value={brief(distances.max_ulp)} />
        )}
        <Number name="inherited by" value={counted(found.inheritors, "pair")} />
      </p>
      <p class="actions">
        <button type="button" class="primary" onClick={() => openPair(view, pair, tensor)}>
          Both tensors side by side
        </button>
        <button type="button" onClick={() => openPair(view, pair, tensor, "graph")}>
          Show in the graph
        </button>
      </p>
    </article>
  );
}

function Number({ name, value }: { name: string; value: string }): JSX.Element {
  return (
    <span>
      <span class="quiet">{name}</span> <b>{value}</b>
    </span>
  );
}

export function Line({ source }: { source: SourceLine | null }): JSX.Element | null {
  if (source === null) return null;
  return (
    <span class="source-line" title={source.file}>
      {fileName(source.file)}:{source.line} <code>{source.code.trim()}</code>
    </span>
  );
}
