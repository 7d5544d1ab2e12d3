// What the nodes of a run printed, as lines: from any line on, of one node or of all, by channel, with search.

import type { ChunkRow, RunDetail, RunRow, StoreReader, TaskRow } from "@astraflow/engine";
import { nodeAt, readTaskState, taskPathOf } from "@astraflow/engine";
import type { Plan } from "@astraflow/graph";
import { type LogLine, limits, type RunLog } from "@astraflow/protocol";
import { unknownCursor } from "../documents/page-cursors.ts";
import type { PrintedChunk } from "../events/event-lookup.ts";
import { isoTime } from "../presentation/iso-time.ts";
import { cachedPlanOf } from "../presentation/plan-cache.ts";

export const runLogLimits = {
  linesMax: 1_000,
  linesDefault: 200,
  /** Rows of chunks that one request reads; a search that needs more says so and goes on with its cursor. */
  rowsMax: 500,
  rowsAtOnce: 50,
  /** Tasks read at once, and looked at in all for one answer. */
  tasksPage: 1_000,
  tasksMax: 20_000,
  /** An answer ends behind the row of chunks that crosses this. */
  charsMax: 4 * 1024 * 1024,
} as const;

export interface RunLogQuery {
  /** Node id or task id; absent: all nodes, one after the other. */
  readonly node?: string;
  readonly channel?: string;
  readonly words?: string;
  readonly cursor: RunLogCursor | null;
  /** Line within the node's attempt to begin with. */
  readonly from: number;
  readonly limit: number;
}

/** Where to go on: the task, a row of its chunks by its first one, and the piece of a line within that row. */
export interface RunLogCursor {
  readonly task: string;
  readonly chunk: number;
  readonly piece: number;
}

export function decodeLogCursor(text: string | undefined): RunLogCursor | null {
  if (text === undefined) return null;
  const parts = /^([0-9]{1,12})\.([0-9]{1,12}):(.+)$/.exec(text);
  if (parts === null) throw unknownCursor();
  return { chunk: Number(parts[1]), piece: Number(parts[2]), task: parts[3] ?? "" };
}

/** Reads on until the page is full, everything was read, or one request has read enough. */
export async function readRunLog(
  reader: StoreReader,
  { run, workflow }: Pick<RunDetail, "run" | "workflow">,
  query: RunLogQuery,
): Promise<Omit<RunLog, "asOf">> {
  const plan = cachedPlanOf(workflow);
  const page = createLogPageBuilder(query);
  const start = await findCursorTask(reader, plan, run, query);
  const only = await findTaskByName(reader, plan, run, query.node);
  let tasksSeen = 0;
  for await (const task of only === null ? iterateTasks(reader, run, start) : [only]) {
    const from = task.id === start?.id ? query.cursor : null;
    const progress = matchesNode(plan, task, query.node)
      ? await readTaskLog(reader, run.tenant, { task, nodeId: nodeAt(plan, taskPathOf(task))?.id ?? "", start: from }, page)
      : nothingRead;
    tasksSeen++;
    if (progress.isStopped || page.hasReadEnough() || tasksSeen >= runLogLimits.tasksMax)
      return page.build(`${progress.cursorPart}:${task.id}`);
  }
  return page.build(null);
}

/** The task that a cursor goes on with. One that is not asked for is where the search stood, and nothing of it was read. */
async function findCursorTask(reader: StoreReader, plan: Plan, run: RunRow, { cursor, node }: RunLogQuery) {
  if (cursor === null) return null;
  const isOwn = cursor.task.startsWith(`${run.id}.`);
  const { task } = isOwn ? await reader.page({ page: "task", tenant: run.tenant, task: cursor.task }) : { task: null };
  const isBare = cursor.chunk === 0 && cursor.piece === 0;
  if (task !== null && (isBare || matchesNode(plan, task, node))) return task;
  throw unknownCursor();
}

/** The one task that is asked for by its id or slot: no other need be looked at. */
async function findTaskByName(reader: StoreReader, plan: Plan, run: RunRow, name: string | undefined) {
  if (name === undefined) return null;
  const id = name.startsWith(`${run.id}.`) ? name : `${run.id}.${name}`;
  if (nodeAt(plan, taskPathOf({ id, run: run.id })) === null) return null;
  return (await reader.page({ page: "task", tenant: run.tenant, task: id })).task;
}

/** The tasks of a run in id order, from one of them on, page by page. */
async function* iterateTasks(reader: StoreReader, run: RunRow, start: TaskRow | null): AsyncGenerator<TaskRow> {
  if (start !== null) yield start;
  const query = { page: "tasks", tenant: run.tenant, run: run.id, limit: runLogLimits.tasksPage } as const;
  for (let from: { after?: string } = start === null ? {} : { after: start.id }; ; ) {
    const { items, next } = await reader.page({ ...query, ...from });
    yield* items;
    if (next === null) return;
    from = { after: next };
  }
}

/** How far a task was read, as a cursor says it; `isCut`: the page is full, or one request has read enough. */
interface ReadProgress {
  readonly cursorPart: string;
  readonly isStopped: boolean;
}

/** Nothing of it was read, nor need be. */
const nothingRead: ReadProgress = { cursorPart: "0.0", isStopped: false };

