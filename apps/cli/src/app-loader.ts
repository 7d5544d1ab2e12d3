// The other apps, loaded only when their command is used: a CLI that lists runs must not pay for a scheduler. They are known by name
// and by the one function they promise, not by their code.

import type { AppFlag } from "./completion-command.ts";
import { CliFailure, exitCodes } from "./failure.ts";
import type { SimRoom } from "./sim-command.ts";

const appNames = { scheduler: "@astraflow/scheduler", worker: "@astraflow/worker" } as const;
export type AppName = keyof typeof appNames;

export const isAppName = (word: string | undefined): word is AppName => word !== undefined && Object.hasOwn(appNames, word);

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
  return (await import(appNames[name])) as Record<string, unknown>;
}

export async function loadCommand(name: AppName): Promise<AppCommand> {
  const command = (await loadApp(name))[`${name}Command`];
  if (typeof command === "object" && command !== null && "run" in command && typeof command.run === "function")
    return command as AppCommand;
  throw new CliFailure(exitCodes.failed, {
    error: "E.INTERNAL",
    message: `${appNames[name]} does not export ${name}Command; the installation is damaged. Run npm ci.`,
  });
}

/** One line of the doctor about a store. */
export interface StoreCheck {
  readonly name: string;
  readonly isGood: boolean;
  readonly found: string;
  readonly advice?: string;
}

/** Looks at the store that an address names; the scheduler knows how. */
export async function loadStoreCheckup(): Promise<(store: string) => Promise<readonly StoreCheck[]>> {
  const { checkStore } = await loadApp("scheduler");
  return checkStore as (store: string) => Promise<readonly StoreCheck[]>;
}

export async function loadFailpoints(): Promise<FailpointList> {
  const { failpointNames, failpointActions } = await loadApp("scheduler");
  return { names: failpointNames as readonly string[], actions: failpointActions as Readonly<Record<string, string>> };
}

/** The simulated world; a package and not an app, but as large as one. */
export async function loadSim(): Promise<SimRoom> {
  const name = "@astraflow/sim";
  return (await import(name)) as SimRoom;
}
