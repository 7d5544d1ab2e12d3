// Opaque cursors of pages. One that is damaged, or of another list, is refused: it would begin anew, or look like the end.

import { type Fault, fault } from "@astraflow/protocol";

export const encodeCursor = (next: string | null): string | null =>
  next === null ? null : Buffer.from(next, "utf8").toString("base64url");

export function decodeCursor(cursor: string | undefined, isOwn: (text: string) => boolean): string | undefined {
  if (cursor === undefined) return undefined;
  const text = Buffer.from(cursor, "base64url").toString("utf8");
  if (encodeCursor(text) === cursor && isOwn(text)) return text;
  throw unknownCursor();
}

/** A cursor of ours, as far as that can be seen; the store looks at it once more. */
export const decodeDocumentCursor = (cursor: string | undefined): string | undefined => decodeCursor(cursor, isDocumentPosition);

/** The cursor of a list whose items go by their ids: `of` is what it lists. */
export const encodeIdCursor = (of: string, id: string | null): string | null => encodeCursor(id === null ? null : `${of} ${id}`);

export const decodeIdCursor = (of: string, cursor: string | undefined): string | undefined =>
  decodeCursor(cursor, (text) => text.startsWith(`${of} `))?.slice(of.length + 1);

/** Its form was checked at the door. */
export const unknownCursor = (): Fault =>
  fault("E.CURSOR.UNKNOWN", "query.cursor is not a cursor of this list; begin without one", { path: "query.cursor" });

function isDocumentPosition(text: string): boolean {
  try {
    const position: unknown = JSON.parse(text);
    return Array.isArray(position) && position.length === 2 && position.every((part) => typeof part === "string");
  } catch {
    // Not JSON: then it is none of our cursors, which is the answer.
    return false;
  }
}

/** Texts of a request's query that may be absent. */
export type OptionalTexts<Names extends string> = { readonly [Name in Names]?: string | undefined };
