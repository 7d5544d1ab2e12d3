// What pages have in common at the door: their cursors, which say nothing to whoever holds them. One that is damaged, or of another list, is
// refused: it would begin anew, or look like the end.

import { type Fault, fault } from "@astraflow/protocol";

export const spellCursor = (next: string | null): string | null =>
  next === null ? null : Buffer.from(next, "utf8").toString("base64url");

/** A cursor of ours, as far as that can be seen; the store looks at it once more. */
export function readDocsCursor(cursor: string | undefined): string | undefined {
  if (cursor === undefined) return undefined;
  const text = Buffer.from(cursor, "base64url").toString("utf8");
  if (spellCursor(text) === cursor && isPlace(text)) return text;
  throw strangeCursor();
}

/** The cursor of a list whose items go by their ids: `of` is what it lists. */
export const spellIdCursor = (of: string, id: string | null): string | null => spellCursor(id === null ? null : `${of} ${id}`);

export function readIdCursor(of: string, cursor: string | undefined): string | undefined {
  if (cursor === undefined) return undefined;
  const text = Buffer.from(cursor, "base64url").toString("utf8");
  if (spellCursor(text) === cursor && text.startsWith(`${of} `)) return text.slice(of.length + 1);
  throw strangeCursor();
}

export const strangeCursor = (): Fault =>
  fault("E.REQUEST.INVALID", "query.cursor must be the nextCursor of a page before", { path: "query.cursor" });

function isPlace(text: string): boolean {
  try {
    const place: unknown = JSON.parse(text);
    return Array.isArray(place) && place.length === 2 && place.every((part) => typeof part === "string");
  } catch {
    // Not JSON: then it is none of our cursors, which is the answer.
    return false;
  }
}
