// One running scheduler: the socket, the engine in its host, the doors between them, and the order in which they start and end.
// Signals, exit codes and the ready line are the command's business (command.ts).

import { hostname } from "node:os";
import {
  createDocumentBlobStore,
  createDoors,
  createEngineClient,
  createMetricsRegistry,
  createUserAccounts,
  type SessionLimits,
  sessionPath,
} from "@astraflow/doors";
import { type EngineProblem, type TenantSettings, workerTimings } from "@astraflow/engine";
import { Fault } from "@astraflow/protocol";
import type { Config } from "./config.ts";
import { type Credentials, type CredentialsOptions, openCredentials } from "./credentials.ts";
import { readDemoPage } from "./demo-page.ts";
import { type EngineHost, startHost } from "./engine-host.ts";
import { engineSettings } from "./engine-world.ts";
import { foundUsers, openBlobs } from "./first-users.ts";
import { type BoundServer, bindServer } from "./http-server.ts";
import { digestText } from "./identity.ts";
import { createLog, type Log } from "./log.ts";
import { keepLooking, type Lookout } from "./lookout.ts";
import { createOutside } from "./outside.ts";
import { createReadiness } from "./readiness.ts";
import { keepReplicaName } from "./replica-name.ts";
import { StartRefusal } from "./start-refusal.ts";
import { openReader, watchPlace } from "./store-opening.ts";
import { createVeil, nameStore } from "./store-place.ts";
import { feelPulse } from "./store-pulse.ts";
import { startPatience, waitForStore } from "./store-wait.ts";
import { readTlsMaterial, type TlsMaterial, type TlsPlace, TlsProblem } from "./tls-material.ts";
import { watchTls } from "./tls-watch.ts";
import { devToken } from "./token-files.ts";

export interface Scheduler {
  readonly http: string;
  readonly ws: string;
  /** Settles only when the engine dies on its own, its store is taken away, or another took its name: with the reason. */
  readonly died: Promise<Error>;
  /** Reads the files of tokens and certificates again, at once; what is missing there is revoked. */
  reload(): Promise<void>;
  /** Takes no new work, waits for the running turn, says goodbye to the workers. */
  stop(): Promise<void>;
}

/** Throws a StartRefusal, with nothing written, where it cannot run as configured. */
export async function startScheduler(config: Config, log: Log = openLog(config)): Promise<Scheduler> {
  const material = config.tls === null ? null : await readTls(config.tls);
  const bound = await bindServer(config.listen, material);
  try {
    return await startBehind(bound, { config, material, log });
  } catch (cause) {
    await bound.close();
    throw cause instanceof Fault ? new StartRefusal(explainFault(cause, config), cause) : cause;
  }
}

async function readTls(place: TlsPlace): Promise<TlsMaterial> {
  try {
    return await readTlsMaterial(place);
  } catch (cause) {
    throw cause instanceof TlsProblem ? new StartRefusal(cause.message, cause) : cause;
  }
}

export function openLog(config: Config): Log {
  return createLog(config.logLevel, createVeil(config.store));
}

interface Beginning {
  readonly config: Config;
  readonly material: TlsMaterial | null;
  readonly log: Log;
}

