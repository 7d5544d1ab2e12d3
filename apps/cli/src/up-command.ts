// `astra up`: a whole small installation on this machine. A scheduler in dev mode, a worker with the example package, and a demo run
// to look at. It starts, watches and stops processes; all work is done by them.

import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { type Child, type ChildEnd, describeEnd, startChild } from "./child.ts";
import { type Client, createClient } from "./client.ts";
import { tryListen } from "./doctor-command.ts";
import { CliFailure, type ExitCode, exitCodes } from "./failure.ts";
import { readRequestFile, submitRun } from "./run-command.ts";
import { followRun } from "./run-following.ts";
import type { Terminal } from "./terminal.ts";

const root = fileURLToPath(new URL("../../../", import.meta.url));
const demoWorkflow = join(root, "examples", "workflows", "welcome.json");
const demoPackages = join(root, "examples", "packages");

const defaultListen = { host: "127.0.0.1", port: 8080 };
const restartMsMin = 1_000;
const restartMsMax = 30_000;
/** A worker that lived this long was fine: its next end starts the waiting from the beginning. */
const fineMs = 60_000;

export interface UpWords {
  readonly listen: string | undefined;
  readonly dataDir: string;
  readonly demo: boolean;
  readonly logLevel: string;
}

export interface UpPlace {
  readonly terminal: Terminal;
  readonly env: NodeJS.ProcessEnv;
  /** Aborted by the first wish to stop. */
  readonly stopping: AbortSignal;
  /** Aborted by the second. */
  readonly hurrying: AbortSignal;
}

export async function runUp(words: UpWords, place: UpPlace): Promise<ExitCode> {
  const { terminal, env, stopping } = place;
  const listen = words.listen ?? (await chooseListen(terminal));
  const dataDir = resolve(words.dataDir);
  const scheduler = startChild(
    "scheduler",
    ["scheduler", "--dev", "--listen", listen, "--data-dir", join(dataDir, "scheduler"), "--log-level", words.logLevel],
    env,
  );
  const ward = watchChildren(place);
  ward.add(scheduler);
  try {
    const readyLine = await Promise.race([scheduler.ready, ward.stopped.then(() => null)]);
    if (readyLine === null) return await ward.end();
    const { http, ws } = JSON.parse(readyLine) as { http: string; ws: string };
    const worker = keepWorker({ ws, dataDir, logLevel: words.logLevel }, { ...place, ward });
    if ((await Promise.race([worker.ready, ward.stopped.then(() => null)])) === null) return await ward.end();
    terminal.print(readyLine);
    announce(http, terminal);
    if (words.demo) await runDemo(createClient({ url: http, token: "dev-token" }), { terminal, stopping });
    await ward.stopped;
    return await ward.end();
  } catch (cause) {
    await ward.end();
    const end = await scheduler.ended;
    // The scheduler has said in its own words why it could not start.
    if (end.code === exitCodes.usage) return exitCodes.usage;
    throw cause;
  }
}

async function chooseListen(terminal: Terminal): Promise<string> {
  const { host, port } = defaultListen;
  const problem = await tryListen(host, port);
  if (problem === null) return `${host}:${port}`;
  terminal.say(`port ${port} is taken (${problem}); using a free one instead`);
  return `${host}:0`;
}

/** What has to be added to a command that would otherwise look at the default address. */
function urlHint(http: string): string {
  return http === `http://${defaultListen.host}:${defaultListen.port}` ? "" : ` --url ${http}`;
}

function announce(http: string, terminal: Terminal): void {
  const { bold, dim } = terminal.paint;
  terminal.say("");
  terminal.say(`  ${bold("AstraFlow is up")}`);
  terminal.say(`  page     ${http}/`);
  terminal.say(`  API      ${http}/api/v1/openapi.json ${dim("(token: dev-token)")}`);
  terminal.say(`  next     npx astra runs list${urlHint(http)}`);
  terminal.say(`  stop     Ctrl+C`);
  terminal.say("");
}

/** How long workers may take to finish or hand back what they hold before the scheduler goes. */
const workerEndMs = 3_000;

/** All children and the one question that matters: is it time to end, and with which code? */
interface Ward {
  add(child: Child): void;
  remove(child: Child): void;
  /** The person wants to stop, or the scheduler is gone. */
  readonly stopped: Promise<void>;
  end(): Promise<ExitCode>;
}

