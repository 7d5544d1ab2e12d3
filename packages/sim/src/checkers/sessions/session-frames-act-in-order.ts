// I19, order: each end acts on a prefix, without gaps and repeats, of what the other end sent in the session. As seen from outside: sequence numbers
// are used one after the other and never change their meaning; a handler that starts and a result in the log came in a frame before which none
// is missing; and stored feedback was delivered, and is stored once however often it was delivered.

import { type ApiExchange, Checker } from "../../checking/checker.ts";
import type { ObservedFact } from "../../checking/merged-log.ts";
import { describeItems, type ObservedFrame } from "../../checking/observed-frame.ts";
import type { FrameDirection } from "../../checking/observed-sessions.ts";
import { getOrCreate } from "../../kernel/get-or-create.ts";
import type { Observation, OutputChunkPage } from "../../observation/observation.ts";

interface FramePosition {
  readonly direction: FrameDirection;
  readonly seq: number;
}

/** Facts that only a worker's result can cause. */
const resultByFact: Readonly<Record<string, string>> = { "task.succeeded": "SUCCEEDED", "task.skipped": "SKIPPED" };

export class SessionFramesActInOrder extends Checker {
  /** Where a dispatch arrived, by boot and `<task>#<fence>`; where a result did, by `<status> <task>#<fence>`. */
  readonly #arrived = new Map<string, FramePosition[]>();
  /** Output chunks that were delivered, as `<task>#<fence> "<text>"`. */
  readonly #deliveredChunks = new Set<string>();
  /** Feedback frames that were delivered, and feedback facts in the log, by `<task>#<fence>`. */
  readonly #feedbackCounts = new Map<string, { readonly frames: Set<string>; reported: number }>();
  /** The first generation uses up numbers without sending them. */
  readonly #workersSkippingNumbers = new Set<string>();

  override onObservation(observation: Observation): void {
    if (observation.kind !== "handler" || observation.event !== "starts") return;
    const { boot, worker, task, fence } = observation;
    this.#checkCause(`${boot} ${task}#${fence}`, `${worker} started ${task}#${fence}`, task, worker);
  }

