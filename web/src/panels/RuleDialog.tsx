import type { JSX } from "preact";
import { api } from "../load/api";
import { useResource } from "../load/resource";
import { Dialog } from "../parts/Dialog";
import { blocksOf, ruleOf, type Block, type Inline } from "../text/markdown";
import { closeDialog, openDialog } from "./dialogs";

/** The documentation of a rule. */
export function RuleDialog({ rule }: { readonly rule: string }): JSX.Element {
  const { data, error } = useResource(rule, 0, api.rule);
  return (
    <Dialog title={rule} onClose={closeDialog} wide>
      <div class="rule-page">
        {error !== null && <p class="error-line">{error}</p>}
        {data === null && error === null && <p class="quiet">…</p>}
        {data !== null && blocksOf(data.text).map((block, at) => <Shown key={at} block={block} />)}
      </div>
    </Dialog>
  );
}

function Shown({ block }: { readonly block: Block }): JSX.Element {
  if (block.kind === "code") return <pre>{block.text}</pre>;
  return (
    <p>
      {block.parts.map((part, at) => (
        <Part key={at} part={part} />
      ))}
    </p>
  );
}

function Part({ part }: { readonly part: Inline }): JSX.Element {
  switch (part.kind) {
    case "text":
      return <>{part.text}</>;
    case "code":
      return <code>{part.text}</code>;
    case "strong":
      return <b>{part.text}</b>;
    case "link": {
      const rule = ruleOf(part.target);
      // The other pages of the documentation are not on this server.
      if (rule === null) return <>{part.text}</>;
      return (
        <button type="button" class="link" onClick={() => openDialog({ kind: "rule", rule })}>
          {part.text}
        </button>
      );
    }
  }
}
