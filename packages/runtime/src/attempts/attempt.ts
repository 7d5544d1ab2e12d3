// One attempt as its worker sees it: what was asked, how far it is, and the way to stop it.

import type { DispatchPayload } from "@astraflow/protocol";

/** The frame that brought an attempt, as log lines name it. */
export interface DispatchFrame {
  readonly type: string;
  readonly id: string;
  readonly seq?: number | undefined;
}

export interface LocalAttempt {
  readonly run: string;
  readonly task: string;
  readonly fence: number;
  readonly concurrencyKey: string | null;
  readonly dispatch: DispatchPayload;
  /** Null where it did not come from a session of this process. */
  readonly frame: DispatchFrame | null;
  readonly stopSignal: StopSignal;
  /** waiting: taken, no slot yet. running: its handler was called. finished: its outcome waits for the scheduler's ack. dropped: its outcome is not wanted. */
  phase: "waiting" | "running" | "finished" | "dropped";
  /** The handler was called and has not come back: it takes a slot, whatever became of the attempt. */
  isOccupyingSlot: boolean;
  /** Calls of the next of its chain that it waits for: while there are any it takes no slot. */
  pendingCalls: number;
  /** While waiting: when the wait for a slot ends in a refusal. */
  slotWaitEndsAt: number;
  readonly acceptedAt: number;
  startedAt: number;
}

export function createAttempt(
  dispatch: DispatchPayload,
  fence: number,
  waitEndsAt: number,
  takenAt = 0,
  frame: DispatchFrame | null = null,
): LocalAttempt {
  return {
    run: dispatch.run_id,
    task: dispatch.task_id,
    fence,
    concurrencyKey: dispatch.concurrency_key ?? null,
    dispatch,
    frame,
    stopSignal: new StopSignal(),
    phase: "waiting",
    isOccupyingSlot: false,
    pendingCalls: 0,
    slotWaitEndsAt: waitEndsAt,
    acceptedAt: takenAt,
    startedAt: 0,
  };
}

/** An attempt of an earlier process. Its handler has come back there, so of what was asked only the names are still of use. */
export function restoreAttempt(names: { run: string; task: string; node: string; fence: number }, now: number): LocalAttempt {
  const { run, task, node, fence } = names;
  const asked = { run_id: run, task_id: task, node_id: node, fence, node_type: "", package_name: "", package_version: "" };
  return createAttempt({ ...asked, parameters: {}, constraints: {} }, fence, 0, now);
}

/** An AbortController that costs nothing until a handler asks for its signal. Most light handlers never do. */
export class StopSignal {
  #controller: AbortController | undefined;
  #reason: Error | undefined;
  /** Called once, when it is stopped: for a runner whose handlers cannot see the signal. */
  onStop: ((reason: Error) => void) | null = null;

  get isStopped(): boolean {
    return this.#reason !== undefined;
  }

  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.#reason !== undefined) this.#controller.abort(this.#reason);
    }
    return this.#controller.signal;
  }

  stop(reason: Error): void {
    if (this.#reason !== undefined) return;
    this.#reason = reason;
    this.#controller?.abort(reason);
    this.onStop?.(reason);
  }
}
