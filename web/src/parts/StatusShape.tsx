import type { JSX } from "preact";
import type { EvidenceStatus } from "../wire";

/** How certain a finding is, as a shape: a full diamond, a half circle, an empty circle. */
export function StatusShape({ status }: { readonly status: EvidenceStatus }): JSX.Element {
  return (
    <svg class={`status-shape ${status}`} viewBox="0 0 14 14" width="14" height="14" aria-hidden>
      {status === "established" && (
        <path class="full" d="M7 0.500l6.500 6.500-6.500 6.500L0.500 7z" />
      )}
      {status !== "established" && <circle cx="7" cy="7" r="5.500" />}
      {status === "supported" && <path class="full" d="M7 1.500a5.500 5.500 0 0 1 0 11z" />}
    </svg>
  );
}
