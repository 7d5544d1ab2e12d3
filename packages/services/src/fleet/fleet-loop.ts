// The clock of everything that goes on by itself on many workers: installs, rollouts and installs on demand. Tenants with something open are
// stepped through every second, the others are looked at now and then, because another scheduler may have begun something.

import { isConflict, type StoredRecord } from "../documents/documents.ts";
import { TenantRounds } from "../documents/tenant-rounds.ts";
import { withoutOverlap } from "../environment/concurrency.ts";
import type { ServiceContext } from "../environment/service-environment.ts";

const fleetLoopLimits = { stepMs: 1_000, stepsPerRound: 5 } as const;

/** True: something is left to do. */
export type FleetStep = (tenant: string) => Promise<boolean>;

export interface FleetLoopOptions extends ServiceContext {
  readonly steps: readonly FleetStep[];
  /** Unless it is false, the loop runs. */
  readonly hasPolling?: boolean | undefined;
}

export class FleetLoop {
  readonly #options: FleetLoopOptions;
  readonly #rounds: TenantRounds;
  readonly #stop: () => void;
  readonly #openTenants = new Set<string>();
  #stepCount = 0;

  constructor(options: FleetLoopOptions) {
    this.#options = options;
    this.#rounds = new TenantRounds(options, (problem) => this.#logFailure(problem));
    const poll = withoutOverlap(() => this.#poll().catch((problem: unknown) => this.#logFailure(problem)));
    this.#stop = options.hasPolling === false ? () => undefined : options.environment.timers.every(fleetLoopLimits.stepMs, poll);
  }

  /** Something was begun for the tenant here. */
  watch(tenant: string): void {
    this.#openTenants.add(tenant);
  }

  /** One step for one tenant; what fails is tried again with the next one, and holds up nothing else. */
  async step(tenant: string): Promise<void> {
    let isOpen = false;
    for (const step of this.#options.steps)
      try {
        isOpen = (await step(tenant)) || isOpen;
      } catch (problem) {
        isOpen = true;
        logFleetFailure(this.#options, problem, { tenant });
      }
    if (isOpen) this.#openTenants.add(tenant);
    else this.#openTenants.delete(tenant);
  }

  close(): void {
    this.#stop();
  }

  async #poll(): Promise<void> {
    // The first step after a start is a round: nobody has told the engine yet what is withdrawn.
    const isRound = this.#stepCount % fleetLoopLimits.stepsPerRound === 0;
    this.#stepCount += 1;
    if (isRound) await this.#rounds.visitNext((tenant) => this.step(tenant));
    else for (const tenant of [...this.#openTenants]) await this.step(tenant);
  }

  #logFailure(problem: unknown): void {
    logFleetFailure(this.#options, problem, {});
  }
}

/** One step of each operation. One that fails is tried again with the next step, and holds up no other. */
export async function advanceEach<T extends { readonly id: string }>(
  context: ServiceContext,
  tenant: string,
  operations: readonly StoredRecord<T>[],
  advance: (stored: StoredRecord<T>) => Promise<void>,
): Promise<void> {
  for (const stored of operations)
    try {
      await advance(stored);
    } catch (why) {
      // Another scheduler made this step too, and was first.
      if (!isConflict(why)) logFleetFailure(context, why, { tenant, operation: stored.record.id });
    }
}

export function logFleetFailure(
  { environment }: ServiceContext,
  problem: unknown,
  about: { readonly tenant?: string; readonly operation?: string },
): void {
  environment.log({ level: "warn", event: "fleet.step", ...about, problem: String(problem) });
}
