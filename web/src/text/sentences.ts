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