function watchChildren({ terminal, stopping, hurrying }: UpPlace): Ward {
  const children = new Set<Child>();
  const stopped = Promise.withResolvers<void>();
  let code: ExitCode = exitCodes.ok;
  stopping.addEventListener("abort", () => stopped.resolve());
  if (stopping.aborted) stopped.resolve();
  return {
    add(child) {
      children.add(child);
      void child.ended.then((end) => {
        children.delete(child);
        if (stopping.aborted || child.name !== "scheduler") return;
        if (end.code !== exitCodes.usage)
          terminal.complain(`${describeEnd(child, end)}; nothing works without it, so everything ends\n`);
        code = end.code === exitCodes.usage ? exitCodes.usage : exitCodes.failed;
        stopped.resolve();
      });
    },
    remove: (child) => void children.delete(child),
    stopped: stopped.promise,
    async end() {
      stopped.resolve();
      const hurry = () => [...children].forEach((child) => child.stop("SIGTERM"));
      hurrying.addEventListener("abort", hurry);
      if (hurrying.aborted) hurry();
      // Workers first, while there still is a scheduler to hand their work to; one that takes too long is told again, which ends it.
      const workers = [...children].filter((child) => child.name !== "scheduler");
      for (const worker of workers) worker.stop("SIGTERM");
      await Promise.race([Promise.all(workers.map((worker) => worker.ended)), pause(workerEndMs, undefined, { ref: false })]);
      const ends = [...children].map((child) => child.ended);
      hurry();
      await Promise.all(ends);
      return code;
    },
  };
}

/** One worker, started again with growing pauses when it dies. `ready` is that of the first that joined. */
function keepWorker(
  words: { ws: string; dataDir: string; logLevel: string },
  place: UpPlace & { ward: Ward },
): { ready: Promise<string> } {
  const ready = Promise.withResolvers<string>();
  const env = {
    ...place.env,
    ASTRA_WORKER_SCHEDULER_WS_URL: words.ws,
    ASTRA_WORKER_TENANT: "default",
    ASTRA_WORKER_AUTH_TOKEN: "dev-token",
    ASTRA_WORKER_WORKER_NAME: place.env["ASTRA_WORKER_WORKER_NAME"] ?? "demo-worker",
    ASTRA_WORKER_DATA_DIR: join(words.dataDir, "worker"),
    ASTRA_WORKER_PACKAGES_DIR: demoPackages,
    ASTRA_WORKER_LOG_LEVEL: words.logLevel,
  };
  let hasJoined = false;
  const live = async (waitMs: number): Promise<void> => {
    const bornAt = performance.now();
    const child = startChild("worker", ["worker"], env);
    place.ward.add(child);
    child.ready.then(
      (line) => {
        hasJoined = true;
        ready.resolve(line);
      },
      () => undefined, // its end is told below
    );
    const end: ChildEnd = await child.ended;
    if (place.stopping.aborted) return;
    // Wrong settings do not get better by trying again.
    if (end.code === exitCodes.usage && !hasJoined)
      return ready.reject(new CliFailure(exitCodes.usage, { error: "E.CONFIG.INVALID", message: describeEnd(child, end) }));
    const nextMs = performance.now() - bornAt > fineMs ? restartMsMin : waitMs;
    place.terminal.complain(`${describeEnd(child, end)}; starting it again in ${nextMs / 1_000} s\n`);
    const isStopped = await Promise.race([pause(nextMs, false, { ref: false }), place.ward.stopped.then(() => true)]);
    if (!isStopped) await live(Math.min(restartMsMax, nextMs * 2));
  };
  live(restartMsMin).catch(ready.reject);
  return { ready: ready.promise };
}

/** A demo that fails is told, and the installation stays up: there is something to look into. */
async function runDemo(client: Client, { terminal, stopping }: { terminal: Terminal; stopping: AbortSignal }): Promise<void> {
  if (!existsSync(demoWorkflow)) return terminal.say("there is no demo workflow in this installation");
  try {
    const ref = await submitRun(client, readRequestFile(demoWorkflow), {
      key: `demo-${Date.now()}`,
      tell: (line) => terminal.say(line),
    });
    const run = await followRun(ref.runId, { client, terminal, view: "picture", signal: stopping, now: Date.now });
    terminal.say(`the demo run ${run.status}; its history: npx astra runs export ${run.runId}${urlHint(client.url)}`);
  } catch (cause) {
    if (stopping.aborted) return;
    terminal.complain(`the demo run could not be followed: ${cause instanceof Error ? cause.message : String(cause)}\n`);
  }
}
