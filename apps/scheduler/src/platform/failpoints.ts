// Named crash points: ASTRA_FAILPOINTS=name=action[@n],… makes the n-th pass of a point (the first by default) kill, end, throw or
// pause the process. For tests and for people who want to see that a crash at the worst moment loses nothing. The points
// themselves are called by the engine and the store.

import { writeSync } from "node:fs";
import { engineFailpoints } from "@astraflow/engine";
import { postgresFailpoints, sqliteFailpoints } from "@astraflow/store";

/** What a point can do. `pause` holds the thread that passes it until the process gets SIGCONT. */
export const failpointActions = {
  kill: "ends the process at once, as kill -9 does",
  exit: "ends that thread, and with it the process, with code 1",
  throw: "throws an error at that place",
  pause: "holds that thread until the process gets SIGCONT",
} as const;
export type FailpointAction = keyof typeof failpointActions;

export const failpointNames: readonly string[] = [...engineFailpoints, ...sqliteFailpoints, ...postgresFailpoints];

export interface Failpoint {
  readonly name: string;
  readonly action: FailpointAction;
  /** Acts at this pass, counted from 1, and never again. */
  readonly pass: number;
}

export function parseFailpoints(text: string): { points: readonly Failpoint[]; problems: readonly string[] } {
  const points: Failpoint[] = [];
  const problems: string[] = [];
  for (const part of text.split(",").map((actionName) => actionName.trim())) {
    if (part === "") continue;
    const match = /^([^=]+)=([a-z]+)(?:@([1-9]\d{0,8}))?$/.exec(part);
    const [, name = "", actionName = "", pass = "1"] = match ?? [];
    const action = (Object.keys(failpointActions) as FailpointAction[]).find((one) => one === actionName);
    if (!match)
      problems.push(`ASTRA_FAILPOINTS has "${part}", which is not NAME=ACTION or NAME=ACTION@N; see astra doctor --failpoints.`);
    else if (!failpointNames.includes(name)) {
      problems.push(`ASTRA_FAILPOINTS names "${name}", which does not exist; there are ${failpointNames.join(", ")}.`);
    } else if (!action) {
      problems.push(`ASTRA_FAILPOINTS wants "${actionName}" at ${name}; it can ${Object.keys(failpointActions).join(", ")}.`);
    } else points.push({ name, action, pass: Number(pass) });
  }
  return { points, problems };
}

/** What the actions need of the process they act on. */
export interface ProcessControl {
  kill(): void;
  exit(): void;
  pause(): void;
}

/** The function the engine and the store call; it only counts where something is armed. */
export function armFailpoints(points: readonly Failpoint[], control: ProcessControl): (name: string) => void {
  if (points.length === 0) return () => undefined;
  const passes = new Map<string, number>();
  return (name) => {
    const pass = (passes.get(name) ?? 0) + 1;
    passes.set(name, pass);
    const point = points.find((one) => one.name === name && one.pass === pass);
    if (!point) return;
    if (point.action === "throw") throw new Error(`failpoint ${name} was told to throw at pass ${pass}`);
    control[point.action]();
  };
}

/**
 * The hands of a real process. With a gate the passing thread alone waits and the others go on, so that a stalled engine can be
 * watched from outside; without one (a single thread) the whole process stops. SIGCONT ends both.
 */
export function createProcessControl(pauseFlag: Int32Array<SharedArrayBuffer> | null): ProcessControl {
  return {
    kill: () => void process.kill(process.pid, "SIGKILL"),
    exit: () => process.exit(1),
    pause: () => {
      // Written past the log, which may live in another thread: whoever paused us wants to know when we stand.
      writeSync(2, `${JSON.stringify({ level: 40, pid: process.pid, msg: "failpoint.paused" })}\n`);
      if (pauseFlag) Atomics.wait(pauseFlag, 0, 0);
      else process.kill(process.pid, "SIGSTOP");
    },
  };
}

/** Lets every thread that waits at the gate go on, and none wait again. */
export function releasePausedThreads(pauseFlag: Int32Array<SharedArrayBuffer>): void {
  Atomics.store(pauseFlag, 0, 1);
  Atomics.notify(pauseFlag, 0);
}
