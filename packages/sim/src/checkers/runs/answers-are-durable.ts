// I8, as far as it can be seen from outside: whatever was answered, acked or sent is in the log for every read that begins later. An engine that
// answers before its commit is caught when somebody reads in between, or when the commit then fails.

import { type ApiExchange, Checker, type CompleteLogRead } from "../../checking/checker.ts";
import { getOrCreate } from "../../checking/get-or-create.ts";
import { NewestSessions } from "../../checking/newest-sessions.ts";
import { dispatchesIn, type ObservedFrame, type ObservedTaskReport, taskReportsIn } from "../../checking/observed-frame.ts";
import { UnackedFrames } from "../../checking/unacked-frames.ts";
import type { Observation } from "../../observation/observation.ts";

/** Something that was answered or sent, and what is wrong if the log does not contain it. */
interface ExpectedLogEffect {
  readonly n: number;
  readonly about: string;
  findProblem(): string | null;
}

export class AnswersAreDurable extends Checker {
  readonly #waiting = new Map<string, ExpectedLogEffect[]>();
  readonly #accepts = new Map<string, number>();
  readonly #accepted = new Set<string>();
  readonly #newestSessions = new NewestSessions();
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
    const { tenant, route } = call;
    const add = (about: string, problem: () => string | null) =>
      this.#expectInLog(tenant, { n: answer.n, about, findProblem: problem });
    if (route === "startRun") {
      const { runId } = answer.body as { runId: string };
      add(runId, () =>
        this.projection.run(runId) === undefined ? `the start of run ${runId} was answered and is not in the log` : null,
      );
    } else if (route === "cancelRun") {
      const run = call.params["runId"] ?? "";
      add(run, () => {
        const projected = this.projection.run(run);
        const isTrue = projected !== undefined && (projected.isEndingEarly || projected.endStatus !== null);
        return isTrue ? null : `the cancellation of run ${run} was answered and is not in the log`;
      });
    } else if (route === "drainWorker" || route === "undrainWorker") {
      const worker = `${tenant}/${call.params["workerId"]}`;
      const isOn = route === "drainWorker";
      // A concurrent or later request about this worker may override this one.
      const isContested = () => this.#asks.get(worker)?.some((one) => one.isOn !== isOn && one.doneAt > call.n) === true;
      add(worker, () =>
        isContested() || (this.projection.workers.get(worker)?.isDraining ?? false) === isOn
          ? null
          : `${route} of ${worker} was answered and is not in the log`,
      );
    }
  }

  override onFrame(frame: ObservedFrame): void {
    this.#newestSessions.observeFrame(frame);
    if (frame.observation.toward === "scheduler" && frame.observation.event === "delivered") this.#handleWorkerFrame(frame);
    if (frame.observation.toward === "worker" && frame.observation.event === "sent") this.#handleSchedulerFrame(frame);
  }

  override onCompleteLogRead({ tenant, startedAtObservation: since }: CompleteLogRead): void {
    const list = this.#waiting.get(tenant) ?? [];
    let judged = 0;
    for (const { n, about, findProblem: problem } of list) {
      if (n >= since) break;
      judged++;
      this.checkedCount++;
      const wrong = problem();
      if (wrong !== null) return this.reportViolation(wrong, [about]);
    }
    list.splice(0, judged);
  }

  #expectInLog(tenant: string, said: ExpectedLogEffect): void {
    getOrCreate(this.#waiting, tenant, () => []).push(said);
  }

  #handleWorkerFrame(frame: ObservedFrame): void {
    const reports = taskReportsIn(frame).filter(
      ({ of, outcome }) => of === "result" || (of === "error" && outcome !== "E.CMD.CONCURRENCY_VIOLATION"),
    );
    this.#unackedReports.recordSent(frame, reports);
  }

  #handleSchedulerFrame(frame: ObservedFrame): void {
    const { observation } = frame;
    const worker = frame.workerKey;
    const add = (about: string, problem: () => string | null) =>
      this.#expectInLog(observation.tenant, { n: observation.n, about, findProblem: problem });
    // A renewed token is sent in an accept of its own, without a join.
    if (frame.type === "control.session.accept" && !this.#accepted.has(observation.connection)) {
      this.#accepted.add(observation.connection);
      const count = (this.#accepts.get(worker) ?? 0) + 1;
      this.#accepts.set(worker, count);
      add(worker, () => {
        const { joinCount: joins = 0 } = this.projection.workers.get(worker) ?? {};
        return joins >= count ? null : `${worker} was accepted ${count} times and the log records ${joins} joins`;
      });
    }
    for (const { task, fence } of dispatchesIn(frame))
      add(task, () =>
        this.projection.grants.get(`${task}#${fence}`)?.worker === worker
          ? null
          : `${task} was sent to ${worker} under fence ${fence} and the log has no such grant`,
      );
    if (frame.type === "control.ack") this.#handleAck(frame, worker);
  }

  #handleAck(frame: ObservedFrame, worker: string): void {
    const { tenant, n } = frame.observation;
    const reports = this.#unackedReports.takeAcked(frame);
    // Reports of a session that was replaced are acked and ignored.
    const isNewest = () => this.#newestSessions.isNewest(frame);
    if (isNewest())
      for (const { task, fence, outcome } of reports)
        this.#expectInLog(tenant, {
          n,
          about: task,
          findProblem: () => (isNewest() ? this.#describeForgotten(worker, task, fence, outcome) : null),
        });
  }

  /** The log still shows the attempt as running although its end was acked. */
  #describeForgotten(worker: string, task: string, fence: number, outcome: string): string | null {
    const projected = this.projection.task(task);
    if (projected === undefined || projected.worker !== worker || projected.fence !== fence || projected.run.isEndingEarly)
      return null;
    // Reports of a lost worker are ignored, even before its attempts are requeued.
    if (this.projection.workers.get(worker)?.presence !== "online") return null;
    return `${outcome} of ${task}#${fence} was acked to ${worker} and the log still shows it running there`;
  }
}
