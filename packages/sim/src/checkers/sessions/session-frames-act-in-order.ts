// I19, order: each end acts on a prefix, without gaps and repeats, of what the other end sent in the session. As seen from outside: sequence numbers
// are used one after the other and never change their meaning; a handler that starts and a result in the log came in a frame before which none
// is missing; and stored feedback was delivered, and is stored once however often it was delivered.

import { type ApiExchange, Checker } from "../../checking/checker.ts";
import { type FrameDirection, FrameDirections } from "../../checking/frame-directions.ts";
import { getOrCreate } from "../../checking/get-or-create.ts";
import type { ObservedFact } from "../../checking/merged-log.ts";
import { describeItems, dispatchesIn, type ObservedFrame, taskReportsIn } from "../../checking/observed-frame.ts";
import type { Observation, OutputChunkPage } from "../../observation/observation.ts";

interface FramePosition {
  readonly direction: FrameDirection;
  readonly seq: number;
}

/** Facts that only a worker's result can cause. */
const resultByFact: Readonly<Record<string, string>> = { "task.succeeded": "SUCCEEDED", "task.skipped": "SKIPPED" };

export class SessionFramesActInOrder extends Checker {
  readonly #directions = new FrameDirections();
  /** Where a dispatch arrived, by boot and `<task>#<fence>`; where a result did, by `<status> <task>#<fence>`. */
  readonly #arrived = new Map<string, FramePosition[]>();
  /** Output chunks that were delivered, as `<task>#<fence> "<text>"`. */
  readonly #deliveredChunks = new Set<string>();
  /** Feedback frames that were delivered, and feedback facts in the log, by `<task>#<fence>`. */
  readonly #feedbackCounts = new Map<string, { readonly frames: Set<string>; told: number }>();
  /** The first generation uses up numbers without sending them. */
  readonly #workersSkippingNumbers = new Set<string>();

