// I8, as far as it can be seen from outside: whatever was answered, acked or sent is in the log for every read that begins later. An engine that
// answers before its commit is caught when somebody reads in between, or when the commit then fails.

import { type ApiExchange, LogExpectationChecker } from "../../checking/checker.ts";
import type { ObservedFrame, ObservedTaskReport } from "../../checking/observed-frame.ts";
import { UnackedFrames } from "../../checking/unacked-frames.ts";
import { getOrCreate } from "../../kernel/get-or-create.ts";
import type { Observation } from "../../observation/observation.ts";

export class AnswersAreDurable extends LogExpectationChecker {
  readonly #acceptCounts = new Map<string, number>();
  readonly #acceptedConnections = new Set<string>();
  /** Reports that reached a scheduler and are not acked yet. */
  readonly #unackedReports = new UnackedFrames<ObservedTaskReport>();
  /** Drain and undrain requests, and when their callers got the answer; an unanswered one may take effect at any time. */
  readonly #asks = new Map<string, { readonly call: number; readonly isOn: boolean; doneAt: number }[]>();

  override onObservation(observation: Observation): void {
    if ((observation.kind !== "call" && observation.kind !== "answer") || !/^(un)?drainWorker$/.test(observation.route)) return;
    if (observation.kind === "call") {
      const worker = `${observation.tenant}/${observation.params["workerId"]}`;
      getOrCreate(this.#asks, worker, () => []).push({
        call: observation.call,
        isOn: observation.route === "drainWorker",
        doneAt: Number.POSITIVE_INFINITY,
      });
    } else if (observation.status !== 0)
      for (const list of this.#asks.values())
        for (const one of list) if (one.call === observation.call) one.doneAt = observation.n;
  }

  override onExchange({ call, answer }: ApiExchange): void {
    if (answer.status !== 202) return;
    const { tenant, route, params } = call;
    if (route === "startRun") {
      const { runId } = answer.body as { runId: string };
      this.expectInLog(tenant, answer.n, runId, () =>
        this.projection.runs.get(runId) === undefined ? `the start of run ${runId} was answered and is not in the log` : null,
      );
    } else if (route === "cancelRun") {
      const run = params["runId"] ?? "";
      this.expectInLog(tenant, answer.n, run, () => {
        const projected = this.projection.runs.get(run);
        const isTrue = projected !== undefined && (projected.isEndingEarly || projected.endStatus !== null);
        return isTrue ? null : `the cancellation of run ${run} was answered and is not in the log`;
      });
    } else if (route === "drainWorker" || route === "undrainWorker") {
      const worker = `${tenant}/${params["workerId"]}`;
      const isOn = route === "drainWorker";
      this.expectInLog(tenant, answer.n, worker, () => {
        // A concurrent or later request about this worker may override this one.
        const isContested = this.#asks.get(worker)?.some((one) => one.isOn !== isOn && one.doneAt > call.n) === true;
        const isDraining = this.projection.workers.get(worker)?.isDraining ?? false;
        return isContested || isDraining === isOn ? null : `${route} of ${worker} was answered and is not in the log`;
      });
    }
  }

  override onDeliveredToScheduler(frame: ObservedFrame): void {
    const reports = frame.reports.filter(
      ({ of, outcome }) => of === "result" || (of === "error" && outcome !== "E.CMD.CONCURRENCY_VIOLATION"),
    );
    this.#unackedReports.recordSent(frame, reports);
  }

  override onSentToWorker(frame: ObservedFrame): void {
    const { type, tenant, n, connection, workerKey } = frame;
    // A renewed token is sent in an accept of its own, without a join.
    if (type === "control.session.accept" && !this.#acceptedConnections.has(connection)) {
      this.#acceptedConnections.add(connection);
      const count = (this.#acceptCounts.get(workerKey) ?? 0) + 1;
      this.#acceptCounts.set(workerKey, count);
      this.expectInLog(tenant, n, workerKey, () => {
        const { joinCount = 0 } = this.projection.workers.get(workerKey) ?? {};
        return joinCount >= count ? null : `${workerKey} was accepted ${count} times and the log records ${joinCount} joins`;
      });
    }
    for (const { task, fence, attempt } of frame.dispatches)
      this.expectInLog(tenant, n, task, () =>
        this.projection.grants.get(attempt)?.worker === workerKey
          ? null
          : `${task} was sent to ${workerKey} under fence ${fence} and the log has no such grant`,
      );
    // Reports of a session that was replaced are acked and ignored.
    const isNewest = () => this.sessions.isNewest(frame);
    for (const report of this.#unackedReports.takeAcked(frame))
      if (isNewest())
        this.expectInLog(tenant, n, report.task, () => (isNewest() ? this.#describeForgotten(workerKey, report) : null));
  }

  /** The log still shows the attempt as running although its end was acked. */
  #describeForgotten(worker: string, { task, fence, attempt, outcome }: ObservedTaskReport): string | null {
    const projected = this.projection.task(task);
    if (projected === undefined || projected.worker !== worker || projected.fence !== fence || projected.run.isEndingEarly)
      return null;
    // Reports of a lost worker are ignored, even before its attempts are requeued.
    if (this.projection.workers.get(worker)?.presence !== "online") return null;
    return `${outcome} of ${attempt} was acked to ${worker} and the log still shows it running there`;
  }
}
