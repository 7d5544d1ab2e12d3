// I19: what an end's upper layer acts on is a prefix, without gaps and without repeats, of what the other end sent in that session. Seen from
// outside: numbers are used one after the other and mean the same for ever; a handler that starts and a word that shows in the log came in a
// frame before which nothing is missing; a piece of feedback that was stored was delivered, and is stored once however often it came.

import type { Checker, CheckerContext } from "../../checking/checker.ts";
import { type FrameDirection, FrameDirections } from "../../checking/frame-directions.ts";
import type { ObservedFact } from "../../checking/merged-log.ts";
import { describeItems, dispatchesIn, type ObservedFrame, taskReportsIn } from "../../checking/observed-frame.ts";
import type { OutputChunkPage } from "../../observation/observation.ts";

interface FramePosition {
  readonly way: FrameDirection;
  readonly seq: number;
}

/** Facts that only the words of a worker can bring about. */
const resultByFact: Readonly<Record<string, string>> = { "task.succeeded": "SUCCEEDED", "task.skipped": "SKIPPED" };

export function checkSessionFramesActInOrder({ reportViolation, projection, world }: CheckerContext): Checker {
  const directions = new FrameDirections();
  /** Where a dispatch arrived, by boot and `<task>#<fence>`; where a result did, by `<status> <task>#<fence>`. */
  const arrived = new Map<string, FramePosition[]>();
  /** Pieces of feedback that were delivered, as `<task>#<fence> "<text>"`; and those that a reading of the store has shown. */
  const deliveredChunks = new Set<string>();
  /** Frames of feedback that were delivered, and words of it that the log tells, by `<task>#<fence>`. */
  const feedbackCounts = new Map<string, { readonly frames: Set<string>; told: number }>();
  /** The first generation uses up numbers without sending them. */
  const workersSkippingNumbers = new Set<string>();
  let checkedCount = 0;

  const checkNumber = (frame: ObservedFrame, seq: number): void => {
    const direction = directions.directionOf(frame);
    const about = [frame.seen.worker, frame.seen.connection];
    const items = describeItems(frame);
    const before = direction.itemsByNumber.get(seq);
    checkedCount++;
    if (before === undefined) {
      if (direction.itemsByNumber.size > 0 && seq !== direction.lastNumber + 1 && !workersSkippingNumbers.has(direction.name))
        reportViolation(`${direction.name}: ${seq} was sent after ${direction.lastNumber}`, about);
      return;
    }
    // Dispatches that were taken back are missing in a repeat; nothing is ever added.
    const added = items.find((item) => !before.includes(item));
    if (added !== undefined && !workersSkippingNumbers.has(direction.name))
      reportViolation(`${direction.name}: ${seq} was ${before.join(", ") || "empty"} and is now ${added}`, [
        ...about,
        ...taskIdsIn(before),
      ]);
  };

  const record = (name: string, place: FramePosition): void => {
    const places = arrived.get(name) ?? [];
    places.push(place);
    arrived.set(name, places);
  };

  const handleArrival = (frame: ObservedFrame, seq: number | null): void => {
    const { seen: observation, sessionKey } = frame;
    const place = { way: directions.directionOf(frame), seq: seq ?? Number.NEGATIVE_INFINITY };
    for (const { task, fence } of dispatchesIn(frame)) record(`${observation.boot} ${task}#${fence}`, place);
    for (const { of, outcome: says, task, fence } of taskReportsIn(frame))
      if (of === "result") record(`${says} ${task}#${fence}`, place);
    for (const chunk of feedbackChunksIn(frame)) deliveredChunks.add(chunk);
    for (const { of, task, fence } of taskReportsIn(frame))
      if (of === "feedback")
        feedbackCountOf(task, fence).frames.add(seq === null ? `frame ${observation.frame}` : `${sessionKey} ${seq}`);
  };

  const feedbackCountOf = (task: string, fence: unknown): { readonly frames: Set<string>; told: number } => {
    const name = `${task}#${String(fence)}`;
    const one = feedbackCounts.get(name) ?? { frames: new Set<string>(), told: 0 };
    feedbackCounts.set(name, one);
    return one;
  };

  const checkFeedbackFact = ({ data, position, tenant }: ObservedFact): void => {
    const task = String(data["task"]);
    if (world.isLegacyWorker(projection.task(task)?.worker ?? "")) return;
    const one = feedbackCountOf(task, data["fence"]);
    checkedCount++;
    if (++one.told > one.frames.size)
      reportViolation(
        `position ${position} of ${tenant} is the ${one.told}. word of feedback of ${task}#${String(data["fence"])}, of which ` +
          `${one.frames.size} came`,
        [task],
      );
  };

  /** What it came in had nothing missing before it. */
  const hasNothingMissingBefore = ({ way: direction, seq }: FramePosition): boolean => seq <= direction.arrivedUpTo;

  const checkCause = (name: string, what: string, about: readonly string[]): void => {
    const places = arrived.get(name) ?? [];
    checkedCount++;
    if (places.length === 0) return reportViolation(`${what}, and no frame that says so has arrived`, about);
    if (places.some(hasNothingMissingBefore)) return;
    const [{ way: direction, seq } = { way: null, seq: 0 }] = places;
    reportViolation(
      `${what} by frame ${seq} of ${direction?.name}, of which everything is there only up to ${direction?.arrivedUpTo}`,
      about,
    );
  };

  /** One reading of what an attempt printed: every piece came, and none is there twice. */
  const checkPrinted = (task: string, fence: number, { items }: OutputChunkPage): void => {
    if (world.isLegacyWorker(projection.grants.get(`${task}#${fence}`)?.worker ?? "")) return;
    const shown = new Set<string>();
    for (const chunk of items.flatMap(({ chunks }) => describeChunks(task, fence, chunks))) {
      checkedCount++;
      if (!deliveredChunks.has(chunk)) return reportViolation(`feedback is stored that never came: ${chunk}`, [task]);
      if (shown.has(chunk)) return reportViolation(`feedback is stored for the 2. time: ${chunk}`, [task]);
      shown.add(chunk);
    }
  };

  return {
    get checkedCount() {
      return checkedCount;
    },
    onObservation(observation) {
      if (observation.kind === "link" && observation.event === "dialled")
        directions.recordDial(observation.boot, observation.connection);
      if (observation.kind !== "handler" || observation.event !== "starts") return;
      const grant = `${observation.task}#${observation.fence}`;
      checkCause(`${observation.boot} ${grant}`, `${observation.worker} started ${grant}`, [
        observation.task,
        observation.worker,
      ]);
    },
    onFrame(frame) {
      const { seen: observation, seq, type, payload } = frame;
      if (type === "control.handshake" && payload["protocol"] === 1) workersSkippingNumbers.add(observation.instance);
      if (seq !== null && observation.event === "sent") {
        if (observation.toward === "scheduler" && workersSkippingNumbers.has(observation.instance))
          workersSkippingNumbers.add(directions.directionOf(frame).name);
        checkNumber(frame, seq);
      }
      directions.observeFrame(frame);
      if (observation.event === "delivered" && directions.isFromCurrentSocket(frame)) handleArrival(frame, seq);
    },
    onExchange({ call, answer }) {
      if (call.route === "readChunks" && answer.status === 200)
        checkPrinted(call.params["task"] ?? "", Number(call.params["fence"]), answer.body as OutputChunkPage);
    },
    onFact(fact) {
      const { type, data, position, tenant } = fact;
      if (type === "task.feedback") return checkFeedbackFact(fact);
      const status = resultByFact[type];
      if (status === undefined || data["worker"] === null || data["why"] !== undefined) return;
      const name = `${status} ${String(data["task"])}#${Number(data["fence"])}`;
      // Without fences it may have been said of an earlier dispatch of the same task.
      if (world.isLegacyWorker(String(data["worker"]))) return;
      checkCause(name, `position ${position} of ${tenant} tells of ${name}`, [String(data["task"])]);
    },
  };
}

const taskIdsIn = (items: readonly string[]): string[] => items.map((item) => item.split(" ").at(-1)?.split("#")[0] ?? "");

function feedbackChunksIn({ type, payload }: ObservedFrame): string[] {
  return type === "biz.exec.feedback" ? describeChunks(String(payload["task_id"]), payload["fence"], payload["chunks"]) : [];
}

function describeChunks(task: string, fence: unknown, chunks: unknown): string[] {
  if (!Array.isArray(chunks)) return [];
  return chunks.map((chunk: { readonly text?: string }) => `${task}#${String(fence)} "${chunk.text}"`);
}
