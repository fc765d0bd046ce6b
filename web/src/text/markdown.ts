/** The parts of the Markdown that the pages of rules use. */
export type Inline =
  | { readonly kind: "text" | "code" | "strong"; readonly text: string }
  | { readonly kind: "link"; readonly text: string; readonly target: string };

export type Block =
  | { readonly kind: "paragraph"; readonly parts: readonly Inline[] }
  | { readonly kind: "code"; readonly text: string };

const INLINE = /`([^`]+)`|\*\*([^*]+)\*\*|\[([^\]]+)\]\(([^)\s]+)\)/g;

function inlines(text: string): readonly Inline[] {
  const parts: Inline[] = [];
  let at = 0;
  for (const found of text.matchAll(INLINE)) {
    if (found.index > at) parts.push({ kind: "text", text: text.slice(at, found.index) });
    const [whole, code, strong, label, target] = found;
    if (code !== undefined) parts.push({ kind: "code", text: code });
    else if (strong !== undefined) parts.push({ kind: "strong", text: strong });
    else parts.push({ kind: "link", text: label ?? "", target: target ?? "" });
    at = found.index + whole.length;
  }
  if (at < text.length) parts.push({ kind: "text", text: text.slice(at) });
  return parts;
}

/** The blocks of a page: paragraphs and code; the heading is left out. */
export function blocksOf(page: string): readonly Block[] {
  const blocks: Block[] = [];
  for (const [at, piece] of page.split("```").entries()) {
    if (at % 2 === 1) {
      blocks.push({ kind: "code", text: piece.replace(/^\w*\n/, "").trimEnd() });
      continue;
    }
    for (const paragraph of piece.split(/\n\s*\n/)) {
      const text = paragraph.trim().replaceAll(/\s*\n\s*/g, " ");
      if (text !== "" && !text.startsWith("# ")) {
        blocks.push({ kind: "paragraph", parts: inlines(text) });
      }
    }
  }
  return blocks;
}

/** The rule whose page a link leads to, such as `dead-relu.md`; null for other links. */
export function ruleOf(target: string): string | null {
  return /^([a-z0-9]+(?:-[a-z0-9]+)*)\.md$/.exec(target)?.[1] ?? null;
}
