/** A part of a sentence: plain text, or code that was between backticks. */
export interface SentencePart {
  readonly text: string;
  readonly isCode: boolean;
}

/**
 * The parts of a sentence with code between backticks. A backtick without a partner is plain text.
 */
export function splitCode(sentence: string): readonly SentencePart[] {
  const pieces = sentence.split("`");
  if (pieces.length % 2 === 0) return [{ text: sentence, isCode: false }];
  return pieces
    .map((text, at) => ({ text, isCode: at % 2 === 1 }))
    .filter(({ text }) => text !== "");
}

/**
 * The pieces of a text between which it may wrap: text without paths, and the parts of each path,
 * each with the "/" at its end.
 */
export function wrappingPieces(text: string): readonly string[] {
  return text
    .split(/(\S*\/\S*)/)
    .flatMap((piece, at) => (at % 2 === 1 ? piece.split(/(?<=\/)/) : [piece]))
    .filter((piece) => piece !== "");
}
