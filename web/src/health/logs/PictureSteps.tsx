import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { api, type TagRequest } from "../../load/api";
import { useResource } from "../../load/resource";
import { grouped } from "../../text/numbers";

/** The pictures of a tag, one at a time. */
export function PictureSteps({
  version,
  ...request
}: TagRequest & { readonly version: number }): JSX.Element {
  const [at, setAt] = useState<number | null>(null);
  const { data, error } = useResource(request, `${version} ${at ?? ""}`, (wanted, signal) =>
    api.logPicture({ ...wanted, at }, signal),
  );
  if (error !== null) return <p class="error-line">{error}</p>;
  if (data === null) return <p class="quiet note">…</p>;
  const step = data.steps[data.at] ?? 0;
  return (
    <figure class="picture-steps">
      <img
        src={`data:${data.media_type};base64,${data.data}`}
        alt={`${request.tag} in step ${step}`}
      />
      <figcaption>
        step {grouped(step)}
        {data.steps.length > 1 && (
          <input
            type="range"
            min="0"
            max={data.steps.length - 1}
            step="1"
            value={data.at}
            aria-label={`Step of ${request.tag}`}
            onInput={(event) => setAt(Number(event.currentTarget.value))}
          />
        )}
      </figcaption>
    </figure>
  );
}
