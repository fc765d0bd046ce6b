import type { JSX } from "preact";
import { api } from "../load/api";
import { fileName } from "../text/names";
import { grouped } from "../text/numbers";
import { useResource } from "../load/resource";
import { go, graph, graphAt, place } from "../state/store";
import { Empty } from "../parts/Empty";
import { Rows } from "../parts/Rows";

const ROW_HEIGHT = 38;

/** Lines of the user's code with the number of ops they run; a click filters by the line. */
export function SourceLines(): JSX.Element {
  const query = place.value.lineQuery;
  const at = graphAt.value;
  // The query is part of the version: the lines found before stay visible while the user types.
  const { data, error } = useResource(
    at,
    `${query} ${graph.value?.nodes ?? 0}`,
    (request, signal) => api.sources({ ...request, query }, signal),
  );
  const lines = data?.lines ?? [];
  return (
    <>
      {error !== null && <p class="error-line">{error}</p>}
      {data !== null && lines.length === 0 && <Empty title="No line matches" />}
      <Rows
        subject={`lines ${JSON.stringify(at)} ${query}`}
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
