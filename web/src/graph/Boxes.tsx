import type { JSX } from "preact";
import { markClasses, markText } from "../compare/marks";
import { isAmong } from "../text/names";
import { boxColour, boxValueText } from "./colouring";
import { countText, type Box, type Line, type Scene } from "./scene";
import { isSide } from "./sideParts";
import { clippedText, FONTS, labelFont, textWidth } from "./textWidth";
import { edgeText, lineMeets, meets, pathOf, type Rectangle } from "./view";

/** The ops that are marked in the graph. */
export interface Marks {
  readonly selected: string;
  /** Needed for a parameter, whose name does not contain its scope. */
  readonly selectedScope: string;
  readonly current: string | null;
  /** The place of the current op in this graph, in the middle of a step. */
  readonly order: number | null;
  readonly isPaused: boolean;
  /** The box that the keyboard is at. */
  readonly cursor: string;
}

export const NO_MARKS: Marks = {
  selected: "",
  selectedScope: "",
  current: null,
  order: null,
  isPaused: false,
  cursor: "",
};

export interface BoxesProps {
  readonly scene: Scene;
  readonly area: Rectangle;
  readonly marks: Marks;
  readonly onBox: (box: Box) => void;
  readonly onToggle: (box: Box) => void;
}

// With more than this many on the screen their texts are unreadable, and one path draws them all.
const MOST_DRAWN = 1500;
const MOST_LABELS = 260;

function holds(box: Box, op: string | null, scope = ""): boolean {
  if (op === null || op === "" || box.node.what === "outside") return false;
  const paths = [box.path, ...box.node.members];
  return isAmong(paths, op) || (scope !== "" && isAmong(paths, scope));
}

export function Boxes({ scene, area, marks, onBox, onToggle }: BoxesProps): JSX.Element {
  const boxes = scene.boxes.filter((box) => meets(box, area));
  const lines = scene.lines.filter((line) => lineMeets(line, area));
  if (boxes.length > MOST_DRAWN) return <Overview boxes={boxes} lines={lines} marks={marks} />;
  const draw = (box: Box): JSX.Element => (
    <BoxShape key={box.path} box={box} marks={marks} onBox={onBox} onToggle={onToggle} />
  );
  const isNear = (line: Line): boolean =>
    marks.selected !== "" && (line.source === marks.selected || line.target === marks.selected);
  const hasLabels = lines.length <= MOST_LABELS;
  return (
    <>
      <g>{boxes.filter((box) => box.isOpen).map(draw)}</g>
      <g class="edges">
        {lines.map((line) => (
          <path
            key={`${line.source}>${line.target}`}
            class={`edge${isNear(line) ? " near" : ""}${isCrossing(line) ? " crossing" : ""}`}
            d={pathOf(line.points)}
            marker-end={isNear(line) ? "url(#tip-near)" : "url(#tip)"}
          />
        ))}
      </g>
      <g>{boxes.filter((box) => !box.isOpen).map(draw)}</g>
      <g>
        {lines
          .filter((line) => hasLabels || isNear(line))
          .map((line) => (
            <EdgeLabel key={`${line.source}>${line.target}`} line={line} isNear={isNear(line)} />
          ))}
      </g>
    </>
  );
}

/** Whether the line leads out of the level in which it is drawn. */
function isCrossing(line: Line): boolean {
  return line.source.includes("#") || line.target.includes("#");
}

function Overview({
  boxes,
  lines,
  marks,
}: {
  boxes: Box[];
  lines: Line[];
  marks: Marks;
}): JSX.Element {
  const shape = (each: readonly Box[]): string =>
    each.map((box) => `M${box.x} ${box.y}h${box.width}v${box.height}h${-box.width}z`).join("");
  const marked = boxes.filter(
    (box) =>
      !box.isOpen &&
      (box.node.hits > 0 ||
        box.node.findings.length > 0 ||
        markClasses(box.path).includes("pair-first")),
  );
  const here = boxes.filter((box) => !box.isOpen && holds(box, marks.current));
  return (
    <>
      <path class="far-open" d={shape(boxes.filter((box) => box.isOpen))} />
      <path class="edge" d={lines.map((line) => pathOf(line.points)).join("")} />
      <path class="far-boxes" d={shape(boxes.filter((box) => !box.isOpen))} />
      <path class="far-hits" d={shape(marked)} />
      <path class="far-current" d={shape(here)} />
    </>
  );
}

function EdgeLabel({ line, isNear }: { line: Line; isNear: boolean }): JSX.Element | null {
  const text = edgeText(line.label, line.tensors);
  if (text === "") return null;
  return (
    <text class={isNear ? "edge-label near" : "edge-label"} x={line.at.x} y={line.at.y}>
      {text}
    </text>
  );
}

interface ShapeProps {
  readonly box: Box;
  readonly marks: Marks;
  readonly onBox: (box: Box) => void;
  readonly onToggle: (box: Box) => void;
}

function classesOf(box: Box, marks: Marks): string {
  const { node } = box;
  const classes = ["box", `is-${node.what}`, `kind-${node.kind}`, `phase-${node.phase}`];
  if (box.isOpen) classes.push("open");
  if (box.path === marks.selected) classes.push("selected");
  else if (holds(box, marks.selected, marks.selectedScope)) classes.push("around-selected");
  if (holds(box, marks.current)) classes.push(marks.isPaused ? "current" : "current moving");
  if (box.path === marks.cursor) classes.push("cursor");
  if (marks.order !== null && node.kind === "op" && node.what !== "outside")
    classes.push(node.first_order > marks.order ? "to-come" : "done");
  if (node.part !== "" && isSide(node)) classes.push("side");
  if (node.hits > 0) classes.push("hit");
  if (node.has_origin) classes.push("origin");
  if (node.findings.length > 0) classes.push("finding-box");
  if (node.what !== "outside") classes.push(...markClasses(box.path));
  return classes.join(" ");
}