/** What one task printed. Rows are read on by chunk: a line may fill many of them. */
async function readTaskLog(
  reader: StoreReader,
  tenant: string,
  { task, nodeId, start }: { readonly task: TaskRow; readonly nodeId: string; readonly start: RunLogCursor | null },
  page: LogPageBuilder,
): Promise<ReadProgress> {
  // Its row knows whether it has printed anything: most have not, and need not be asked for.
  if (readTaskState(task).printed === undefined) return nothingRead;
  let fromChunk = start?.chunk ?? 0;
  let skip = start?.piece ?? 0;
  // Whoever asks for a line, and has no cursor yet, is led to it by the store.
  let first = start === null && page.from > 0 ? { fromLine: page.from } : null;
  for (;;) {
    const query = { page: "chunks", tenant, task: task.id, limit: runLogLimits.rowsAtOnce } as const;
    const { items } = await reader.page({ ...query, ...(first ?? { fromChunk }) });
    first = null;
    for (const row of items) {
      const full = page.addRow(row, splitIntoPieces(row, task, nodeId), skip);
      if (full !== null) return { cursorPart: `${row.first}.${full}`, isStopped: true };
      skip = 0;
      fromChunk = row.first + row.count;
      if (page.isTooLarge()) return page.finishTask(fromChunk, true);
    }
    if (items.length < runLogLimits.rowsAtOnce) return page.finishTask(fromChunk, false);
    if (page.hasReadEnough()) return page.finishTask(fromChunk, true);
  }
}

type LogPageBuilder = ReturnType<typeof createLogPageBuilder>;

/** The lines of one answer. The last one is held back until it is known whether it goes on. */
export function createLogPageBuilder(query: RunLogQuery) {
  const items: LogLine[] = [];
  let open: LogLine | null = null;
  let rows = 0;
  let chars = 0;
  const close = (): void => {
    if (open !== null && matchesLogFilter(open, query)) items.push(open);
    open = null;
  };
  return {
    from: query.from,
    isTooLarge: (): boolean => chars > runLogLimits.charsMax,
    hasReadEnough: (): boolean => rows >= runLogLimits.rowsMax,
    /** The pieces of one row but the first few; gives the piece that finds no room. */
    addRow(row: ChunkRow, pieces: readonly LinePiece[], skip: number): number | null {
      rows += 1;
      chars += row.body.length;
      for (const [index, piece] of pieces.entries()) {
        if (index < skip || piece.entry.line < query.from) continue;
        const longer: LogLine | null = open === null ? null : joinPiece(open, piece);
        if (longer === null) {
          close();
          if (items.length >= query.limit) return index;
        }
        open = longer ?? piece.entry;
      }
      return null;
    },
    /** The last line is whole, or as much of it as one answer shows. */
    finishTask(chunk: number, isCut: boolean): ReadProgress {
      close();
      return { cursorPart: `${chunk}.0`, isStopped: isCut };
    },
    build: (nextCursor: string | null): Omit<RunLog, "asOf"> => ({
      items,
      nextCursor,
      ...(query.words !== undefined && { hits: items.length, isHitsPartial: nextCursor !== null }),
    }),
  };
}

function matchesNode(plan: Plan, task: TaskRow, node: string | undefined): boolean {
  return node === undefined || task.id === node || taskPathOf(task) === node || nodeAt(plan, taskPathOf(task))?.id === node;
}

function matchesLogFilter(line: LogLine, { channel, words }: RunLogQuery): boolean {
  if (channel !== undefined && line.channel !== channel) return false;
  return words === undefined || line.text.toLowerCase().includes(words.toLowerCase());
}

/** What one chunk adds: a line, or more of one that was printed before. */
interface LinePiece {
  readonly entry: LogLine;
  readonly continuesLine: boolean;
}

export function splitIntoPieces(row: ChunkRow, task: Pick<TaskRow, "id">, nodeId: string): LinePiece[] {
  const pieces: LinePiece[] = [];
  const words = { nodeId, taskId: task.id, fence: row.fence, at: isoTime(row.at) };
  const chunks = JSON.parse(row.body) as PrintedChunk[];
  let { line } = row;
  let isOpen = continuesPreviousRow(row, chunks);
  for (const { channel, text, data, mimeType } of chunks) {
    if (text === undefined) {
      const bytes = { ...words, line: Math.max(0, line - 1), channel, text: data ?? "", mimeType: mimeType ?? defaultBytesType };
      pieces.push({ entry: bytes, continuesLine: false });
      continue;
    }
    for (const part of splitLines(text)) {
      pieces.push({ entry: { ...words, line: isOpen ? line - 1 : line++, channel, text: part }, continuesLine: isOpen });
      isOpen = false;
    }
    if (text !== "") isOpen = !text.endsWith("\n");
  }
  return pieces;
}

/** Of bytes whose worker did not say what they are. */
const defaultBytesType = "application/octet-stream";

/** The longer line; null where another channel came in between, or where it would be longer than an answer may say in one. */
function joinPiece(before: LogLine, { entry, continuesLine: goesOn }: LinePiece): LogLine | null {
  const isSame = goesOn && before.line === entry.line && before.channel === entry.channel && before.mimeType === undefined;
  if (!isSame || before.text.length + entry.text.length > limits.textCharsMax) return null;
  return { ...before, text: before.text + entry.text };
}

const splitLines = (text: string): string[] => (text === "" ? [] : (text.endsWith("\n") ? text.slice(0, -1) : text).split("\n"));

/** Whether the first text of a row goes on with the line of the row before: then fewer lines begin in it than it has. */
function continuesPreviousRow(row: ChunkRow, chunks: readonly PrintedChunk[]): boolean {
  let begun = 0;
  let isOpen = false;
  for (const { text } of chunks)
    if (text !== undefined && text !== "") {
      begun += splitLines(text).length - (isOpen ? 1 : 0);
      isOpen = !text.endsWith("\n");
    }
  return begun > row.lines;
}
