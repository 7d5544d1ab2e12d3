// One running scheduler: the socket, the engine in its host, the doors between them, and the order in which they start and end.
// Signals, exit codes and the ready line are the command's business (command.ts).

import { randomBytes } from "node:crypto";
import { hostname } from "node:os";
import {
  allGrants,
  createDoors,
  createLink,
  createMetrics,
  createSigner,
  createTokens,
  type Outside,
  sessionPath,
} from "@astraflow/doors";
import type { Problem } from "@astraflow/engine";
import { Fault } from "@astraflow/protocol";
import { type Config, devToken } from "./config.ts";
import { readDemoPage } from "./demo-page.ts";
import { type EngineHost, gaugeMs, startHost } from "./engine-host.ts";
import { type BoundServer, bindServer } from "./http-server.ts";
import { digestText } from "./identity.ts";
import { createLog, type Log } from "./log.ts";
import { createReadiness } from "./readiness.ts";
import { keepReplicaName } from "./replica-name.ts";
import { StartRefusal } from "./start-refusal.ts";
import { openReader, watchPlace } from "./store-opening.ts";
import { createVeil, nameStore } from "./store-place.ts";
import { startPatience, waitForStore } from "./store-wait.ts";

export interface Scheduler {
  readonly http: string;
  readonly ws: string;
  /** Settles only when the engine dies on its own, its store is taken away, or another took its name: with the reason. */
  readonly died: Promise<Error>;
  /** Takes no new work, waits for the running turn, says goodbye to the workers. */
  stop(): Promise<void>;
}

/** Throws a StartRefusal, with nothing written, where it cannot run as configured. */
export async function startScheduler(config: Config, log: Log = openLog(config)): Promise<Scheduler> {
  const bound = await bindServer(config.listen);
  try {
    return await startBehind(bound, config, log);
  } catch (cause) {
    await bound.close();
    throw cause instanceof Fault ? new StartRefusal(explainFault(cause, config), cause) : cause;
  }
}

export function openLog(config: Config): Log {
  return createLog(config.logLevel, createVeil(config.store));
}

async function startBehind(bound: BoundServer, config: Config, log: Log): Promise<Scheduler> {
  const readiness = createReadiness(() => performance.now());
  const link = createLink((items) => host.push(items), {
    report: (problem) => log.error({ problem: describe(problem) }, "door.bug"),
  });
  const replica = config.replica ?? keepReplicaName(config.dataDir, hostname());
  const start = () =>
    startHost(
      { ...config, replica },
      {
        hear: (effects) => link.deliver(effects),
        report: (problem: Problem) =>
          log.error({ code: problem.code, details: problem.details, cause: describe(problem.cause) }, problem.message),
      },
    );
  const host: EngineHost = await waitForStore(start, {
    ...startPatience,
    tell: ({ message }) => log.warn({ store: nameStore(config.store), waitMs: startPatience.waitMs, message }, "store.away"),
  });
  readiness.note(host.gauge());
  let wasAway = false;
  let wasWeak = false;
  const pulse = setInterval(() => {
    const gauge = host.gauge();
    readiness.note(gauge);
    if (gauge.isStoreAway !== wasAway) log.warn({ store: nameStore(config.store) }, wasAway ? "store.back" : "store.away");
    wasAway = gauge.isStoreAway;
    const { storeWeakness: message } = gauge;
    if (message !== null && !wasWeak) log.error({ store: nameStore(config.store), message }, "store.weak");
    if (message === null && wasWeak) log.warn({ store: nameStore(config.store) }, "store.trusted");
    wasWeak = message !== null;
  }, gaugeMs);

  const reader = openReader(config.store);
  const watch = await watchPlace(config.store);
  const doors = createDoors({
    link,
    reader,
    authenticate: createTokens(
      config.tokens.map(({ secret, name, tenant }) => ({ token: secret, user: name, tenant, grants: allGrants })),
    ),
    // A session's token is good while this process lives, and so is its key: sessions do not outlive either.
    sign: createSigner(randomBytes(32)),
    outside: createOutside(log),
    metrics: createMetrics(),
    digest: digestText,
    ackDeadlineMs: config.ackDeadlineMs,
    unready: () => readiness.unready(),
    gauge: () => host.gauge(),
    page: readDemoPage({ token: config.isDev ? devToken.secret : null }),
  });
  await doors.attach(bound.server);
  bound.open();
  log.info(
    { host: bound.host, port: bound.port, store: nameStore(config.store), replica, threads: config.threads, dev: config.isDev },
    "scheduler.started",
  );

  return {
    http: `http://${bound.host}:${bound.port}`,
    ws: `ws://${bound.host}:${bound.port}${sessionPath}`,
    died: Promise.race([host.died, watch.gone]),
    async stop() {
      readiness.retire();
      // The engine first: while its last turn ends, /readyz can still say that no more work is wanted.
      await host.stop();
      clearInterval(pulse);
      watch.stop();
      link.close({ code: "E.SHUTTING_DOWN", message: "the scheduler is shutting down; try another or later" });
      await doors.close();
      await bound.close();
      await reader.close();
      log.info({}, "scheduler.stopped");
    },
  };
}

function createOutside(log: Log): Outside {
  return {
    clock: { now: () => Date.now(), ticks: () => performance.now() },
    timers: {
      every(ms, run) {
        const timer = setInterval(run, ms);
        return () => clearInterval(timer);
      },
      after(ms, run) {
        const timer = setTimeout(run, ms);
        return () => clearTimeout(timer);
      },
    },
    // 144 bits: a session's name opens that session.
    ids: { next: () => randomBytes(18).toString("base64url") },
    log: ({ level, event, ...fields }) => log[level](fields, event),
  };
}

function describe(problem: unknown): string | undefined {
  if (problem === undefined) return undefined;
  return problem instanceof Error ? (problem.stack ?? problem.message) : String(problem);
}

/** A fault of the store as a sentence with a way out, where its own words have none. The secret of its address is in neither. */
function explainFault(cause: Fault, { store }: Config): string {
  const wayOut = wayOutOf(cause, store);
  const words = cause.message.replace(/[.]$/, "") + (wayOut === null ? "" : `; ${wayOut}`);
  return `${createVeil(store)(words)}.`;
}

function wayOutOf({ code, details }: Fault, store: Config["store"]): string | null {
  if ((code !== "E.STORE.OPEN" && code !== "E.STORE.BUSY") || details?.["isExplained"] === true) return null;
  const other = store.of === "sqlite" ? "choose another place with --data-dir or --store" : "correct --store";
  if (details?.["cluster"] !== undefined) return `say that name with --cluster, or ${other}`;
  return store.of === "sqlite" ? other : `look at the server, or ${other}`;
}
