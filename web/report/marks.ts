import type uPlot from "uplot";

interface Mark {
  readonly color: string;
  readonly tip?: string;
  readonly onClick?: () => void;
}

export interface Dot extends Mark {
  readonly x: number;
  readonly y: number;
  readonly radius: number;
  readonly outline?: string;
  readonly isCross?: boolean;
}

export interface Box extends Mark {
  readonly left: number;
  readonly right: number;
  readonly low: number;
  readonly high: number;
  readonly opacity?: number;
  /** Written into the box where it is wide enough. */
  readonly label?: string;
}

/** A vertical line with a text beside it. */
export interface Rule {
  readonly x: number;
  readonly color: string;
  readonly label?: string;
  readonly isAtTop?: boolean;
}

interface Marks {
  readonly dots?: readonly Dot[];
  readonly boxes?: readonly Box[];
  readonly rules?: readonly Rule[];
}

/** A colour as a canvas needs it: "--accent" is looked up in the stylesheet. */
export function resolved(color: string): string {
  return color.startsWith("--")
    ? getComputedStyle(document.documentElement).getPropertyValue(color).trim()
    : color;
}

/** Draw what uPlot has no series for: boxes, dots of many colours, vertical lines. */
export function drawMarks(plot: uPlot, { dots = [], boxes = [], rules = [] }: Marks): void {
  const { ctx, bbox } = plot;
  const ratio = devicePixelRatio;
  ctx.save();
  ctx.beginPath();
  ctx.rect(
    bbox.left - 8 * ratio,
    bbox.top - 8 * ratio,
    bbox.width + 16 * ratio,
    bbox.height + 16 * ratio,
  );
  ctx.clip();
  ctx.font = `${11 * ratio}px system-ui`;
  ctx.textBaseline = "middle";
  for (const box of boxes) drawBox(plot, box, ratio);
  drawRules(plot, rules, ratio);
  for (const dot of dots) drawDot(plot, dot, ratio);
  ctx.restore();
}

function drawBox(plot: uPlot, box: Box, ratio: number): void {
  const { ctx, bbox } = plot;
  const left = Math.max(plot.valToPos(box.left, "x", true), bbox.left);
  const right = Math.min(plot.valToPos(box.right, "x", true), bbox.left + bbox.width);
  if (right < left) return;
  const top = Math.max(plot.valToPos(box.high, "y", true), bbox.top);
  const height = Math.max(plot.valToPos(box.low, "y", true) - top, 0);
  ctx.globalAlpha = box.opacity ?? 1;
  ctx.fillStyle = resolved(box.color);
  ctx.fillRect(left, top, Math.max(right - left, 0.6 * ratio), height);
  ctx.globalAlpha = 1;
  if (box.label === undefined || right - left < ctx.measureText(box.label).width + 8 * ratio)
    return;
  ctx.fillStyle = "#fff";
  ctx.textAlign = "left";
  ctx.fillText(box.label, left + 4 * ratio, top + height / 2);
}

function drawRules(plot: uPlot, rules: readonly Rule[], ratio: number): void {
  const { ctx, bbox } = plot;
  let free = -Infinity;
  for (const rule of rules) {
    const x = plot.valToPos(rule.x, "x", true);
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    ctx.strokeStyle = ctx.fillStyle = resolved(rule.color);
    ctx.lineWidth = ratio;
    ctx.setLineDash([3 * ratio, 3 * ratio]);
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    ctx.setLineDash([]);
    if (rule.label === undefined || x < free) continue;
    const width = ctx.measureText(rule.label).width + 8 * ratio;
    const isLeft = x + width > bbox.left + bbox.width;
    ctx.textAlign = isLeft ? "right" : "left";
    ctx.fillText(
      rule.label,
      x + (isLeft ? -5 : 5) * ratio,
      rule.isAtTop === true ? bbox.top + 8 * ratio : bbox.top + bbox.height - 8 * ratio,
    );
    free = x + width;
  }
}

function drawDot(plot: uPlot, dot: Dot, ratio: number): void {
  const { ctx } = plot;
  const [x, y, radius] = [
    plot.valToPos(dot.x, "x", true),
    plot.valToPos(dot.y, "y", true),
    dot.radius * ratio,
  ];
  ctx.beginPath();
  if (dot.isCross === true) {
    ctx.strokeStyle = resolved(dot.color);
    ctx.lineWidth = 2 * ratio;
    for (const slope of [1, -1]) {
      ctx.moveTo(x - radius, y - slope * radius);
      ctx.lineTo(x + radius, y + slope * radius);
    }
    ctx.stroke();
    return;
  }
  ctx.fillStyle = resolved(dot.color);
  ctx.arc(x, y, radius, 0, 2 * Math.PI);
  ctx.fill();
  if (dot.outline === undefined) return;
  ctx.strokeStyle = resolved(dot.outline);
  ctx.lineWidth = 1.5 * ratio;
  ctx.stroke();
}

/** The dot nearest to a place of the plot, at most 12 pixels away, else the box that is there. */
export function markAt(
  plot: uPlot,
  { dots = [], boxes = [] }: Marks,
  left: number,
  top: number,
): Mark | undefined {
  let nearest: Mark | undefined;
  let least = 12 ** 2;
  for (const dot of dots) {
    const away = (plot.valToPos(dot.x, "x") - left) ** 2 + (plot.valToPos(dot.y, "y") - top) ** 2;
    if (away < least) [nearest, least] = [dot, away];
  }
  if (nearest !== undefined) return nearest;
  const [x, y] = [plot.posToVal(left, "x"), plot.posToVal(top, "y")];
  // A box narrower than three pixels can be hit, too.
  const near = Math.abs(plot.posToVal(left + 1.5, "x") - x);
  const inside = boxes.filter(
    (box) => box.low <= y && y < box.high && box.left - near <= x && x < box.right + near,
  );
  return inside.find((box) => box.left <= x && x < box.right) ?? inside[0];
}
