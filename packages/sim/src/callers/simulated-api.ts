// API calls of remote callers: requests and answers take time and may be lost; a scheduler that dies never answers. A client calls any scheduler,
// and another one where the answer says that this may help.

import { FaultIntensity } from "../kernel/fault-intensity.ts";
import type { ObservationTrace } from "../kernel/observation-trace.ts";
import type { SeededRandom } from "../kernel/seeded-random.ts";
import type { Timeline } from "../kernel/timeline.ts";
import type { SimulatedWorkerSpec } from "../observation/observation.ts";
import type { ApiRequest } from "../scheduler/api-request.ts";
import type { SchedulerProcess } from "../scheduler/scheduler-process.ts";

export interface ApiCall extends Partial<Pick<ApiRequest, "params" | "query" | "idempotencyKey" | "body">> {
  readonly caller: string;
  readonly scheduler: string;
  readonly tenant: string;
  /** The last three read the store directly or a run at an earlier position; only the checkers need them. */
  readonly route: ApiRequest["route"] | "tailLog" | "readChunks" | "readMoment";
}

export interface ApiCallAnswer {
  /** Zero: none came. */
  readonly status: number;
  readonly body: unknown;
}

/** A caller waits so long, then takes the answer for lost. */
const callTimeoutMs = 3_000;

type FindScheduler = (scheduler: string) => SchedulerProcess | null;

export class SimulatedApi {
  readonly #timeline: Timeline;
  readonly #trace: ObservationTrace;
  readonly #random: SeededRandom;
  readonly #findScheduler: FindScheduler;
  /** Shares of requests and of answers that are lost. */
  readonly requestLost = new FaultIntensity();
  readonly answerLost = new FaultIntensity();
  #callCount = 0;

  constructor(timeline: Timeline, trace: ObservationTrace, random: SeededRandom, findScheduler: FindScheduler) {
    this.#timeline = timeline;
    this.#trace = trace;
    this.#random = random;
    this.#findScheduler = findScheduler;
  }

  call(apiCall: ApiCall): Promise<ApiCallAnswer> {
    const call = ++this.#callCount;
    const { caller, scheduler, tenant, route } = apiCall;
    const { params = {}, query = {}, idempotencyKey = null, body = null } = apiCall;
    this.#trace.record({ kind: "call", call, caller, scheduler, tenant, route, params, query, idempotencyKey, body });
    return new Promise((resolve) => {
      let isOver = false;
      const handleAnswer = (answer: ApiCallAnswer): void => {
        if (isOver) return;
        isOver = true;
        stopWaiting();
        this.#trace.record({ kind: "answer", call, caller, scheduler, tenant, route, ...answer });
        resolve(answer);
      };
      const stopWaiting = this.#timeline.after(callTimeoutMs, () => handleAnswer(noAnswer));
      if (this.#isLost(this.requestLost, caller)) return;
      this.#afterLatency(() => {
        const process = this.#findScheduler(scheduler);
        if (process === null) return this.#afterLatency(() => handleAnswer(noAnswer));
        const respond = (answer: ApiCallAnswer): void => {
          // A dead process has said nothing: what its last microtasks make up never leaves it.
          if (process.eventLoop.hasEnded || this.#isLost(this.answerLost, caller)) return;
          this.#afterLatency(() => handleAnswer(answer));
        };
        process.eventLoop.deliver(() => void this.#serve(process, apiCall).then(respond));
      });
    });
  }

  async #serve(process: SchedulerProcess, apiCall: ApiCall): Promise<ApiCallAnswer> {
    const { route, tenant, params = {}, query = {}, idempotencyKey = null, body = null } = apiCall;
    if (route === "tailLog")
      return { status: 200, body: await process.readLog(tenant, Number(query["after"]), Number(query["limit"])) };
    if (route === "readChunks")
      return { status: 200, body: await process.readOutputChunks(tenant, params["task"] ?? "", Number(params["fence"])) };
    const name = route === "readMoment" ? "getRun" : route;
    const answer = await process.call({ route: name, tenant, params, query, idempotencyKey, body });
    return { status: answer.status, body: JSON.parse(answer.body) as unknown };
  }

  /** Calls that follow the log are never lost: the checkers need facts when they happen. */
  #isLost({ level }: FaultIntensity, caller: string): boolean {
    return this.#random.chance(level) && caller !== "tail";
  }

  #afterLatency(arrive: () => void): void {
    this.#timeline.after(this.#random.logUniform(0.2, 8), arrive);
  }
}

const noAnswer: ApiCallAnswer = { status: 0, body: null };

export interface ApiClientOptions {
  readonly timeline: Timeline;
  readonly api: SimulatedApi;
  readonly random: SeededRandom;
  readonly schedulers: readonly string[];
  readonly tenants: readonly string[];
  readonly workers: readonly SimulatedWorkerSpec[];
}

/** A call that any scheduler may answer, unless it names one. */
export type UnroutedApiCall = Omit<ApiCall, "scheduler"> & { readonly scheduler?: string };

export abstract class ApiClient {
  protected readonly options: ApiClientOptions;
  protected readonly random: SeededRandom;

  constructor(options: ApiClientOptions) {
    this.options = options;
    this.random = options.random;
  }

  protected callApi(apiCall: UnroutedApiCall): Promise<ApiCallAnswer> {
    const { api, schedulers } = this.options;
    return api.call({ ...apiCall, scheduler: apiCall.scheduler ?? this.random.pick(schedulers) });
  }

  protected async callWithRetries(apiCall: UnroutedApiCall, triesMax: number): Promise<ApiCallAnswer> {
    for (let trial = 1; ; trial++) {
      const answer = await this.callApi(apiCall);
      const mayHelp = answer.status === 0 || answer.status === 429 || answer.status >= 500;
      if (!mayHelp || trial >= triesMax || this.isGivenUp(apiCall)) return answer;
      await this.sleep(this.random.logUniform(50, 1_500));
    }
  }

  /** Whether nobody wants this any more. */
  protected isGivenUp(_apiCall: UnroutedApiCall): boolean {
    return false;
  }

  protected sleep(ms: number): Promise<void> {
    return new Promise((resolve) => void this.options.timeline.after(ms, resolve));
  }

  protected findWorker(machine: string | null): SimulatedWorkerSpec | undefined {
    return this.options.workers.find(({ worker }) => worker === machine);
  }
}

export const itemsOf = ({ body }: ApiCallAnswer): readonly Record<string, unknown>[] =>
  (body as { items: readonly Record<string, unknown>[] }).items;
