// What a node says while it runs: stage, progress, numbers, results that grow, what it prints. Its last words are kept in the task's row,
// the text in rows of its own, and the log points there. Nothing here ends an attempt.

import { mergeResults } from "@astraflow/graph";
import type { Fault } from "@astraflow/protocol";
import type { FeedbackTask } from "../../command.ts";
import type { AnswerBody } from "../../effect.ts";
import { type RunRow, runOf, type TaskRow } from "../../rows.ts";
import { isQuiet } from "../../thresholds.ts";
import type { Board } from "../board/board.ts";
import { type Said, stateOf, withState } from "../rows/state.ts";
import type { Tools } from "../tools.ts";
import { printChunks } from "./print.ts";
import { standing } from "./word.ts";

const applied: AnswerBody = { of: "word", applied: true };
const repeated: AnswerBody = { of: "word", applied: false };

/** Results overtake what was logged before them: so long after the end of a task its log is still open. */
const lateFeedbackMs = 60_000;
/** Results that feedback may gather in a row, and other words beside them. */
const resultsLimits = { bytesMax: 256 * 1024, depthMax: 64 };
const metadataLimits = { bytesMax: 64 * 1024, depthMax: 64 };
const metricsMax = 256;

export function hearFeedback(board: Board, tools: Tools, word: FeedbackTask): AnswerBody | Fault {
  const found = standing(board, tools, word);
  if (found === "ended") return appendLate(board, tools, word);
  if (!("task" in found)) return found;
  const { run, task, seat } = found;
  const heard = readFeedback(word.data);
  const { row: printed, chunks } = printChunks(board, task, heard.chunks, !isQuiet(seat.about.dialect));
  const said = saidAfter(board, stateOf(printed).said, heard);
  const merged = heard.results === undefined ? null : mergeResults(stateOf(printed).results, heard.results, resultsLimits);
  const row = withState(printed, {
    ...(said === null ? {} : { said }),
    ...(merged === null ? {} : { results: merged.value }),
  });
  if (row.state !== task.state) board.put(row);
  const isDropped = heard.results !== undefined && merged === null;
  // The stage it has goes with what it says of itself: whoever follows is told a whole state.
  const stage = heard.progress === undefined && heard.message === undefined ? {} : pickSaid(said ?? undefined, "stage");
  tellFeedback(board, run, task, heard, {
    ...stage,
    ...(chunks === null ? {} : { chunks }),
    ...(isDropped ? { resultsDropped: true } : {}),
  });
  board.move({ move: "ack", worker: word.worker, task: word.task, fence: task.fence, stored: false });
  return applied;
}

/** Kept under the fence of the attempt that ended the task. It changes nothing of what the node is: terminal is for ever. */
function appendLate(board: Board, tools: Tools, word: FeedbackTask): AnswerBody {
  const run = board.run(runOf(word.task));
  const task = board.task(word.task);
  // Without a fence of its own it may be about an attempt before the last one.
  if (run === null || task === null || task.fence !== word.fence) return repeated;
  if (board.now - (task.endedAt ?? 0) > lateFeedbackMs) return repeated;
  const dialect = tools.floor.seatOf(word.worker, word.session)?.about.dialect ?? "";
  const heard = readFeedback(word.data);
  const { row, chunks } = printChunks(board, task, heard.chunks, !isQuiet(dialect));
  // Only how far it has printed: else the next late word would be written over this one.
  if (row !== task) board.put(row);
  tellFeedback(board, run, task, heard, { ...(chunks === null ? {} : { chunks }), isLate: true });
  return applied;
}

/** The words of one feedback, told apart. */
interface Heard {
  readonly stage?: string;
  readonly progress?: number;
  readonly message?: string;
  readonly metrics?: Readonly<Record<string, number>>;
  /** A patch of the results. */
  readonly results?: Readonly<Record<string, unknown>>;
  readonly metadata?: Readonly<Record<string, unknown>>;
  readonly chunks: readonly Readonly<Record<string, unknown>>[];
  /** The door had to cut it. */
  readonly truncated?: true;
}

type Bag = Readonly<Record<string, unknown>>;

const bagOf = (value: unknown): Bag | undefined =>
  typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Bag) : undefined;

function readFeedback(data: Bag): Heard {
  const { results, summary, ...metadata } = bagOf(data.metadata) ?? {};
  const patch = { ...(summary === undefined ? {} : { summary }), ...bagOf(results) };
  const metrics = bagOf(data.metrics);
  return {
    ...(typeof data.stage === "string" ? { stage: data.stage } : {}),
    ...(typeof data.progress === "number" ? { progress: data.progress } : {}),
    ...(typeof data.message === "string" ? { message: data.message } : {}),
    ...(metrics === undefined ? {} : { metrics: numbersIn(metrics) }),
    ...(Object.keys(patch).length === 0 ? {} : { results: patch }),
    ...(Object.keys(metadata).length === 0 ? {} : { metadata }),
    chunks: Array.isArray(data.chunks) ? data.chunks.flatMap((chunk): Bag[] => (bagOf(chunk) === undefined ? [] : [chunk])) : [],
    ...(data.truncated === true ? { truncated: true } : {}),
  };
}

const numbersIn = (bag: Bag): Record<string, number> =>
  Object.fromEntries(Object.entries(bag).flatMap(([key, value]) => (typeof value === "number" ? [[key, value]] : [])));

/** What the node last said of itself; null when this feedback said nothing of that kind. */
function saidAfter(board: Board, said: Said | undefined, heard: Heard): Said | null {
  const { stage, progress, message, metrics, metadata } = heard;
  if ([stage, progress, message, metrics, metadata].every((word) => word === undefined)) return null;
  const numbers = metrics === undefined ? said?.metrics : boundedMetrics({ ...said?.metrics, ...metrics });
  const bag =
    metadata === undefined ? said?.metadata : (mergeResults(said?.metadata, metadata, metadataLimits)?.value ?? said?.metadata);
  return {
    ...(stage === undefined ? pickSaid(said, "stage") : { stage }),
    ...(progress === undefined ? pickSaid(said, "progress") : { progress }),
    ...(message === undefined ? pickSaid(said, "message") : { message }),
    at: board.now,
    ...(numbers === undefined ? {} : { metrics: numbers }),
    ...(bag === undefined || Object.keys(bag).length === 0 ? {} : { metadata: bag }),
  };
}

const pickSaid = <K extends keyof Said>(said: Said | undefined, key: K): Pick<Said, K> | object =>
  said?.[key] === undefined ? {} : { [key]: said[key] };

const boundedMetrics = (metrics: Readonly<Record<string, number>>): Readonly<Record<string, number>> =>
  Object.keys(metrics).length <= metricsMax ? metrics : Object.fromEntries(Object.entries(metrics).slice(0, metricsMax));

function tellFeedback(board: Board, run: RunRow, task: TaskRow, heard: Heard, more: Bag): void {
  const { chunks: _, results, ...words } = heard;
  const patch = results === undefined || more.resultsDropped === true ? {} : { results };
  board.tell(run, "task.feedback", { task: task.id, fence: task.fence, ...words, ...patch, ...more });
}
