// Compares what a page shows with what a program printed. Ids, times, durations and ports differ from run to run; `…` stands for what the
// page leaves out. An id that the page shows once means the same thing wherever the page uses it again. No test lives here.

const uuid = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}";

/** What a piece of a shown text may be in reality. The first that fits counts. */
const pieces: readonly { readonly shown: string; readonly actual: string; readonly isName?: true }[] = [
  { shown: uuid, actual: uuid, isName: true },
  { shown: "\\b[0-9a-f]{8}-…", actual: uuid, isName: true },
  {
    shown: "\\d{4}-\\d\\d-\\d\\d[T ]\\d\\d:\\d\\d:\\d\\d(?:\\.\\d+)?Z",
    actual: "\\d{4}-\\d\\d-\\d\\d[T ]\\d\\d:\\d\\d:\\d\\d(?:\\.\\d+)?Z",
  },
  { shown: "\\b\\d\\d:\\d\\d:\\d\\dZ", actual: "\\d\\d:\\d\\d:\\d\\dZ" },
  { shown: "\\b\\d+(?:\\.\\d+)? (?:ms|s|min|h|%)(?=\\W|$)", actual: "\\d+(?:\\.\\d+)? (?:ms|s|min|h|%)" },
  { shown: "\\b\\d{13,16}\\b", actual: "\\d{13,16}" },
  { shown: "(?<=^id: )\\d+(?:\\.\\d+)?", actual: "\\d+(?:\\.\\d+)?" },
  { shown: "\\b[A-Za-z0-9_]{3,}…", actual: "[\\w.…-]+", isName: true },
  { shown: "^…$", actual: "[\\s\\S]*?" },
  { shown: "…", actual: "[^\\n]*?" },
  { shown: " {2,}", actual: " {2,}" },
];
const anyPiece = new RegExp(pieces.map(({ shown }) => `(${shown})`).join("|"), "gm");

/** Names that a page has shown, with what they were in reality. */
export type KnownNames = Map<string, string>;

/** Null, or how the two texts differ. Names that are shown for the first time become known. */
export function compareText(shown: string, actual: string, known: KnownNames): string | null {
  const [left, right] = [trimLines(shown), trimLines(actual)];
  const names: string[] = [];
  let pattern = "^";
  let at = 0;
  for (const found of left.matchAll(anyPiece)) {
    pattern += escapePattern(left.slice(at, found.index));
    at = found.index + found[0].length;
    const piece = pieces[found.slice(1).findIndex((group) => group !== undefined)];
    if (piece?.isName === undefined) pattern += piece?.actual ?? "";
    else if (known.has(found[0])) pattern += escapePattern(known.get(found[0]) ?? "");
    else {
      names.push(found[0]);
      pattern += `(${piece.actual})`;
    }
  }
  const match = new RegExp(`${pattern}${escapePattern(left.slice(at))}$`).exec(right);
  if (match === null) return `${JSON.stringify(left)} is shown, but it is ${JSON.stringify(right)}`;
  names.forEach((name, index) => learnName(name, match[index + 1] ?? "", known));
  return null;
}

/** Knows it as it was shown, by its beginning (`01a1dfb4-…`) and by its end (`8b8131c92c12`), as commands take ids. */
export function learnName(shown: string, actual: string, known: KnownNames): void {
  known.set(shown, actual);
  if (!new RegExp(`^${uuid}$`).test(shown)) return;
  known.set(`${shown.slice(0, 8)}-…`, actual);
  known.set(shown.slice(-12), actual.slice(-12));
}

/** A text of the page with the names that are known by now. */
export function fillInNames(text: string, known: KnownNames): string {
  const longestFirst = [...known].sort(([a], [b]) => b.length - a.length);
  return longestFirst.reduce((filled, [shown, actual]) => filled.replaceAll(shown, actual), text);
}

const trimLines = (text: string): string => text.replace(/ +$/gm, "").trim();

const escapePattern = (text: string): string => text.replace(/[.*+?^${}()|[\]\\/]/g, "\\$&");
