// The other apps, loaded only when their command is used: a CLI that lists runs must not pay for a scheduler. They are known by name
// and by the one function they promise, not by their code.

import type { AppFlag } from "../completion/completion.ts";
import { CliFailure, exitCodes } from "../output/cli-failure.ts";
import type { SimulatorModule } from "./sim-command.ts";

const appPackages = { scheduler: "@astraflow/scheduler", worker: "@astraflow/worker" } as const;
export type AppName = keyof typeof appPackages;

export const isAppName = (name: string | undefined): name is AppName => name !== undefined && Object.hasOwn(appPackages, name);

interface AppCommand {
  readonly flags: readonly AppFlag[];
  run(argv: readonly string[], env: NodeJS.ProcessEnv): Promise<number>;
}

/** What a crash point can be told, as the scheduler describes it. */
export interface FailpointList {
  readonly names: readonly string[];
  readonly actions: Readonly<Record<string, string>>;
}

async function loadApp(name: AppName): Promise<Record<string, unknown>> {
  return (await import(appPackages[name])) as Record<string, unknown>;
}

export async function loadAppCommand(name: AppName): Promise<AppCommand> {
  const command = (await loadApp(name))[`${name}Command`];
  if (typeof command === "object" && command !== null && "run" in command && typeof command.run === "function")
    return command as AppCommand;
  throw new CliFailure(exitCodes.failed, {
    error: "E.INTERNAL",
    message: `${appPackages[name]} does not export ${name}Command; the installation is damaged. Run npm ci.`,
  });
}

/** One line of the doctor about a store. */
export interface DoctorCheck {
  readonly name: string;
  readonly isGood: boolean;
  readonly found: string;
  readonly advice?: string;
}

/** Looks at the store that an address names; the scheduler knows how. */
export async function loadStoreCheck(): Promise<(store: string) => Promise<readonly DoctorCheck[]>> {
  const { checkStore } = await loadApp("scheduler");
  return checkStore as (store: string) => Promise<readonly DoctorCheck[]>;
}

export async function loadFailpoints(): Promise<FailpointList> {
  const { failpointNames, failpointActions } = await loadApp("scheduler");
  return { names: failpointNames as readonly string[], actions: failpointActions as Readonly<Record<string, string>> };
}

/** The simulated world; a package and not an app, but as large as one. */
export async function loadSimulator(): Promise<SimulatorModule> {
  const name = "@astraflow/sim";
  return (await import(name)) as SimulatorModule;
}
