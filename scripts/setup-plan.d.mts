/** The types of setup-plan.mjs; setup.mjs and the tests read them. */

export type SetupCommand = "start" | "test" | "check" | "conform";

/** Something the operating system must bring; one row of the table. */
export interface SystemPackage {
  name: string;
  /** A path, with `*` for one folder, that exists once the package is installed. */
  probe: string;
  neededBy: readonly SetupCommand[];
  why: string;
  /** The command works without it, and says what it leaves out. */
  isOptional?: boolean;
}

export interface MachineFacts {
  command: SetupCommand;
  /** Hash of package-lock.json. */
  lockHash: string;
  /** Hash the last complete install was made from, or null. */
  stampHash: string | null;
  hasModules: boolean;
  /** Without a stamp: whether npm's own record of what it installed agrees with the lockfile. */
  installedAgrees: boolean;
  isRoot: boolean;
  hasApt: boolean;
  /** Packages whose probe found nothing. */
  missing: readonly SystemPackage[];
  /** Version of a Python that can make environments, or null. */
  python: string | null;
  /** Hash of the list of Python tools, and the one that those installed were made from, or null. */
  toolsHash: string;
  toolsStampHash: string | null;
}

export type SetupStep =
  | { type: "install-modules"; why: string }
  | { type: "adopt-modules"; why: string }
  /** Optional ones may fail: the reason is printed, and the command goes on without them. */
  | { type: "install-packages"; names: readonly string[]; why: string; isOptional?: boolean }
  | { type: "install-python-tools"; why: string }
  | { type: "tell"; why: string }
  | { type: "refuse"; why: string };

export type PlanSetUp = (facts: MachineFacts) => SetupStep[];
export type ChooseNode = (found: { bundled: string | null; own: string }) => "bundled" | "own" | { refusal: string };
export type IsPythonNewEnough = (version: string | null) => boolean;
export type AgreeModules = (lock: unknown, installed: unknown) => boolean;

export const systemPackages: readonly SystemPackage[];
export const planSetUp: PlanSetUp;
export const chooseNode: ChooseNode;
export const isPythonNewEnough: IsPythonNewEnough;
export const agreeModules: AgreeModules;
