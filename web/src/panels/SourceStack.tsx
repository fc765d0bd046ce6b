import type { JSX } from "preact";
import type { SourceLine } from "../wire";
import { api } from "../state/api";
import { indentOf, outdented } from "../state/indents";
import { fileName } from "../state/names";
import { useResource } from "../state/resource";
import { go, place, rank, run } from "../state/store";

const AROUND = 3;

/** The user's lines that made the op, innermost first, with the code round the chosen one. */
export function SourceStack({ sources }: { readonly sources: readonly SourceLine[] }): JSX.Element {
  const chosen = Math.min(place.value.frame, sources.length - 1);
  return (
    <>
      <h4>Source</h4>
      <ol class="stack">
        {sources.map((line, at) => (
          <li key={`${line.file}:${line.line}:${at}`} class={at === chosen ? "selected" : ""}>
            <button type="button" class="frame" aria-expanded={at === chosen} title={`${line.file}:${line.line}`} onClick={() => go({ frame: at })}>
              <span class="file">
                {fileName(line.file)}:{line.line}
              </span>
              <span class="quiet">{line.function}</span>
            </button>
            <button type="button" class="link quiet" title="Find every op this line made" onClick={() => go({ file: line.file, line: line.line, query: "", category: "", phase: "", onlyHits: false, listing: "ops" })}>
              its ops
            </button>
            {at === chosen && <Code line={line} />}
          </li>
        ))}
      </ol>
    </>
  );
}

const MOST_INDENT = 12;

/** What does not fit into a line goes on below, further in than the line begins. */
function hanging(line: string): { paddingLeft: string; textIndent: string } {
  const width = Math.min(indentOf(line).length, MOST_INDENT) + 2;
  return { paddingLeft: `${width}ch`, textIndent: `-${width}ch` };
}

function Code({ line }: { line: SourceLine }): JSX.Element {
  const [currentRun, currentRank] = [run.value, rank.value];
  const subject = currentRun === null || currentRank === null ? null : `${currentRun.id} ${currentRank.rank} ${line.file}:${line.line}`;
  const { data } = useResource(subject, 0, (signal) => api.code(currentRun?.id ?? "", currentRank?.rank ?? 0, line.file, line.line, AROUND, signal));
  // The file may not be on the server's machine; the line itself came with the graph.
  const text = data ?? { first: line.line, lines: [line.code] };
  return (
    <pre class="code" aria-label={`Code of ${line.file}`}>
      {outdented(text.lines).map((each, at) => (
        <div key={at} class={text.first + at === line.line ? "this-line" : ""}>
          <span class="line-number">{text.first + at}</span>
          <code style={hanging(each)}>{each === "" ? " " : each}</code>
        </div>
      ))}
    </pre>
  );
}
