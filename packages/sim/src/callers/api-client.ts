// Somebody who calls the API: at any scheduler, and once more at another where the answer says that this may help.

import type { SeededRandom } from "../kernel/seeded-random.ts";
import type { Timeline } from "../kernel/timeline.ts";
import type { SimulatedWorkerSpec } from "../observation/observation.ts";
import type { ApiCall, ApiCallAnswer, SimulatedApi } from "./simulated-api.ts";

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
