import type uPlot from "uplot";

/** A step of a chart from which on something holds. */
export interface StepMark {
  readonly step: number;
  readonly text: string;
  readonly isStrong: boolean;
}

const FLAG = { width: 15, height: 15 };

/** Draws a dashed line and a numbered flag at each mark; flags of one step stand side by side. */
export function drawMarks(
  plot: uPlot,
  marks: readonly StepMark[],
  colour: (name: string) => string,
): void {
  const { ctx, bbox } = plot;
  const scale = devicePixelRatio;
  const taken = new Map<number, number>();
  ctx.save();
  for (const { step, text, isStrong } of marks) {
    const x = plot.valToPos(step, "x", true);
    if (x < bbox.left - 1 || x > bbox.left + bbox.width + 1) continue;
    const at = taken.get(step) ?? 0;
    taken.set(step, at + 1);
    const left = x + at * (FLAG.width + 2) * scale;
    ctx.strokeStyle = ctx.fillStyle = colour(isStrong ? "--bad" : "--warn");
    ctx.lineWidth = 1.5 * scale;
    ctx.setLineDash([5 * scale, 3 * scale]);
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    ctx.fillRect(left, bbox.top, FLAG.width * scale, FLAG.height * scale);
    ctx.fillStyle = colour("--ground");
    ctx.font = `bold ${11 * scale}px system-ui`;
    ctx.textAlign = "center";
    ctx.textBaseline = "middle";
    ctx.fillText(text, left + (FLAG.width / 2) * scale, bbox.top + (FLAG.height / 2 + 0.5) * scale);
  }
  ctx.restore();
}