function describe(box: Box): string {
  const { node } = box;
  if (node.what === "outside")
    return `outside this scope: ${node.members.length === 1 ? (node.members[0] ?? "") : node.label}`;
  const parts = [
    node.what === "op" ? `${node.type} ${node.kind === "op" ? "op" : node.kind}` : node.what,
    box.path,
  ];
  if (node.what !== "op") parts.push(`${node.ops} ops`);
  if (node.part === "recomputed")
    parts.push("run again for the backward pass, by activation checkpointing or torch.compile");
  if (node.hits > 0) parts.push(`${node.hits} hits`);
  if (node.has_origin) parts.push("origin of non-finite values");
  if (node.findings.length > 0) parts.push(`named by the findings ${node.findings.join(", ")}`);
  const value = boxValueText(box.path);
  if (value !== "") parts.push(value);
  const compared = markText(box.path);
  if (compared !== "") parts.push(compared);
  return parts.join(", ");
}

function Badge({ hits, x }: { hits: number; x: number }): JSX.Element {
  const text = hits > 999 ? "999+" : String(hits);
  const width = 8 + textWidth(text, FONTS.badge);
  return (
    <g class="badge" aria-hidden="true" transform={`translate(${x} -2)`}>
      <rect x={-width / 2} y="-7" width={width} height="14" rx="7" />
      <text text-anchor="middle">{text}</text>
    </g>
  );
}

/** A warning triangle: findings of the diagnosis name the box, or something inside it. */
function FindingMark(): JSX.Element {
  return (
    <g class="finding-mark" transform="translate(2 -1)">
      <path d="M0-9l8 14h-16z" />
      <text y="0.5" text-anchor="middle">
        !
      </text>
    </g>
  );
}

/** The phase by colour and shape: one line, two lines, or a dashed one. */
function Stripe({ phase, height }: { phase: string; height: number }): JSX.Element {
  return (
    <>
      <path class="stripe" d={`M2 2V${height - 2}`} />
      {phase === "backward" && <path class="stripe" d={`M6 3V${height - 3}`} />}
    </>
  );
}

const HEAD_MIDDLE = 14;

function BoxShape({ box, marks, onBox, onToggle }: ShapeProps): JSX.Element {
  const { node, x, y, width, height } = box;
  const canOpen = node.what === "scope" || node.what === "group";
  const middle = box.isOpen ? HEAD_MIDDLE : height / 2;
  const round =
    node.what === "outside" || (node.what === "op" && node.kind !== "op") ? height / 2 : 4;
  const countWidth = canOpen ? 26 + textWidth(countText(node), FONTS.count) : 0;
  const label = clippedText(node.label, labelFont(node), width - 10 - countWidth);
  const colour = box.isOpen ? null : boxColour(box.path);
  return (
    <g
      id={`box ${box.path}`}
      class={classesOf(box, marks)}
      transform={`translate(${x.toFixed(1)} ${y.toFixed(1)})`}
      data-path={box.path}
      role="button"
      aria-expanded={canOpen ? box.isOpen : undefined}
      onClick={(event) => {
        event.stopPropagation();
        onBox(box);
      }}
      onDblClick={(event) => {
        event.stopPropagation();
        if (canOpen) onToggle(box);
      }}
    >
      <title>{describe(box)}</title>
      {node.what === "group" && !box.isOpen && (
        <rect class="shadow" x="3" y="3" width={width} height={height} rx="4" />
      )}
      <rect
        class="body"
        width={width}
        height={height}
        rx={round}
        {...(colour === null ? {} : { style: { fill: colour } })}
      />
      {node.has_origin && !box.isOpen && (
        <rect class="second-frame" x="-3" y="-3" width={width + 6} height={height + 6} rx="6" />
      )}
      {node.what !== "outside" && <Stripe phase={node.phase} height={box.isOpen ? 26 : height} />}
      {canOpen && (
        <g
          class="opener"
          onClick={(event) => {
            event.stopPropagation();
            onToggle(box);
          }}
        >
          <rect class="opener-area" width="24" height={box.isOpen ? 26 : height} />
          <path d={box.isOpen ? "M9 11l4 5 4-5z" : `M10 ${middle - 4}l5 4-5 4z`} />
        </g>
      )}
      <text
        class="label"
        aria-hidden="true"
        x={canOpen ? 22 : box.isOpen ? 12 : width / 2}
        y={middle}
        text-anchor={canOpen ? "start" : "middle"}
      >
        {label}
      </text>
      {canOpen && (
        <text class="count" aria-hidden="true" x={width - 8} y={middle} text-anchor="end">
          {countText(node)}
        </text>
      )}
      {node.hits > 0 && node.what !== "outside" && <Badge hits={node.hits} x={width - 4} />}
      {node.findings.length > 0 && node.what !== "outside" && <FindingMark />}
      {holds(box, marks.current) && !box.isOpen && (
        <path class="here" d={`M-9 ${middle - 5}l7 5-7 5z`} />
      )}
    </g>
  );
}
