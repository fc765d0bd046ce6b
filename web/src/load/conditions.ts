import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { Catalogue } from "../wire";
import { api } from "./api";
import type { Resource } from "./resource";
import { messageOf } from "../state/toasts";

const held = signal<Resource<Catalogue>>({ data: null, error: null, loading: false });

/** The watch conditions; they do not change while a server runs, so they are fetched once. */
export function useConditions(): Resource<Catalogue> {
  useEffect(() => {
    if (held.value.data !== null || held.value.loading) return;
    held.value = { data: null, error: null, loading: true };
    api
      .conditions()
      .then((data) => (held.value = { data, error: null, loading: false }))
      .catch(
        (error: unknown) => (held.value = { data: null, error: messageOf(error), loading: false }),
      );
  }, []);
  return held.value;
}
