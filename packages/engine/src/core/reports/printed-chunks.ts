// The output of attempts: chunks numbered within their attempt, written once even if they are sent again, with the lines that begin in them.

import type { TaskRow } from "../../storage/rows.ts";
import { type PrintProgress, readTaskState, withTaskState } from "../rows/task-state.ts";
import type { UnitOfWork } from "../unit-of-work/unit-of-work.ts";

type ChunkFields = Readonly<Record<string, unknown>>;

interface NumberedChunk {
  readonly number: number;
  readonly chunk: ChunkFields;
}

/**
 * Writes the new ones of these chunks. `isCounted`: the worker numbers the chunks of an attempt, so that repeats after a reset are
 * recognised; other workers use indexes differently. Returns the row with the updated counters, and which chunks were written.
 */
export function storeNewChunks<R extends TaskRow>(
  work: UnitOfWork,
  task: R,
  chunks: readonly ChunkFields[],
  isCounted: boolean,
): { row: R; chunks: { first: number; count: number } | null } {
  const known = readTaskState(task).printed;
  let printed: PrintProgress = known?.fence === task.fence ? known : { fence: task.fence, chunks: 0, lines: 0 };
  const fresh = numberNewChunks(printed.chunks, chunks, isCounted);
  const [first] = fresh;
  if (first === undefined) return { row: task, chunks: null };
  for (const group of contiguousGroups(fresh)) printed = storeGroup(work, task, printed, group);
  return { row: withTaskState(task, { printed }), chunks: { first: first.number, count: fresh.length } };
}

/** Each new chunk with its number; one whose number is stored already is left out. */
function numberNewChunks(from: number, chunks: readonly ChunkFields[], isCounted: boolean): NumberedChunk[] {
  const fresh: NumberedChunk[] = [];
  let next = from;
  for (const chunk of chunks) {
    const index = isCounted && typeof chunk.index === "number" ? chunk.index : next;
    if (index < next) continue;
    fresh.push({ number: index, chunk });
    next = index + 1;
  }
  return fresh;
}

/** Split where numbers are missing: a row holds chunks without a gap. */
function contiguousGroups(chunks: readonly NumberedChunk[]): NumberedChunk[][] {
  const groups: NumberedChunk[][] = [];
  for (const one of chunks) {
    const last = groups.at(-1);
    if (last !== undefined && last.at(-1)?.number === one.number - 1) last.push(one);
    else groups.push([one]);
  }
  return groups;
}

function storeGroup(work: UnitOfWork, task: TaskRow, printed: PrintProgress, group: readonly NumberedChunk[]): PrintProgress {
  const first = group[0]?.number ?? printed.chunks;
  let { lines } = printed;
  let isOpen = printed.isOpen === true;
  for (const { chunk } of group) {
    if (typeof chunk.text !== "string" || chunk.text === "") continue;
    lines += countNewLines(chunk.text, isOpen);
    isOpen = !chunk.text.endsWith("\n");
  }
  work.storeChunks({
    task: task.id,
    fence: task.fence,
    first,
    count: group.length,
    at: work.now,
    line: printed.lines,
    lines: lines - printed.lines,
    body: JSON.stringify(group.map(({ chunk }) => toStoredChunk(chunk))),
  });
  return { fence: task.fence, chunks: first + group.length, lines, ...(isOpen ? { isOpen: true } : {}) };
}

/** Counts lines that begin in this text: at its start, unless it continues one, and after every line end that is not its last character. */
function countNewLines(text: string, isOpen: boolean): number {
  let begun = isOpen ? 0 : 1;
  for (let at = text.indexOf("\n"); at >= 0 && at < text.length - 1; at = text.indexOf("\n", at + 1)) begun++;
  return begun;
}

/** A chunk as it is stored: the fields of the wire in the spelling of the API. */
function toStoredChunk(chunk: ChunkFields): ChunkFields {
  const { mime_type, data_base64, ...rest } = chunk;
  return {
    ...rest,
    ...(mime_type === undefined ? {} : { mimeType: mime_type }),
    ...(data_base64 === undefined ? {} : { data: data_base64 }),
  };
}