  override onObservation(observation: Observation): void {
    if (observation.kind === "link" && observation.event === "dialled")
      this.#directions.recordDial(observation.boot, observation.connection);
    if (observation.kind !== "handler" || observation.event !== "starts") return;
    const grant = `${observation.task}#${observation.fence}`;
    this.#checkCause(`${observation.boot} ${grant}`, `${observation.worker} started ${grant}`, [
      observation.task,
      observation.worker,
    ]);
  }

  override onFrame(frame: ObservedFrame): void {
    const { observation, seq, type, payload } = frame;
    if (type === "control.handshake" && payload["protocol"] === 1) this.#workersSkippingNumbers.add(observation.instance);
    if (seq !== null && observation.event === "sent") {
      if (observation.toward === "scheduler" && this.#workersSkippingNumbers.has(observation.instance))
        this.#workersSkippingNumbers.add(this.#directions.directionOf(frame).name);
      this.#checkNumber(frame, seq);
    }
    this.#directions.observeFrame(frame);
    if (observation.event === "delivered" && this.#directions.isFromCurrentSocket(frame)) this.#handleArrival(frame, seq);
  }

  override onExchange({ call, answer }: ApiExchange): void {
    if (call.route === "readChunks" && answer.status === 200)
      this.#checkPrinted(call.params["task"] ?? "", Number(call.params["fence"]), answer.body as OutputChunkPage);
  }

  override onFact(fact: ObservedFact): void {
    const { type, data, position, tenant } = fact;
    if (type === "task.feedback") return this.#checkFeedbackFact(fact);
    const status = resultByFact[type];
    if (status === undefined || data["worker"] === null || data["why"] !== undefined) return;
    const name = `${status} ${String(data["task"])}#${Number(data["fence"])}`;
    // Without fences the result may be of an earlier dispatch of the same task.
    if (this.world.isLegacyWorker(String(data["worker"]))) return;
    this.#checkCause(name, `position ${position} of ${tenant} records ${name}`, [String(data["task"])]);
  }

  #checkNumber(frame: ObservedFrame, seq: number): void {
    const direction = this.#directions.directionOf(frame);
    const about = [frame.observation.worker, frame.observation.connection];
    const items = describeItems(frame);
    const before = direction.itemsByNumber.get(seq);
    this.checkedCount++;
    if (before === undefined) {
      if (
        direction.itemsByNumber.size > 0 &&
        seq !== direction.lastNumber + 1 &&
        !this.#workersSkippingNumbers.has(direction.name)
      )
        this.reportViolation(`${direction.name}: ${seq} was sent after ${direction.lastNumber}`, about);
      return;
    }
    // Withdrawn dispatches are missing in a repeat; nothing is ever added.
    const added = items.find((item) => !before.includes(item));
    if (added !== undefined && !this.#workersSkippingNumbers.has(direction.name))
      this.reportViolation(`${direction.name}: ${seq} was ${before.join(", ") || "empty"} and is now ${added}`, [
        ...about,
        ...taskIdsIn(before),
      ]);
  }

  #record(name: string, place: FramePosition): void {
    getOrCreate(this.#arrived, name, () => []).push(place);
  }

  #handleArrival(frame: ObservedFrame, seq: number | null): void {
    const { observation, sessionKey } = frame;
    const place = { direction: this.#directions.directionOf(frame), seq: seq ?? Number.NEGATIVE_INFINITY };
    for (const { task, fence } of dispatchesIn(frame)) this.#record(`${observation.boot} ${task}#${fence}`, place);
    for (const { of, outcome, task, fence } of taskReportsIn(frame))
      if (of === "result") this.#record(`${outcome} ${task}#${fence}`, place);
    for (const chunk of feedbackChunksIn(frame)) this.#deliveredChunks.add(chunk);
    for (const { of, task, fence } of taskReportsIn(frame))
      if (of === "feedback")
        this.#feedbackCountOf(task, fence).frames.add(seq === null ? `frame ${observation.frame}` : `${sessionKey} ${seq}`);
  }

  #feedbackCountOf(task: string, fence: unknown): { readonly frames: Set<string>; told: number } {
    const name = `${task}#${String(fence)}`;
    const one = getOrCreate(this.#feedbackCounts, name, () => ({ frames: new Set<string>(), told: 0 }));
    return one;
  }

  #checkFeedbackFact({ data, position, tenant }: ObservedFact): void {
    const task = String(data["task"]);
    if (this.world.isLegacyWorker(this.projection.task(task)?.worker ?? "")) return;
    const one = this.#feedbackCountOf(task, data["fence"]);
    this.checkedCount++;
    if (++one.told > one.frames.size)
      this.reportViolation(
        `position ${position} of ${tenant} is the ${one.told}. word of feedback of ${task}#${String(data["fence"])}, of which ` +
          `${one.frames.size} came`,
        [task],
      );
  }

  #checkCause(name: string, what: string, about: readonly string[]): void {
    const places = this.#arrived.get(name) ?? [];
    this.checkedCount++;
    if (places.length === 0) return this.reportViolation(`${what}, and no such frame has arrived`, about);
    if (places.some(({ direction, seq }) => seq <= direction.arrivedUpTo)) return;
    const [{ direction, seq } = { direction: null, seq: 0 }] = places;
    this.reportViolation(
      `${what} in frame ${seq} of ${direction?.name}, which arrived without gaps only up to ${direction?.arrivedUpTo}`,
      about,
    );
  }

  /** Stored output of an attempt: every chunk was delivered, and none is stored twice. */
  #checkPrinted(task: string, fence: number, { items }: OutputChunkPage): void {
    if (this.world.isLegacyWorker(this.projection.grants.get(`${task}#${fence}`)?.worker ?? "")) return;
    const shown = new Set<string>();
    for (const chunk of items.flatMap(({ chunks }) => describeChunks(task, fence, chunks))) {
      this.checkedCount++;
      if (!this.#deliveredChunks.has(chunk))
        return this.reportViolation(`feedback is stored that was never delivered: ${chunk}`, [task]);
      if (shown.has(chunk)) return this.reportViolation(`feedback is stored twice: ${chunk}`, [task]);
      shown.add(chunk);
    }
  }
}

const taskIdsIn = (items: readonly string[]): string[] => items.map((item) => item.split(" ").at(-1)?.split("#")[0] ?? "");

function feedbackChunksIn({ type, payload }: ObservedFrame): string[] {
  return type === "biz.exec.feedback" ? describeChunks(String(payload["task_id"]), payload["fence"], payload["chunks"]) : [];
}

function describeChunks(task: string, fence: unknown, chunks: unknown): string[] {
  if (!Array.isArray(chunks)) return [];
  return chunks.map((chunk: { readonly text?: string }) => `${task}#${String(fence)} "${chunk.text}"`);
}
