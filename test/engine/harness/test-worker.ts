// One worker session of an engine test: what it was sent, and what it reports.

import type { AnswerBody, AttemptRef, Command, SendDispatch } from "@astraflow/engine";
import type { EngineHarness } from "./engine-harness.ts";

/** One worker session, controlled by the test. */
export class TestWorker {
  readonly harness: EngineHarness;
  readonly tenant: string;
  readonly worker: string;
  readonly session: string;
  readonly boot: string;

  constructor(harness: EngineHarness, tenant: string, worker: string, session: string, boot: string) {
    this.harness = harness;
    this.tenant = tenant;
    this.worker = worker;
    this.session = session;
    this.boot = boot;
  }

  /** The dispatch this session got last. */
  get lastDispatch(): SendDispatch["dispatch"] {
    const sent = this.harness.dispatches(this.worker).filter((one) => one.session === this.session);
    const dispatch = sent.at(-1)?.dispatch;
    if (dispatch === undefined) throw new Error(`${this.worker} was sent nothing`);
    return dispatch;
  }

  get dispatchesSent(): SendDispatch["dispatch"][] {
    return this.harness
      .dispatches(this.worker)
      .filter((one) => one.session === this.session)
      .map((one) => one.dispatch);
  }

  #attemptFields(dispatch: { task: string; fence: number }) {
    return { tenant: this.tenant, worker: this.worker, session: this.session, task: dispatch.task, fence: dispatch.fence };
  }

  ackCommand(dispatch: { task: string; fence: number } = this.lastDispatch): Command {
    return {
      type: "task.ack",
      tenant: this.tenant,
      worker: this.worker,
      session: this.session,
      held: [{ task: dispatch.task, fence: dispatch.fence }],
    };
  }

  ack(dispatch?: { task: string; fence: number }): Promise<AnswerBody> {
    return this.harness.ask(this.ackCommand(dispatch ?? this.lastDispatch));
  }

  resultCommand(
    dispatch: { task: string; fence: number },
    result: unknown,
    status: "succeeded" | "failed" | "cancelled" | "skipped" = "succeeded",
  ): Command {
    return {
      type: "task.result",
      ...this.#attemptFields(dispatch),
      status,
      result: JSON.stringify(result),
      error: null,
      durationMs: 1,
    };
  }

  succeed(result: unknown = {}, dispatch: { task: string; fence: number } = this.lastDispatch): Promise<AnswerBody> {
    return this.harness.ask(this.resultCommand(dispatch, result));
  }

  error(code: string, message = "it broke", dispatch: { task: string; fence: number } = this.lastDispatch): Promise<AnswerBody> {
    return this.harness.ask({ type: "task.error", ...this.#attemptFields(dispatch), code, message });
  }

  heartbeat(
    held: readonly AttemptRef[] | null,
    healthy = true,
    measured: { memPct?: number; diskPct?: number; inflight?: number; vitals?: string } = {},
  ): Promise<AnswerBody> {
    return this.harness.ask({
      type: "worker.beat",
      tenant: this.tenant,
      worker: this.worker,
      session: this.session,
      healthy,
      held,
      ...measured,
    });
  }

  disconnect(): Promise<AnswerBody> {
    return this.harness.ask({
      type: "worker.leave",
      tenant: this.tenant,
      worker: this.worker,
      session: this.session,
      reason: "gone",
    });
  }
}
