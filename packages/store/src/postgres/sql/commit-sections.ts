// How a turn's rows travel: all texts in one list, all numbers in another, row after row, section after section; a third list tells
// where each section starts. commit-payload.ts fills the sections, commit-function.ts writes them.

import { mapKinds, type RowKind, rowKinds } from "../../common/row-shape.ts";
import { type Column, columnsOf, isNumeric } from "./columns.ts";

/** Places of a section's cells: a row is so many texts and so many numbers. */
export interface CommitSection {
  readonly texts: readonly string[];
  readonly numbers: readonly string[];
  /** Where the section's count and its two starts stand in the list of sections, from 0. */
  readonly offset: number;
}

/** `i`: rows that must not exist. `p`: either. Others are changes to rows that this turn has locked and read. */
export interface RowSection extends CommitSection {
  readonly kind: RowKind;
  readonly mode: "i" | "p" | "u";
  readonly columns: readonly Column[];
  /** A bit for each column that is written. */
  readonly mask: number;
}

/** The usual changes: where nothing else has changed, only these columns are sent and set. Everything else is written whole. */
const commonUpdates: Readonly<Partial<Record<RowKind, readonly (readonly string[])[]>>> = {
  task: [
    ["acked", "due", "state"],
    ["phase", "acked", "due", "endedAt", "result", "error"],
    ["phase", "line", "rank", "fence", "attempt", "deliveries", "worker", "boot", "epoch", "acked", "due", "grantedAt"],
  ],
  run: [
    ["phase", "open", "startedAt", "endedAt", "due"],
    ["open", "due", "bindings"],
  ],
  worker: [["seenAt", "due"]],
};

let sectionCount = 0;
const nextOffset = () => 3 * sectionCount++;

function createRowSection(kind: RowKind, mode: RowSection["mode"], fields: readonly string[] | null): RowSection {
  const all = columnsOf(kind);
  const columns = fields === null ? all : all.filter(({ field }) => field === "id" || fields.includes(field));
  const names = (isWanted: (column: Column) => boolean) => columns.filter(isWanted).map(({ field }) => field);
  return {
    kind,
    mode,
    columns,
    texts: names((column) => !isNumeric(column)),
    // A task that enters a line is told its place in the order of entering; the store makes a rank of it.
    numbers: [...names(isNumeric), ...(kind === "task" && fields === null ? ["place"] : [])],
    mask: all.reduce((mask, column, bit) => (columns.includes(column) ? mask | (1 << bit) : mask), 0),
    offset: nextOffset(),
  };
}

export interface KindSections {
  readonly insert: RowSection;
  readonly upsert: RowSection;
  /** The first that holds all that has changed is used; the last one holds everything. */
  readonly updates: readonly RowSection[];
}

export const rowSections = mapKinds(
  (kind): KindSections => ({
    insert: createRowSection(kind, "i", null),
    upsert: createRowSection(kind, "p", null),
    updates: [...(commonUpdates[kind] ?? []), null].map((fields) => createRowSection(kind, "u", fields)),
  }),
);

function createSection(texts: readonly string[], numbers: readonly string[]): CommitSection {
  return { texts, numbers, offset: nextOffset() };
}

export const dropSections = mapKinds(() => createSection(["id"], []));
/** `tenant`, `line`: places in the lists of the call. */
export const readySection = createSection([], ["tenant", "line", "cost"]);
export const eventSection = createSection(["subject", "facts"], ["tenant", "first", "count"]);
export const chunkSection = createSection(["task", "body"], ["fence", "first", "count", "at", "line", "lines"]);
export const mailSection = createSection(["replica", "id", "body"], ["epoch"]);

/** All of them, in any order: each knows its place. */
export const sections: readonly CommitSection[] = [
  ...rowKinds.flatMap((kind) => [rowSections[kind].insert, ...rowSections[kind].updates, rowSections[kind].upsert]),
  ...rowKinds.map((kind) => dropSections[kind]),
  readySection,
  eventSection,
  chunkSection,
  mailSection,
];

/** The cell of a row `u` in SQL, as a text or a double precision. */
export function cellSql(section: CommitSection, name: string): string {
  const text = section.texts.indexOf(name);
  return text >= 0 ? `p_texts[u.t + ${text + 1}]` : `p_numbers[u.n + ${section.numbers.indexOf(name) + 1}]`;
}

/** The rows of a section in SQL, as `u`: where the cells of each begin, and `o`, its place in the section from 1. */
export function sectionRowsSql({ offset: at, texts, numbers }: CommitSection): string {
  return `(SELECT p_sections[${at + 2}] + g * ${texts.length} AS t, p_sections[${at + 3}] + g * ${numbers.length} AS n, g + 1 AS o
      FROM generate_series(0, p_sections[${at + 1}] - 1) g OFFSET 0) u`;
}

export const hasRowsSql = ({ offset: at }: CommitSection): string => `p_sections[${at + 1}] > 0`;