  override onFrame(frame: ObservedFrame): void {
    const { type, instance, toward, event, seq, payload } = frame;
    if (type === "control.handshake" && payload["protocol"] === 1) this.#workersSkippingNumbers.add(instance);
    if (seq !== null && event === "sent") {
      if (toward === "scheduler" && this.#workersSkippingNumbers.has(instance))
        this.#workersSkippingNumbers.add(this.sessions.directionOf(frame).name);
      this.#checkNumber(frame, seq);
    }
    if (event === "delivered" && this.sessions.isFromCurrentSocket(frame)) this.#handleArrival(frame);
  }

  override onExchange({ call, answer }: ApiExchange): void {
    if (call.route === "readChunks" && answer.status === 200)
      this.#checkPrinted(call.params["task"] ?? "", Number(call.params["fence"]), answer.body as OutputChunkPage);
  }

  override onFact(fact: ObservedFact): void {
    const { type, data, position, tenant, task, attempt } = fact;
    if (type === "task.feedback") return this.#checkFeedbackFact(fact);
    const status = resultByFact[type];
    if (status === undefined || data["worker"] === null || data["why"] !== undefined) return;
    const name = `${status} ${attempt}`;
    // Without fences the result may be of an earlier dispatch of the same task.
    if (this.world.isLegacyWorker(String(data["worker"]))) return;
    this.#checkCause(name, `position ${position} of ${tenant} records ${name}`, task);
  }

  #checkNumber(frame: ObservedFrame, seq: number): void {
    const { name, itemsByNumber, lastNumber } = this.sessions.directionOf(frame);
    const { worker, connection } = frame;
    const before = itemsByNumber.get(seq);
    this.checkedCount++;
    if (this.#workersSkippingNumbers.has(name)) return;
    if (before === undefined) {
      if (itemsByNumber.size > 0 && seq !== lastNumber + 1)
        this.fail(`${name}: ${seq} was sent after ${lastNumber}`, worker, connection);
      return;
    }
    // Withdrawn dispatches are missing in a repeat; nothing is ever added.
    const added = describeItems(frame).find((item) => !before.includes(item));
    const was = before.join(", ") || "empty";
    if (added !== undefined)
      this.fail(`${name}: ${seq} was ${was} and is now ${added}`, worker, connection, ...taskIdsIn(before));
  }

  #handleArrival(frame: ObservedFrame): void {
    const { boot, seq, sessionKey, type, payload } = frame;
    const place = { direction: this.sessions.directionOf(frame), seq: seq ?? Number.NEGATIVE_INFINITY };
    const record = (name: string): void => void getOrCreate(this.#arrived, name, () => []).push(place);
    for (const { attempt } of frame.dispatches) record(`${boot} ${attempt}`);
    for (const { of, outcome, task, fence, attempt } of frame.reports) {
      if (of === "result") record(`${outcome} ${attempt}`);
      if (of === "feedback")
        this.#feedbackOf(task, fence).frames.add(seq === null ? `frame ${frame.frame}` : `${sessionKey} ${seq}`);
    }
    if (type !== "biz.exec.feedback") return;
    for (const chunk of describeChunks(String(payload["task_id"]), payload["fence"], payload["chunks"]))
      this.#deliveredChunks.add(chunk);
  }

  #feedbackOf(task: string, fence: unknown): { readonly frames: Set<string>; reported: number } {
    return getOrCreate(this.#feedbackCounts, `${task}#${String(fence)}`, () => ({ frames: new Set<string>(), reported: 0 }));
  }

  #checkFeedbackFact({ data, position, tenant, task }: ObservedFact): void {
    if (this.world.isLegacyWorker(this.projection.task(task)?.worker ?? "")) return;
    const one = this.#feedbackOf(task, data["fence"]);
    this.checkedCount++;
    if (++one.reported > one.frames.size)
      this.fail(
        `position ${position} of ${tenant} is the ${one.reported}. feedback report of ${task}#${String(data["fence"])}, of which ` +
          `${one.frames.size} came`,
        task,
      );
  }

  #checkCause(name: string, what: string, ...about: readonly string[]): void {
    const places = this.#arrived.get(name) ?? [];
    const [first] = places;
    this.checkedCount++;
    if (first === undefined) return this.fail(`${what}, and no such frame has arrived`, ...about);
    if (places.some(({ direction, seq }) => seq <= direction.arrivedUpTo)) return;
    const { direction, seq } = first;
    this.fail(
      `${what} in frame ${seq} of ${direction.name}, which arrived without gaps only up to ${direction.arrivedUpTo}`,
      ...about,
    );
  }

  /** Stored output of an attempt: every chunk was delivered, and none is stored twice. */
  #checkPrinted(task: string, fence: number, { items }: OutputChunkPage): void {
    if (this.world.isLegacyWorker(this.projection.grants.get(`${task}#${fence}`)?.worker ?? "")) return;
    const shown = new Set<string>();
    for (const chunk of items.flatMap(({ chunks }) => describeChunks(task, fence, chunks))) {
      this.checkedCount++;
      if (!this.#deliveredChunks.has(chunk)) return this.fail(`feedback is stored that was never delivered: ${chunk}`, task);
      if (shown.has(chunk)) return this.fail(`feedback is stored twice: ${chunk}`, task);
      shown.add(chunk);
    }
  }
}

const taskIdsIn = (items: readonly string[]): string[] => items.map((item) => item.split(" ").at(-1)?.split("#")[0] ?? "");

function describeChunks(task: string, fence: unknown, chunks: unknown): string[] {
  if (!Array.isArray(chunks)) return [];
  return chunks.map((chunk: { readonly text?: string }) => `${task}#${String(fence)} "${chunk.text}"`);
}
