// Answers that their callers have not taken yet: what may wait of them in all and of one user, and for how long nobody takes anything. Streams have a
// budget of their own (stream-budget.ts).

import type { ServerResponse } from "node:http";
import { type Fault, fault } from "@astraflow/protocol";
import type { ServiceEnvironment } from "@astraflow/services";
import { evictAboveTotal } from "../../environment/byte-total.ts";
import type { MetricsRegistry } from "../../environment/metrics-registry.ts";
import type { StreamReader } from "./stream-budget.ts";

const KiB = 1024;
export const answerLimits = {
  /** Bytes that wait in all answers together, and in those of one user or token of the configuration. */
  waitingBytesTotalMax: 256 * 1024 * KiB,
  waitingBytesPerUserMax: 128 * 1024 * KiB,
  /**
   * A caller that takes nothing for so long is cut off. It shows only when the system has room for more, which may be after a megabyte: one
   * that reads slowly needs minutes for that.
   */
  stalledMs: 300_000,
  /** How often that is looked for, and after how many more bytes the total is. */
  checkMs: 1_000,
  checkBytes: 1024 * KiB,
  /** Larger bodies are written in pieces of this size, so that it shows whether they are taken. */
  pieceBytes: 64 * KiB,
} as const;
export type AnswerLimits = Readonly<Record<keyof typeof answerLimits, number>>;

/** An answer whose head is out, as far as it has not been taken. */
interface UnreadAnswer {
  readonly caller: StreamReader;
  readonly raw: ServerResponse;
  /** What is still to be written to `raw`. */
  unwrittenBytes: number;
  seenBytes: number;
  progressAt: number;
}

const waitingBytesOf = ({ raw, unwrittenBytes }: UnreadAnswer): number => unwrittenBytes + raw.writableLength;

export class UnreadAnswers {
  readonly #environment: ServiceEnvironment;
  readonly #limits: AnswerLimits;
  readonly #metrics: ReturnType<typeof createAnswerMetrics>;
  readonly #answers = new Set<UnreadAnswer>();
  readonly #stopChecks: () => void;
  #uncheckedBytes = 0;

  constructor(environment: ServiceEnvironment, metrics: MetricsRegistry, limits: Partial<AnswerLimits> = {}) {
    this.#environment = environment;
    this.#limits = { ...answerLimits, ...limits };
    this.#metrics = createAnswerMetrics(metrics, () => this.#measure());
    this.#stopChecks = environment.timers.every(this.#limits.checkMs, () => this.#endStalled());
  }

  close(): void {
    this.#stopChecks();
  }

  /** Whether a body of this length has to be written with `writeBody`. */
  isLarge(body: string | Buffer): boolean {
    return body.length > this.#limits.pieceBytes;
  }

  /** Why this caller gets no further large answer now; null where it does. */
  capacityFault(caller: StreamReader, bytes: number): Fault | null {
    // Strangers have nothing large but the page, which is one buffer for all of them.
    if (caller.tenant === "") return null;
    let waiting = 0;
    for (const answer of this.#answers)
      if (answer.caller.user === caller.user && answer.caller.tenant === caller.tenant) waiting += waitingBytesOf(answer);
    const { waitingBytesPerUserMax } = this.#limits;
    // One is always given: its size has limits of its own.
    if (waiting === 0 || waiting + bytes <= waitingBytesPerUserMax) return null;
    this.#metrics.refuse();
    return fault("E.OVERLOADED", `${caller.user} left ${waiting} bytes of answers unread; read them or close their connections`);
  }

  /** Writes a body behind its head, a piece whenever the last one has left. A caller that has gone gets nothing, and counts no more. */
  writeBody(raw: ServerResponse, body: Buffer, caller: StreamReader): void {
    if (raw.destroyed) return;
    const answer = this.#add(raw, caller, body.length);
    const writePieces = (): void => {
      while (answer.unwrittenBytes > 0) {
        const at = body.length - answer.unwrittenBytes;
        const piece = body.subarray(at, at + this.#limits.pieceBytes);
        answer.unwrittenBytes -= piece.length;
        if (!raw.write(piece) && answer.unwrittenBytes > 0) return void raw.once("drain", writePieces);
      }
      raw.end();
    };
    // A caller that vanishes shows as an error too; its close is all that matters.
    raw.on("error", () => raw.destroy());
    writePieces();
    this.#limitTotal(body.length);
  }

  /** To be called once a whole answer was handed to its socket, or a stream that is read as the caller takes it. */
  watch(raw: ServerResponse, caller: StreamReader, isStream = false): void {
    // Nearly all of them have left by now.
    if ((raw.writableLength === 0 && !isStream) || raw.destroyed) return;
    this.#add(raw, caller, 0);
    this.#limitTotal(raw.writableLength);
  }

  #add(raw: ServerResponse, caller: StreamReader, unwrittenBytes: number): UnreadAnswer {
    const answer = { caller, raw, unwrittenBytes, seenBytes: -1, progressAt: this.#environment.clock.monotonic() };
    this.#answers.add(answer);
    raw.once("close", () => this.#answers.delete(answer));
    return answer;
  }

  #limitTotal(addedBytes: number): void {
    this.#uncheckedBytes += addedBytes;
    if (this.#uncheckedBytes < this.#limits.checkBytes) return;
    this.#uncheckedBytes = 0;
    evictAboveTotal(this.#answers, {
      bytesOf: waitingBytesOf,
      bytesMax: this.#limits.waitingBytesTotalMax,
      // Many small ones that nobody takes must not cost a large one that is being taken.
      compare: (one, other) => one.progressAt - other.progressAt,
      evict: (answer) => this.#cut(answer, "total"),
    });
  }

  #endStalled(): void {
    const now = this.#environment.clock.monotonic();
    for (const answer of this.#answers) {
      const waiting = waitingBytesOf(answer);
      // Grows with every piece that is handed to the socket, which is when the one before has left.
      const seenBytes = (answer.raw.socket?.bytesWritten ?? 0) - waiting;
      if (waiting === 0 || seenBytes !== answer.seenBytes) {
        answer.seenBytes = seenBytes;
        answer.progressAt = now;
      } else if (now - answer.progressAt >= this.#limits.stalledMs) this.#cut(answer, "stalled");
    }
  }

  #cut(answer: UnreadAnswer, reason: "total" | "stalled"): void {
    this.#answers.delete(answer);
    answer.raw.destroy();
    this.#metrics.cut(answer.caller.tenant, reason);
  }

  #measure(): { readonly answers: number; readonly bytes: number } {
    let bytes = 0;
    for (const answer of this.#answers) bytes += waitingBytesOf(answer);
    return { answers: this.#answers.size, bytes };
  }
}

function createAnswerMetrics(metrics: MetricsRegistry, measure: () => { readonly answers: number; readonly bytes: number }) {
  const unread = metrics.gauge("http_answers_unread", "Answers that their callers have not taken yet.", []).withLabels();
  const waiting = metrics.gauge("http_answer_waiting_bytes", "Bytes of answers that wait to be taken.", []).withLabels();
  const refused = metrics.counter(
    "http_answers_refused_total",
    "Large answers refused because their user left others unread.",
    [],
  );
  const cut = metrics.counter(
    "http_answers_cut_total",
    "Answers cut off because nobody took them (stalled) or too much waited (total).",
    ["tenant", "reason"],
  );
  metrics.onScrape(() => {
    const { answers, bytes } = measure();
    unread.set(answers);
    waiting.set(bytes);
  });
  return {
    refuse: () => refused.withLabels().add(1),
    cut: (tenant: string, reason: string) => cut.withLabels(tenant, reason).add(1),
  };
}
