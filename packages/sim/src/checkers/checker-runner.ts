// Feeds the observations of one simulated run to all checkers: maintains what they share (the world, the merged log, its projection), turns
// observations into the inputs of checkers, and keeps the first violation of each.

import type { ApiExchange, Checker, CheckerContext, Violation } from "../checking/checker.ts";
import { LogProjection } from "../checking/log-projection.ts";
import { MergedLog, type ObservedFact } from "../checking/merged-log.ts";
import { FrameReader } from "../checking/observed-frame.ts";
import { ObservedSessions } from "../checking/observed-sessions.ts";
import { ObservedWorld } from "../checking/observed-world.ts";
import { RequestedRuns } from "../checking/requested-runs.ts";
import { getOrCreate } from "../kernel/get-or-create.ts";
import type { FrameObservation, Observation, ObservationStamp, TenantLogPage, TrueTime } from "../observation/observation.ts";
import { type CheckerName, checkers } from "./checker-table.ts";

/** How often checkers are asked what should have happened by now, in true time. */
const timeCheckMs = 500;

const frameHandlers = {
  sent: { scheduler: "onSentToScheduler", worker: "onSentToWorker" },
  delivered: { scheduler: "onDeliveredToScheduler", worker: "onDeliveredToWorker" },
} as const;

type CheckerHandler = Exclude<keyof Checker, "checkedCount">;
type HandlerInput<H extends CheckerHandler> = Parameters<NonNullable<Checker[H]>>;

interface ActiveChecker {
  readonly name: CheckerName;
  readonly checker: Checker;
  hasFailed: boolean;
}

export interface CheckResult {
  readonly violations: readonly Violation[];
  /** How many things each checker could judge. */
  readonly saw: Readonly<Record<string, number>>;
}

export class CheckerRunner {
  readonly #world = new ObservedWorld();
  readonly #sessions = new ObservedSessions();
  readonly #requestedRuns = new RequestedRuns();
  readonly #projection = new LogProjection(this.#requestedRuns);
  readonly #mergedLog = new MergedLog();
  readonly #frameReader = new FrameReader((worker) => this.#world.workerSpecOf(worker)?.dialect === "first");
  readonly #openCalls = new Map<number, ApiExchange["call"]>();
  readonly #openTurns = new Map<string, ObservedFact[]>();
  readonly #checkers: readonly ActiveChecker[];
  /** The checkers that have a handler: to ask all of them at every observation took a tenth of the time of a simulation. */
  readonly #checkersWith = new Map<CheckerHandler, readonly ActiveChecker[]>();
  readonly #violations: Violation[] = [];
  #timeCheckedAt: TrueTime = 0;
  #now: ObservationStamp = { at: 0, n: 0 };

  constructor(names: readonly CheckerName[] = Object.keys(checkers) as CheckerName[]) {
    this.#checkers = names.map((name) => this.#createChecker(name));
  }

  #createChecker(name: CheckerName): ActiveChecker {
    const context: CheckerContext = {
      projection: this.#projection,
      world: this.#world,
      sessions: this.#sessions,
      requestedRuns: this.#requestedRuns,
      mergedLog: this.#mergedLog,
      reportViolation: (message, about) => {
        if (!active.hasFailed) this.#violations.push({ checker: name, message, about, ...this.#now });
        active.hasFailed = true;
      },
    };
    const active = { name, hasFailed: false, checker: new checkers[name].property(context) };
    return active;
  }

  observe(observation: Observation): void {
    this.#now = { at: observation.at, n: observation.n };
    this.#world.observe(observation);
    this.#sessions.observe(observation);
    this.#notify("onObservation", observation);
    if (observation.kind === "frame") this.#handleFrame(observation);
    else if (observation.kind === "call") {
      this.#openCalls.set(observation.call, observation);
      this.#requestedRuns.recordCall(observation);
    } else if (observation.kind === "answer") this.#handleAnswer(observation);
    if (observation.at - this.#timeCheckedAt < timeCheckMs) return;
    this.#timeCheckedAt = observation.at;
    this.#notify("onTimePassed", observation.at);
  }

  /** Nothing follows. */
  finish(): CheckResult {
    for (const tenant of this.#openTurns.keys()) this.#endTurn(tenant);
    this.#notify("onTimePassed", this.#now.at);
    this.#notify("onEnd");
    const saw = Object.fromEntries(this.#checkers.map(({ name, checker }) => [name, checker.checkedCount]));
    return { violations: this.#violations, saw };
  }

  #handleFrame(observation: FrameObservation & ObservationStamp): void {
    const frame = this.#frameReader.read(observation);
    this.#notify("onFrame", frame);
    if (frame.event !== "lost") this.#notify(frameHandlers[frame.event][frame.toward], frame);
    this.#sessions.observeFrame(frame);
  }

  #handleAnswer(answer: ApiExchange["answer"]): void {
    const call = this.#openCalls.get(answer.call);
    if (call === undefined) return;
    this.#openCalls.delete(answer.call);
    this.#notify("onExchange", { call, answer });
    if (call.route !== "tailLog" || answer.status !== 200) return;
    const page = answer.body as TenantLogPage;
    for (const fact of this.#mergedLog.addPage(call.tenant, page, answer.at)) this.#handleFact(fact);
    if (page.next < page.head || this.#mergedLog.completeUpTo(call.tenant) < page.head) return;
    this.#endTurn(call.tenant);
    this.#projection.completeReadAt.set(call.tenant, Math.max(call.at, this.#projection.completeReadAt.get(call.tenant) ?? 0));
    this.#notify("onCompleteLogRead", { tenant: call.tenant, startedAtObservation: call.n });
  }

  #handleFact(fact: ObservedFact): void {
    const turn = getOrCreate(this.#openTurns, fact.tenant, () => []);
    if (turn.length > 0 && turn[0]?.at !== fact.at) this.#endTurn(fact.tenant);
    turn.push(fact);
    this.#notify("onFact", fact);
    this.#projection.apply(fact);
  }

  #endTurn(tenant: string): void {
    const turn = this.#openTurns.get(tenant) ?? [];
    if (turn.length === 0) return;
    this.#notify("onTurn", tenant, turn);
    turn.length = 0;
  }

  #notify<H extends CheckerHandler>(handler: H, ...input: HandlerInput<H>): void {
    const listeners = getOrCreate(this.#checkersWith, handler, () => this.#checkers.filter(({ checker }) => handler in checker));
    for (const { checker, hasFailed } of listeners)
      if (!hasFailed) (checker as Record<CheckerHandler, (...input: HandlerInput<H>) => void>)[handler](...input);
  }
}
