import type { JSX } from "preact";

/** The text, with the places where one of the words occurs marked, whatever their case. */
export function Highlighted({
  text,
  words,
}: {
  readonly text: string;
  readonly words: readonly string[];
}): JSX.Element {
  return (
    <>
      {pieces(text, words).map(({ piece, isMatch }, at) =>
        isMatch ? <mark key={at}>{piece}</mark> : <span key={at}>{piece}</span>,
      )}
    </>
  );
}

export function pieces(
  text: string,
  words: readonly string[],
): readonly { readonly piece: string; readonly isMatch: boolean }[] {
  const escaped = words
    .filter((word) => word !== "")
    .map((word) => word.replaceAll(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  if (escaped.length === 0) return [{ piece: text, isMatch: false }];
  return text
    .split(new RegExp(`(${escaped.join("|")})`, "gi"))
    .map((piece, at) => ({ piece, isMatch: at % 2 === 1 }))
    .filter(({ piece }) => piece !== "");
}
