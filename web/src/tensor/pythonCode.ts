import type { RunView } from "../wire";
import { BASE, type TensorAt } from "../load/api";

/** A text as Python writes it. */
function quoted(text: string): string {
  return JSON.stringify(text);
}

/** Python code that reads a tensor: of a dump from its files, of a training from the server. */
export function pythonCode(run: RunView, at: TensorAt, index: string): string {
  const part = index === "" ? "" : index.startsWith("[") ? index : `[${index}]`;
  if (run.kind === "dump") {
    const chosen = [
      `op=${quoted(at.op)}`,
      `io=${quoted(at.io)}`,
      `rank=${at.rank}`,
      ...(at.step === null ? [] : [`step=${at.step}`]),
    ];
    return [
      "import sonde",
      "",
      `dump = sonde.Dump(${quoted(run.title)})`,
      `tensors = dump.tensors(${chosen.join(", ")})`,
      `x = next(each for each in tensors if each.key.slot == ${at.slot}).numpy()${part}`,
      "",
    ].join("\n");
  }
  const address = new URL(`${BASE}/runs/${encodeURIComponent(run.id)}/tensor/file`, location.href);
  address.search = new URLSearchParams({
    op: at.op,
    io: at.io,
    slot: String(at.slot),
    rank: String(at.rank),
    ...(at.step === null ? {} : { step: String(at.step) }),
  }).toString();
  return [
    "import io, os, urllib.request",
    "import numpy as np",
    "",
    `url = ${quoted(address.href)}`,
    "# SONDE_DEBUGGER_TOKEN: the token that the terminal of the server shows",
    'headers = {"Authorization": f"Bearer {os.environ[\'SONDE_DEBUGGER_TOKEN\']}"}',
    "request = urllib.request.Request(url, headers=headers)",
    "data = urllib.request.urlopen(request).read()",
    `x = np.load(io.BytesIO(data))${part}`,
    "",
  ].join("\n");
}
