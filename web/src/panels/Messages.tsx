import type { JSX } from "preact";
import { connection, rank, run } from "../state/store";
import { dismiss, toasts, type ToastAction } from "../state/toasts";
import { Icon } from "../parts/Icon";
import { endText, hasFailed } from "../text/states";

/** Short messages in a corner, below the headline, whose buttons they leave free. */
export function Toasts(): JSX.Element {
  return (
    <div class="toasts" aria-live="polite">
      {toasts.value.map((each) => (
        <div
          key={each.id}
          class={`toast ${each.kind}`}
          role={each.kind === "error" ? "alert" : "status"}
        >
          <span>
            {each.text}
            {each.slug !== "" && <span class="slug"> [{each.slug}]</span>}
          </span>
          {each.action !== null && <ActionButton id={each.id} action={each.action} />}
          <button type="button" class="icon" aria-label="Dismiss" onClick={() => dismiss(each.id)}>
            <Icon name="close" />
          </button>
        </div>
      ))}
    </div>
  );
}

function ActionButton({ id, action }: { id: number; action: ToastAction }): JSX.Element {
  return (
    <button
      type="button"
      class="small"
      onClick={() => {
        dismiss(id);
        action.act();
      }}
    >
      {action.text}
    </button>
  );
}

/** What concerns the whole page, and is no headline. */
export function Banner(): JSX.Element | null {
  if (connection.value === "lost") {
    return (
      <div class="banner warning" role="alert">
        The connection to the server is lost. The page may be out of date. Reconnecting…
      </div>
    );
  }
  const current = rank.value;
  if (current === null || run.value?.kind !== "live") return null;
  const told = run.value.headline?.kind;
  if (told === "crash" || told === "loss" || told === "lost") return null;
  if (current.state === "lost") {
    return (
      <div class="banner warning" role="alert">
        The process of rank {current.rank} is gone. Its graphs, hits and losses are still shown; its
        tensors cannot be fetched.
      </div>
    );
  }
  if (current.state === "ended" && run.value.headline === null) {
    const isBad = hasFailed(current);
    return (
      <div class={isBad ? "banner warning" : "banner"} role={isBad ? "alert" : "status"}>
        The training {current.is_terminated && "was "}
        {endText(current)}
      </div>
    );
  }
  return null;
}
