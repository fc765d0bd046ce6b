import { computed } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import type { SourceLine } from "../wire";
import { api } from "../load/api";
import { indentOf, outdented } from "../text/indentation";
import { fileName } from "../text/names";
import { useResource } from "../load/resource";
import { go, place, rank, run } from "../state/store";

const LINES_AROUND = 3;

/**
 * The lines that ran the op, innermost first, with the code around the chosen one: at first the
 * innermost of the user's own code.
 */
export function SourceStack({ sources }: { readonly sources: readonly SourceLine[] }): JSX.Element {
  const own = Math.max(
    sources.findIndex((line) => line.library !== ""),
    0,
  );
  const chosen = place.value.frame < 0 ? own : Math.min(place.value.frame, sources.length - 1);
  return (
    <>
      <h4>Source</h4>
      <ol class="stack">
        {sources.map((line, at) => (
          <li key={`${line.file}:${line.line}:${at}`} class={at === chosen ? "selected" : ""}>
            <button
              type="button"
              class="frame"
              aria-expanded={at === chosen}
              title={`${line.file}:${line.line}`}
              onClick={() => go({ frame: at })}
            >
              <span class="file">
                {fileName(line.file)}:{line.line}
              </span>
              <span class="quiet">{line.function}</span>
            </button>
            <button
              type="button"
              class="link quiet"
              title="List every op that this line runs"
              onClick={() =>
                go({
                  file: line.file,
                  line: line.line,
                  query: "",
                  category: "",
                  phase: "",
                  onlyHits: false,
                  listing: "ops",
                })
              }
            >
              {" "}
              ops of this line{" "}
            </button>
            {at === chosen && <Code line={line} />}
          </li>
        ))}
      </ol>
    </>
  );
}

const MOST_INDENT = 12;

/** Indents the continuation of a wrapped line deeper than the line itself. */
function hanging(line: string): { paddingLeft: string; textIndent: string } {
  const width = Math.min(indentOf(line).length, MOST_INDENT) + 2;
  return { paddingLeft: `${width}ch`, textIndent: `-${width}ch` };
}

/** The op that the headline names is selected: its line is what the reader looks for. */
const isHeadlineOp = computed(() => {
  const op = run.value?.headline?.op ?? "";
  return op !== "" && op === place.value.op;
});

function Code({ line }: { line: SourceLine }): JSX.Element {
  const [currentRun, currentRank] = [run.value, rank.value];
  const request =
    currentRun === null || currentRank === null
      ? null
      : {
          run: currentRun.id,
          rank: currentRank.rank,
          file: line.file,
          line: line.line,
          around: LINES_AROUND,
        };
  const { data } = useResource(request, 0, api.code);
  // The file may not be on the server's machine; the line itself came with the graph.
  const text = data ?? { first: line.line, lines: [line.code] };
  const shown = useRef<HTMLDivElement>(null);
  const isAnswer = isHeadlineOp.value;
  useEffect(() => {
    if (isAnswer) shown.current?.scrollIntoView({ block: "nearest" });
  }, [isAnswer, line.file, line.line, data]);
  return (
    <pre class="code" aria-label={`Code of ${line.file}`}>
      {outdented(text.lines).map((each, at) => (
        <div
          key={at}
          ref={text.first + at === line.line ? shown : null}
          class={text.first + at === line.line ? "this-line" : ""}
        >
          <span class="line-number">{text.first + at}</span>
          <code style={hanging(each)}>{each === "" ? " " : each}</code>
        </div>
      ))}
    </pre>
  );
}