async function startBehind(bound: BoundServer, { config, material, log }: Beginning): Promise<Scheduler> {
  const readiness = createReadiness(() => performance.now());
  const engineClient = createEngineClient((items) => host.push(items), {
    report: (problem) => log.error({ problem: describe(problem) }, "door.bug"),
  });
  const store = nameStore(config.store);
  const replica = config.replica ?? keepReplicaName(config.dataDir, hostname());
  const engine = { ...config, tenants: thresholdsByTenant(config), replica };
  const start = () =>
    startHost(engine, {
      hear: (effects) => engineClient.handleEffects(effects),
      report: (problem: EngineProblem) =>
        log.error({ code: problem.code, details: problem.details, cause: describe(problem.cause) }, problem.message),
    });
  const host: EngineHost = await waitForStore(start, {
    ...startPatience,
    tell: ({ message }) => log.warn({ store, waitMs: startPatience.waitMs, message }, "store.away"),
  });
  const environment = createOutside(log, config.logLevel === "debug" || config.logLevel === "trace");
  const credentials = await withCredentials({ config, replica, outside: environment, log }, host);
  const endPulse = feelPulse({ host, readiness, log, store });
  const reader = openReader(config.store);
  const watch = await watchPlace(config.store);
  const settings = engineSettings(engine);
  const people = createUserAccounts({ engineClient, reader, environment, userTokenMs: config.userTokenMs });
  const doors = createDoors({
    engineClient,
    reader,
    people,
    blobs: {
      local: openBlobs(config.blobDir, { outside: environment, log }),
      db: createDocumentBlobStore({ engineClient, reader }),
    },
    isSecure: bound.isSecure,
    authenticate: credentials.authenticate,
    authenticator: credentials.gate,
    tenants: config.tenants,
    limits: windowsOf(config),
    isAlone: config.store.of === "sqlite",
    environment,
    metrics: createMetricsRegistry(),
    isMetricsOpen: config.isDev,
    digest: digestText,
    ackDeadlineMs: config.ackDeadlineMs,
    heartbeatMsOf: (tenant, dialect) => workerTimings(settings, tenant, dialect).heartbeatMs,
    unready: () => readiness.unready(),
    gauge: () => host.gauge(),
    page: readDemoPage({ token: config.isDev ? devToken.secret : null }),
  });
  await doors.attach(bound.server);
  await foundUsers(people, config.admins, log);
  const lookout = watchCredentials(credentials, bound, { config, material, log });
  bound.open();
  const { host: name, port, isSecure } = bound;
  log.info({ host: name, port, tls: isSecure, store, replica, threads: config.threads, dev: config.isDev }, "scheduler.started");

  return {
    http: `${isSecure ? "https" : "http"}://${name}:${port}`,
    ws: `${isSecure ? "wss" : "ws"}://${name}:${port}${sessionPath}`,
    died: Promise.race([host.died, watch.gone]),
    reload: () => lookout.now(),
    async stop() {
      readiness.retire();
      lookout.stop();
      // The engine first: while its last turn ends, /readyz can still say that no more work is wanted.
      await host.stop();
      endPulse();
      watch.stop();
      engineClient.close({ code: "E.SHUTTING_DOWN", message: "the scheduler is shutting down; try another or later" });
      await doors.close();
      await bound.close();
      await reader.close();
      log.info({}, "scheduler.stopped");
    },
  };
}

/** After the store is ours, so that a start that was refused leaves no keys behind; an engine without credentials is ended again. */
async function withCredentials(options: CredentialsOptions, host: EngineHost): Promise<Credentials> {
  try {
    return openCredentials(options);
  } catch (cause) {
    await host.stop();
    throw cause;
  }
}

/** From now on what changes in the files of tokens and certificates counts. */
function watchCredentials(
  { gate, look, turnKeys }: Credentials,
  bound: BoundServer,
  { config, material, log }: Beginning,
): Lookout {
  const { tls: place } = config;
  const tls =
    place === null || material === null
      ? null
      : watchTls({
          first: material,
          read: () => readTlsMaterial(place),
          log,
          now: Date.now,
          use: bound.renew,
          distrust: gate.distrustCertificates,
        });
  return keepLooking(
    async (isSure) => {
      turnKeys();
      await look(isSure);
      await tls?.look();
    },
    (problem) => log.error({ problem: describe(problem) }, "credentials.bug"),
  );
}

/** What single tenants have of their own, as the engine takes it. */
function thresholdsByTenant({ tenants }: Config): Readonly<Record<string, Partial<TenantSettings>>> {
  return Object.fromEntries(Object.entries(tenants).map(([tenant, { thresholds }]) => [tenant, thresholds]));
}

/** A window that was set is everybody's, also that of workers that could do with more. */
function windowsOf({ sendWindow, recvWindow }: Config): Partial<SessionLimits> {
  return {
    ...(sendWindow !== null && { sendWindow, wideSendWindow: sendWindow }),
    ...(recvWindow !== null && { recvWindow, wideRecvWindow: recvWindow }),
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
