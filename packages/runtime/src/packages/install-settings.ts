// What a worker may install, from where, and how much it may cost. Plain data: it crosses to the thread that installs.

import type { HostingSettings } from "../hosts/host-set.ts";

export interface InstallSettings {
  readonly tenant: string;
  /** Versions lie in `<packagesDir>/<name>/<version>`; names with a dot in front are the installer's own. */
  readonly packagesDir: string;
  /** Public keys (PEM, or 32 bytes in base64) whose signatures count, and for which packages. */
  readonly trustedKeys: readonly { readonly publicKey: string; readonly packages?: readonly string[] }[];
  /** Trusts the keys that the repository lists for the tenant as well; they are asked for at each install. */
  readonly trustsRepository: boolean;
  /** Installs archives without a signature too; for development. */
  readonly allowsUnsigned: boolean;
  /** Origins that may be asked whatever their address is, such as the scheduler's; any other has to be https and public. */
  readonly allowedOrigins: readonly string[];
  /**
   * The scheduler's repository: archives without an address are at `<base>/<name>/<version>/archive`, resources without one at
   * `<base>/<name>/<version>/resources/<path>`; null: there is none.
   */
  readonly repositoryUrl: string | null;
  /** Where the repository lists the tenant's keys; null: nowhere. */
  readonly repositoryKeysUrl: string | null;
  /** Packages whose hooks may run: a name, or a prefix with `*` at its end. */
  readonly hookPackages: readonly string[];
  /** Files and folders of the worker that hooks must not see: its data, its token, its keys. */
  readonly hiddenPaths: readonly string[];
  readonly python: PythonInstallSettings;
  /** The command of npm, for packages with a lock file of Node. */
  readonly npm: string;
  /** All that pip and npm see of the worker's environment. */
  readonly toolEnvironment: Readonly<Record<string, string>>;
  /** How the worker runs packages: a new version is loaded like that once before it is published. */
  readonly hosting: HostingSettings;
  readonly limits: InstallLimits;
}

export interface PythonInstallSettings {
  /** The interpreter that environments are made from. */
  readonly command: string;
  /** Folder of wheels; pip then asks no index. */
  readonly wheelsDir?: string;
}

export const installLimits = {
  downloadBytesMax: 512 * 1024 * 1024,
  downloadMsMax: 10 * 60_000,
  /** A download that brings nothing for so long is over, and one that brings less than the rate in a window of that length. */
  downloadIdleMsMax: 30_000,
  downloadBytesPerSecondMin: 1_024,
  redirectsMax: 3,
  unpackMsMax: 5 * 60_000,
  dependenciesMsMax: 15 * 60_000,
  hookMsMax: 2 * 60_000,
  hookMemoryBytesMax: 1024 * 1024 * 1024,
  hookFileBytesMax: 1024 * 1024 * 1024,
  hookProcessesMax: 256,
} as const;
export type InstallLimits = { readonly [Key in keyof typeof installLimits]: number };

/** In this order; each is reported when it begins. */
export const installStages = ["download", "verify", "unpack", "dependencies", "resources", "hooks", "load", "publish"] as const;
export const uninstallStages = ["wait", "hooks", "remove"] as const;
export type InstallStage = (typeof installStages)[number] | (typeof uninstallStages)[number];

/** Where tests end the installer, as a power cut would. */
export type InstallFailpoint = `before ${InstallStage}` | "before rename" | "after rename" | "after removal rename";
