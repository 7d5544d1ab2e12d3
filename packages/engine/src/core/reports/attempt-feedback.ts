// What a node reports while it runs. The latest progress is in the task's row, output in rows of its own. Nothing here ends an attempt.

import { mergeResults } from "@astraflow/graph";
import { type Fault, isRecord } from "@astraflow/protocol";
import type { ReportFeedbackCommand } from "../../interface/command.ts";
import type { AnswerBody } from "../../interface/effect.ts";
import { isOlderDialect } from "../../interface/settings.ts";
import { type RunRow, runOf, type TaskRow } from "../../storage/rows.ts";
import { type PrintProgress, type ReportedProgress, readTaskState, withTaskState } from "../rows/task-state.ts";
import type { UnitOfWork } from "../unit-of-work/unit-of-work.ts";
import { applied, findAttempt, repeated } from "./acks-and-outcomes.ts";

/** Results overtake what was logged before them: so long after the end of a task its log is still open. */
const lateFeedbackMs = 60_000;
/** Results that feedback may collect in a row, and metadata beside them. */
const resultsLimits = { bytesMax: 256 * 1024, depthMax: 64 };
const metadataLimits = { bytesMax: 64 * 1024, depthMax: 64 };
const metricsMax = 256;

export function handleFeedback(work: UnitOfWork, report: ReportFeedbackCommand): AnswerBody | Fault {
  const found = findAttempt(work, report);
  if (found === "ended") return handleLateFeedback(work, report);
  if (!("task" in found)) return found;
  const { run, task, connected } = found;
  const feedback = parseFeedback(report.data);
  const { row: printed, chunks } = storeNewChunks(work, task, feedback.chunks, !isOlderDialect(connected.about.dialect));
  const reported = mergeProgress(work, readTaskState(printed).said, feedback);
  const merged =
    feedback.results === undefined ? null : mergeResults(readTaskState(printed).results, feedback.results, resultsLimits);
  const change = { ...(reported !== null && { said: reported }), ...(merged !== null && { results: merged.value }) };
  const row = withTaskState(printed, change);
  if (row.state !== task.state) work.put(row);
  const isDropped = feedback.results !== undefined && merged === null;
  // Record the present stage with every progress or message, so that readers of the log see a whole state.
  const stage =
    feedback.progress === undefined && feedback.message === undefined ? {} : pickField(reported ?? undefined, "stage");
  const more = { ...stage, ...(chunks !== null && { chunks }), ...(isDropped && { resultsDropped: true }) };
  recordFeedback(work, run, task, feedback, more);
  work.changeFleet({ type: "ack", worker: report.worker, task: report.task, fence: task.fence, stored: false, at: work.now });
  return applied;
}

/** Stored under the fence of the attempt that ended the task. An ended task never changes; only its log grows. */
function handleLateFeedback(work: UnitOfWork, report: ReportFeedbackCommand): AnswerBody {
  const run = work.run(runOf(report.task));
  const task = work.task(report.task);
  // Without a fence of its own it may be about an attempt before the last one.
  if (run === null || task === null || task.fence !== report.fence) return repeated;
  if (work.now - (task.endedAt ?? 0) > lateFeedbackMs) return repeated;
  const dialect = work.fleet.workerInSession(report.worker, report.session)?.about.dialect ?? "";
  const feedback = parseFeedback(report.data);
  const { row, chunks } = storeNewChunks(work, task, feedback.chunks, !isOlderDialect(dialect));
  // Only how far it has printed: otherwise the next late feedback would overwrite this one.
  if (row !== task) work.put(row);
  recordFeedback(work, run, task, feedback, { ...(chunks === null ? {} : { chunks }), isLate: true });
  return applied;
}

/** One feedback, parsed. */
interface ParsedFeedback extends Omit<ReportedProgress, "at"> {
  /** A patch of the results. */
  readonly results?: JsonObject;
  readonly chunks: readonly JsonObject[];
  /** The door had to truncate it. */
  readonly truncated?: true;
}

