// Failpoints: ASTRA_FAILPOINTS=name=action[@n],… makes the n-th pass of a failpoint (the first by default) kill, exit, throw or pause. For
// tests, and to see that a crash at the worst moment loses nothing. The engine and the store call them.

import { writeSync } from "node:fs";
import { engineFailpoints } from "@astraflow/engine";
import { postgresFailpoints, sqliteFailpoints } from "@astraflow/store";

/** The actions, with their help. */
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
  /** Acts at this pass only, counted from 1. */
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
      problems.push(`Unknown failpoint "${name}" in ASTRA_FAILPOINTS; use one of ${failpointNames.join(", ")}.`);
    } else if (!action) {
      problems.push(
        `Unknown failpoint action "${actionName}" for ${name} in ASTRA_FAILPOINTS; use one of ${Object.keys(failpointActions).join(", ")}.`,
      );
    } else points.push({ name, action, pass: Number(pass) });
  }
  return { points, problems };
}

/** The function that the engine and the store call at each failpoint. */
export function armFailpoints(
  points: readonly Failpoint[],
  control: ReturnType<typeof createProcessControl>,
): (name: string) => void {
  if (points.length === 0) return () => undefined;
  const passes = new Map<string, number>();
  return (name) => {
    const pass = (passes.get(name) ?? 0) + 1;
    passes.set(name, pass);
    const point = points.find((one) => one.name === name && one.pass === pass);
    if (!point) return;
    if (point.action === "throw") throw new Error(`failpoint ${name} throws at pass ${pass}`);
    control[point.action]();
  };
}

/** The actions on the real process. With a pause flag only that thread waits, without one the process stops. SIGCONT resumes both. */
export function createProcessControl(pauseFlag: Int32Array<SharedArrayBuffer> | null) {
  return {
    kill: () => void process.kill(process.pid, "SIGKILL"),
    exit: (): void => process.exit(1),
    pause: () => {
      // Written directly, because the log may live in another thread: tests wait for this line.
      writeSync(2, `${JSON.stringify({ level: 40, pid: process.pid, msg: "failpoint.paused" })}\n`);
      if (pauseFlag) Atomics.wait(pauseFlag, 0, 0);
      else process.kill(process.pid, "SIGSTOP");
    },
  };
}

/** Resumes every paused thread; later pauses do not wait. */
export function releasePausedThreads(pauseFlag: Int32Array<SharedArrayBuffer>): void {
  Atomics.store(pauseFlag, 0, 1);
  Atomics.notify(pauseFlag, 0);
}
