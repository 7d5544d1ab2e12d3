// One log line for each task that has ended. At thousands of tasks a second a write for each would cost more than all other log lines
// together, so lines are collected for a moment and written together; they are written before any other line of the log.

import { type AttemptOutcome, type LocalAttempt, summarizeOutcome } from "@astraflow/runtime";

export interface TaskLogOptions {
  readonly tenant: string;
  readonly worker: string;
  readonly pid: number;
  wallClock(): number;
  after(ms: number, call: () => void): () => void;
  write(text: string): void;
}

const collectMs = 100;
const collectedCharsMax = 32_768;
const infoLevel = 30;

export class TaskLog {
  readonly #options: TaskLogOptions;
  /** What all lines have in common, written once. */
  readonly #names: string;
  #collected = "";
  #cancelFlush: (() => void) | null = null;

  constructor(options: TaskLogOptions) {
    const { tenant, worker, pid } = options;
    this.#options = options;
    const names = { tenant, sender: { id: worker }, pid, "sender.id": worker, event: "task" };
    this.#names = JSON.stringify(names).slice(1, -1);
  }

  /** `durationMs`: since its handler was called. */
  add({ run, task, dispatch, frame, phase }: LocalAttempt, outcome: AttemptOutcome, durationMs: number): void {
    const { status, code } = summarizeOutcome(outcome);
    const msg = phase === "running" ? `task ${status}` : `task ${status}, but is no longer wanted`;
    const details = {
      type: frame?.type,
      id: frame?.id,
      corr: task,
      seq: frame?.seq,
      code,
      run,
      nodeType: dispatch.node_type,
      package: `${dispatch.package_name} ${dispatch.package_version}`,
      durationMs: Math.round(durationMs * 10) / 10,
      msg,
    };
    const { wallClock, after } = this.#options;
    this.#collected += `{"level":${infoLevel},"time":${wallClock()},${this.#names},${JSON.stringify(details).slice(1)}\n`;
    if (this.#collected.length >= collectedCharsMax) this.flush();
    else this.#cancelFlush ??= after(collectMs, () => this.flush());
  }

  flush(): void {
    this.#cancelFlush?.();
    this.#cancelFlush = null;
    const text = this.#collected;
    this.#collected = "";
    if (text !== "") this.#options.write(text);
  }
}
