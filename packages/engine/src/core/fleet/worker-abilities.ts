// What a worker can do about the attempts it holds, read from what it announced. Extensions are sent to protocol v2 alone, so a feature that
// a worker of another dialect names counts for nothing.

import type { JoinWorkerCommand, WorkerDescription } from "../../interface/command.ts";
import type { ConnectedWorker } from "./connected-worker.ts";

type Announced = Pick<WorkerDescription, "dialect" | "features">;

const hasFeature = ({ dialect, features }: Announced, feature: string): boolean => dialect === "v2" && features.includes(feature);

/** Its heartbeats name exactly the attempts it holds: what they did last counts, and before the first what was announced. */
export const listsAttempts = ({
  about,
  hasList = hasFeature(about, "held"),
}: Pick<ConnectedWorker, "about" | "hasList">): boolean => hasList;

/** It reports itself as unhealthy before it hands work back because it leaves; any other may leave without a sign. */
export const announcesLeaving = (about: Announced): boolean => hasFeature(about, "held");

/** It ends a handler when it is told to; any other runs to its end. */
export const canStopAttempts = (about: Announced): boolean => hasFeature(about, "cancel");

/** It carries out package commands, and reports the end of each by the command's id. */
export const reportsPackageCommands = (about: Announced): boolean => hasFeature(about, "pkg.install");

/** It distinguishes the attempts of a task, so that a newer one replaces an older one. */
export const knowsFences = (about: Announced): boolean => hasFeature(about, "fence");

/** It refuses a dispatch of a task that it still runs, by the key that each of its dispatches has. Others ignore a repeat, or run it. */
export const refusesRunningTasks = ({ dialect }: Pick<Announced, "dialect">): boolean => dialect === "first" || dialect === "v1";

/** Its join says nothing about what it runs: only its process and its lease tell what it may still hold. */
export const joinsWithoutReport = ({ running, resumed }: Pick<JoinWorkerCommand, "running" | "resumed">): boolean =>
  running === null && resumed === undefined;