type JsonObject = Readonly<Record<string, unknown>>;

function parseFeedback(data: JsonObject): ParsedFeedback {
  const { stage, progress, message, metrics } = data;
  const { results, summary, ...metadata } = isRecord(data.metadata) ? data.metadata : {};
  const patch = { ...(summary !== undefined && { summary }), ...(isRecord(results) && results) };
  return {
    ...(typeof stage === "string" && { stage }),
    ...(typeof progress === "number" && { progress }),
    ...(typeof message === "string" && { message }),
    ...(isRecord(metrics) && { metrics: numericFields(metrics) }),
    ...(Object.keys(patch).length > 0 && { results: patch }),
    ...(Object.keys(metadata).length > 0 && { metadata }),
    chunks: Array.isArray(data.chunks) ? data.chunks.filter(isRecord) : [],
    ...(data.truncated === true && { truncated: true }),
  };
}

const numericFields = (bag: JsonObject): Record<string, number> =>
  Object.fromEntries(Object.entries(bag).filter((entry): entry is [string, number] => typeof entry[1] === "number"));

/** The merged progress of the node; null when this feedback contained none. */
function mergeProgress(
  work: UnitOfWork,
  reported: ReportedProgress | undefined,
  feedback: ParsedFeedback,
): ReportedProgress | null {
  const { stage, progress, message, metrics, metadata } = feedback;
  if ([stage, progress, message, metrics, metadata].every((word) => word === undefined)) return null;
  const numbers = metrics === undefined ? reported?.metrics : boundedMetrics({ ...reported?.metrics, ...metrics });
  const merged = metadata === undefined ? null : mergeResults(reported?.metadata, metadata, metadataLimits);
  const bag = merged?.value ?? reported?.metadata ?? {};
  return {
    ...(stage === undefined ? pickField(reported, "stage") : { stage }),
    ...(progress === undefined ? pickField(reported, "progress") : { progress }),
    ...(message === undefined ? pickField(reported, "message") : { message }),
    at: work.now,
    ...(numbers !== undefined && { metrics: numbers }),
    ...(Object.keys(bag).length > 0 && { metadata: bag }),
  };
}

const pickField = <K extends keyof ReportedProgress>(
  reported: ReportedProgress | undefined,
  key: K,
): Pick<ReportedProgress, K> | object => (reported?.[key] === undefined ? {} : { [key]: reported[key] });

const boundedMetrics = (metrics: Readonly<Record<string, number>>): Readonly<Record<string, number>> =>
  Object.keys(metrics).length <= metricsMax ? metrics : Object.fromEntries(Object.entries(metrics).slice(0, metricsMax));

function recordFeedback(work: UnitOfWork, run: RunRow, task: TaskRow, feedback: ParsedFeedback, more: JsonObject): void {
  const { chunks: _, results, ...fields } = feedback;
  const patch = results === undefined || more.resultsDropped === true ? {} : { results };
  work.recordRunFact(run, "task.feedback", { task: task.id, fence: task.fence, ...fields, ...patch, ...more });
}

/** A chunk of output, numbered within its attempt. */
interface NumberedChunk {
  readonly number: number;
  readonly chunk: JsonObject;
}

/**
 * Writes the new ones of these chunks. `isCounted`: the worker numbers the chunks of an attempt, so that repeats after a reset are
 * recognised; other workers use indexes differently. Returns the row with the updated counters, and which chunks were written.
 */
function storeNewChunks<R extends TaskRow>(
  work: UnitOfWork,
  task: R,
  chunks: readonly JsonObject[],
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
function numberNewChunks(from: number, chunks: readonly JsonObject[], isCounted: boolean): NumberedChunk[] {
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
function toStoredChunk(chunk: JsonObject): JsonObject {
  const { mime_type, data_base64, ...rest } = chunk;
  return {
    ...rest,
    ...(mime_type === undefined ? {} : { mimeType: mime_type }),
    ...(data_base64 === undefined ? {} : { data: data_base64 }),
  };
}
