import type { JSX } from "preact";
import { api } from "../state/api";
import { fileName } from "../state/names";
import { grouped } from "../state/numbers";
import { useResource } from "../state/resource";
import { go, graph, place, rank, run } from "../state/store";
import { Empty } from "../parts/Empty";
import { Rows } from "../parts/Rows";

const ROW_HEIGHT = 38;

/** Lines of the user's code with the number of ops they made; one of them becomes a filter. */
export function SourceLines(): JSX.Element {
  const query = place.value.lineQuery;
  const [currentRun, currentRank, currentGraph] = [run.value, rank.value, graph.value];
  const subject = currentRun === null || currentRank === null || currentGraph === null ? null : `${currentRun.id} ${currentRank.rank} ${currentGraph.id}`;
  const { data, error } = useResource(subject, `${query} ${currentGraph?.nodes ?? 0}`, (signal) =>
    api.sources(currentRun?.id ?? "", currentRank?.rank ?? 0, currentGraph?.id ?? 0, query, signal),
  );
  const lines = data?.lines ?? [];
  return (
    <>
      {error !== null && <p class="error-line">{error}</p>}
      {data !== null && lines.length === 0 && <Empty title="No line matches" />}
      <Rows
        subject={`lines ${subject ?? ""} ${query}`}
        count={lines.length}
        height={ROW_HEIGHT}
        label="Lines of code"
        role="listbox"
        row={(at) => {
          const line = lines[at];
          if (line === undefined) return <span />;
          return (
            <div
              class="result line"
              role="option"
              aria-selected={false}
              title={`${line.code.trim()}\n${line.file}:${line.line}`}
              onClick={() => go({ file: line.file, line: line.line, listing: "ops" })}
            >
              <div class="two-lines">
                <code class="name">{line.code.trim()}</code>
                <span class="under">
                  {fileName(line.file)}:{line.line}
                </span>
              </div>
              <span class="count">{grouped(line.ops)}</span>
            </div>
          );
        }}
      />
    </>
  );
}
