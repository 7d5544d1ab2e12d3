// Runs one install or uninstall in a thread of its own: hashing, unpacking and syncing must not hold up the link. A thread lives for one job.

import { Worker } from "node:worker_threads";
import { type Fault, type FaultCode, fault, type PkgInstallPayload } from "@astraflow/protocol";
import type { InstallOutcome } from "./install-package.ts";
import type { InstallSettings, InstallStage } from "./install-settings.ts";
import type { ProcessGroupListener } from "./limited-process.ts";

export type InstallerJob =
  | { readonly type: "install"; readonly request: PkgInstallPayload }
  | { readonly type: "uninstall"; readonly name: string; readonly version: string }
  /** Removes what an earlier process left unfinished. */
  | { readonly type: "clean" }
  | { readonly type: "list"; readonly name: string };

/** What the thread starts with; plain data. */
export interface InstallerThreadData {
  readonly settings: InstallSettings;
  readonly job: InstallerJob;
  readonly stagingId: string;
  readonly installedAt: string;
  readonly authorization?: { readonly origin: string; readonly value: string };
}

export type FromInstallerThread =
  | { readonly type: "stage"; readonly stage: InstallStage; readonly progress: number }
  | { readonly type: "spawned"; readonly pid: number }
  | { readonly type: "reaped"; readonly pid: number }
  | { readonly type: "done"; readonly outcome: InstallOutcome }
  | {
      readonly type: "failed";
      readonly code: FaultCode;
      readonly message: string;
      readonly details?: Readonly<Record<string, unknown>>;
    };

export interface InstallerListener extends ProcessGroupListener {
  stageReached(stage: InstallStage, progress: number): void;
}

export interface RunningJob {
  /** Rejects with a Fault. */
  readonly outcome: Promise<InstallOutcome>;
  /** Ends the thread; what it was making is removed at the next start. */
  terminate(): Promise<void>;
}

export function startInstallerThread(data: InstallerThreadData, listener: InstallerListener): RunningJob {
  const thread = new Worker(new URL("./installer-thread-main.ts", import.meta.url), {
    workerData: data,
    name: "installer",
    env: {},
  });
  const { promise, resolve, reject } = Promise.withResolvers<InstallOutcome>();
  let failure: Fault = fault("E.INTERNAL", "the installer's thread ended before its job did");
  const handlers: { [T in FromInstallerThread["type"]]: (message: Extract<FromInstallerThread, { type: T }>) => void } = {
    stage: ({ stage, progress }) => listener.stageReached(stage, progress),
    spawned: ({ pid }) => listener.groupStarted(pid),
    reaped: ({ pid }) => listener.groupEnded(pid),
    done: ({ outcome }) => resolve(outcome),
    failed: ({ code, message, details }) => reject(fault(code, message, details)),
  };
  // Each row takes the messages of its own type.
  thread.on("message", (message: FromInstallerThread) => handlers[message.type](message as never));
  thread.on("error", (cause: unknown) => {
    failure = fault("E.INTERNAL", `the installer failed: ${String(cause)}`, undefined, cause);
  });
  thread.on("exit", () => reject(failure));
  return { outcome: promise, terminate: async () => void (await thread.terminate()) };
}
