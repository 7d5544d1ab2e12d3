// The CLI loads other packages by name, so the compiler does not compare its types with their exports: these tests do.

import { expect, it } from "vitest";
import {
  type AppCommand,
  type CampaignRequest,
  loadAppCommand,
  loadScheduler,
  loadSimulator,
  type SchedulerModule,
  type SimulatorModule,
} from "./app-loader.ts";

const importSimulator = () => import("@astraflow/sim");
type CampaignOptions = Parameters<Awaited<ReturnType<typeof importSimulator>>["runCampaign"]>[0];
type Mutant = NonNullable<CampaignOptions["plant"]>;

it("[L64] the simulator exports everything the CLI uses of it", async () => {
  const simulator: SimulatorModule<CampaignOptions["profile"], Mutant> = await importSimulator();
  // Optional options: the compiler would accept a name that the simulator does not know.
  const optionNames: readonly (keyof CampaignOptions)[] = [] as readonly (keyof CampaignRequest<string, string>)[];

  expect(await loadSimulator()).toBe(simulator);
  expect(Object.keys(simulator.profiles)).toContain("default");
  expect(optionNames).toEqual([]);
});

it("[L64] the scheduler and the worker export everything the CLI uses of them", async () => {
  const scheduler: SchedulerModule & { schedulerCommand: AppCommand } = await import("@astraflow/scheduler");
  const worker: { workerCommand: AppCommand } = await import("@astraflow/worker");

  expect(await loadScheduler()).toBe(scheduler);
  expect(await loadAppCommand("scheduler")).toBe(scheduler.schedulerCommand);
  expect(await loadAppCommand("worker")).toBe(worker.workerCommand);
});
