// The other programs and the simulator, loaded only when their command is used: a CLI that lists runs must not load a scheduler. They are
// loaded by name; the interfaces below say what the CLI uses of them, and app-loader.test.ts compares these with the exports.

import type { AppFlag } from "../completion/completion.ts";
import { CliFailure, exitCodes } from "../output/cli-failure.ts";

const appPackages = { scheduler: "@astraflow/scheduler", worker: "@astraflow/worker" } as const;
export type AppName = keyof typeof appPackages;

export const isAppName = (name: string | undefined): name is AppName => name !== undefined && Object.hasOwn(appPackages, name);

export interface AppCommand {
  readonly flags: readonly AppFlag[];
  run(argv: readonly string[], env: NodeJS.ProcessEnv): Promise<number>;
}

export async function loadAppCommand(name: AppName): Promise<AppCommand> {
  const command = ((await import(appPackages[name])) as Record<string, AppCommand | undefined>)[`${name}Command`];
  if (typeof command?.run === "function") return command;
  throw new CliFailure(exitCodes.failed, {
    error: "E.INTERNAL",
    message: `${appPackages[name]} does not export ${name}Command; the installation is damaged. Run npm ci.`,
  });
}

/** One line of `astra doctor`. */
export interface DoctorCheck {
  readonly name: string;
  readonly isGood: boolean;
  readonly found: string;
  readonly advice?: string;
}

/** What `astra backup` and `astra restore` wrote. */
export interface WrittenBackup {
  readonly folder: string;
  readonly files: number;
  readonly bytes: number;
}

interface BackupPlaces {
  readonly store: string;
  readonly dataDir: string;
  readonly folder: string;
}

/** How long what is kept, as the scheduler's package reads and describes it. */
type RetentionSettings = Readonly<Record<"runsMs" | "runsMax" | "keysMs" | "workersMs" | "auditMs", number | null>>;

/** What `astra doctor`, `backup` and `restore` use of the scheduler's package. */
export interface SchedulerModule {
  restrictFolder(folder: string): { readonly changed: readonly string[]; readonly problems: readonly string[] };
  checkStore(store: string): Promise<readonly DoctorCheck[]>;
  readRetention(sources: { readonly env: NodeJS.ProcessEnv; readFile(path: string): string }): RetentionSettings;
  checkKeptRows(store: string, dataDir: string, retention: RetentionSettings): Promise<readonly DoctorCheck[]>;
  backUpDataFolder(request: BackupPlaces): Promise<WrittenBackup>;
  restoreDataFolder(request: BackupPlaces): Promise<WrittenBackup>;
  repairStore(store: string, dataDir: string): DoctorCheck;
  readonly failpointNames: readonly string[];
  readonly failpointActions: Readonly<Record<string, string>>;
}

export const loadScheduler = async (): Promise<SchedulerModule> => (await import(appPackages.scheduler)) as SchedulerModule;

/** A violated guarantee, with the fields that the CLI reads. */
export interface FoundViolation {
  readonly seed: number;
  readonly checker: string;
  readonly invariant: string;
  readonly message: string;
}

export interface SimulatedSeed {
  readonly report: { readonly seed: number; readonly traceHash: string; readonly simulatedMs: number; readonly events: number };
  readonly violations: readonly FoundViolation[];
  readonly differs: string | null;
}

export interface SimulationReport {
  readonly seeds: number;
  readonly violations: readonly FoundViolation[];
  readonly differing: readonly number[];
}

interface SeedRequest<Profile, Mutant> {
  readonly profile: Profile;
  readonly plant?: Mutant;
  readonly isResumeRefused: boolean;
}

export interface CampaignRequest<Profile, Mutant> extends SeedRequest<Profile, Mutant> {
  readonly from: number;
  readonly to: number;
  readonly twice: boolean;
  readonly shrink: boolean;
  readonly jobs: number;
  readonly isFirstEnough: boolean;
  readonly stopping: AbortSignal;
  readonly onSeed: (seed: SimulatedSeed) => void;
}

/** The exports of @astraflow/sim that the CLI uses. It knows the names of profiles and mutants only at run time. */
export interface SimulatorModule<Profile = string, Mutant = string> {
  readonly profiles: Readonly<Record<string, unknown>>;
  readonly mutants: Readonly<Record<string, unknown>>;
  runCampaign(request: CampaignRequest<Profile, Mutant>): Promise<SimulationReport>;
  traceSeed(
    request: SeedRequest<Profile, Mutant> & { readonly seed: number },
  ): Promise<readonly { readonly at: number; readonly text: string }[]>;
  describeTraceLine(line: { readonly at: number; readonly text: string }): string;
  describeCampaign(report: SimulationReport, ms: number): string[];
  describeViolation(found: FoundViolation): string[];
  toRegression(found: FoundViolation): { readonly name: string; readonly text: string };
}

/** By a variable, so that the compiler does not follow the import: the CLI works where the simulator is not installed. */
const simulatorPackage: string = "@astraflow/sim";

export const loadSimulator = async (): Promise<SimulatorModule> => (await import(simulatorPackage)) as SimulatorModule;
