// One running scheduler: the server, the engine in its host, the doors between them, and the order in which they start and stop.

import { hostname } from "node:os";
import { createMetricsRegistry, Doors, type SessionLimits } from "@astraflow/doors";
import { type EngineProblem, workerTimings } from "@astraflow/engine";
import { Fault, omitUndefined, sessionPath } from "@astraflow/protocol";
import {
  createDocumentBlobStore,
  EngineClient,
  type ServiceEnvironment,
  sharedThreadLimits,
  UserAccounts,
} from "@astraflow/services";
import { type Credentials, type CredentialsOptions, openCredentials } from "./credentials/credentials.ts";
import { startFilePoller } from "./credentials/file-poller.ts";
import { createFirstUsers, openBlobFolder } from "./credentials/first-users.ts";
import { createTlsReloader, readTlsCredentials, type ServerTlsCredentials, TlsFileError } from "./credentials/tls-credentials.ts";
import { type EngineHost, startEngineHost } from "./engine/engine-host.ts";
import { buildEngineSettings } from "./engine/engine-start.ts";
import { monitorEngine, Readiness } from "./engine/readiness.ts";
import { readDemoPage } from "./http/demo-page.ts";
import { type BoundServer, bindServer } from "./http/http-server.ts";
import { digestText } from "./platform/ids-and-random.ts";
import { createLog, type Log } from "./platform/log.ts";
import { startLoopProbe } from "./platform/loop-probe.ts";
import { restrictFolder, restrictStoreFile } from "./platform/private-files.ts";
import { createServiceEnvironment } from "./platform/service-environment.ts";
import { StartupError } from "./platform/startup-error.ts";
import { archiveThreadLimits, RequestThread, requestThreadLimits } from "./requests/request-thread.ts";
import type { SchedulerConfig, TlsFilePaths } from "./settings/config.ts";
import { devToken } from "./settings/secrets.ts";
import { createPasswordMask, describeStoreAddress } from "./settings/store-address.ts";
import { loadOrCreateReplicaName } from "./store/replica-name.ts";
import { openStoreReader, watchForStoreLoss } from "./store/store-factory.ts";
import { startupRetryPolicy, waitForStore } from "./store/store-retry.ts";

export interface Scheduler {
  readonly http: string;
  readonly ws: string;
  /** Resolves with the reason when the engine dies, its store disappears, or another scheduler takes its name. */
  readonly died: Promise<Error>;
  /** Reads the files of tokens and certificates again; missing tokens are revoked at once. */
  reload(): Promise<void>;
  /** Takes no new work, waits for the running turn, closes the sessions of the workers. */
  stop(): Promise<void>;
}

/** Throws a StartupError, without writing anything, if it cannot run as configured. */
export async function startScheduler(config: SchedulerConfig, log: Log = openLog(config)): Promise<Scheduler> {
  const material = config.tls === null ? null : await readTlsOrRefuse(config.tls);
  const server = await bindServer(config.listen, material, {
    connectionsMax: config.httpConnectionsMax,
    trustedProxies: config.trustedProxies,
    onRefused: (refused) => log.warn({ refused }, "http.connections_refused"),
  });
  try {
    return await startOnServer(server, { config, material, log });
  } catch (cause) {
    await server.close();
    throw cause instanceof Fault ? new StartupError(explainStoreFault(cause, config), cause) : cause;
  }
}

async function readTlsOrRefuse(paths: TlsFilePaths): Promise<ServerTlsCredentials> {
  try {
    return await readTlsCredentials(paths);
  } catch (cause) {
    throw cause instanceof TlsFileError ? new StartupError(cause.message, cause) : cause;
  }
}

export function openLog(config: SchedulerConfig): Log {
  return createLog(config.logLevel, createPasswordMask(config.store));
}

/** A folder of a hundred thousand blobs must not become one line of the log. */
const changedPathsLoggedMax = 20;

interface StartContext {
  readonly config: SchedulerConfig;
  readonly material: ServerTlsCredentials | null;
  readonly log: Log;
}

async function startOnServer(server: BoundServer, { config, material, log }: StartContext): Promise<Scheduler> {
  const readiness = new Readiness(() => performance.now());
  const engineClient = new EngineClient((items) => host.push(items), {
    report: (problem) => log.error({ problem: describeError(problem) }, "door.bug"),
  });
  const store = describeStoreAddress(config.store);
  const replica = config.replica ?? loadOrCreateReplicaName(config.dataDir, hostname());
  const thresholds = Object.entries(config.tenants).map(([tenant, own]) => [tenant, own.thresholds] as const);
  const retention = Object.entries(config.tenants).map(([tenant, own]) => [tenant, own.retention] as const);
  const retentionByTenant = Object.fromEntries(retention);
  const engine = { ...config, tenants: Object.fromEntries(thresholds), retentionByTenant, replica };
  const start = () =>
    startEngineHost(engine, {
      onEffects: (effects) => engineClient.handleEffects(effects),
      onProblem: (problem: EngineProblem) =>
        log.error({ code: problem.code, details: problem.details, cause: describeError(problem.cause) }, problem.message),
      onSwept: ({ tenant, removed, slices, tookMs }) =>
        log.info({ tenant, ...removed, slices, tookMs: Math.round(tookMs) }, "retention.swept"),
    });
  const host: EngineHost = await waitForStore(start, {
    ...startupRetryPolicy,
    onFirstFailure: ({ message }) => log.warn({ store, waitMs: startupRetryPolicy.giveUpAfterMs, message }, "store.away"),
  });
  const environment = createServiceEnvironment(log, config.logLevel === "debug" || config.logLevel === "trace");
  const credentials = await openCredentialsOrStop({ config, replica, environment, log }, host);
  closeFilesForOthers(config, log);
  const stopMonitor = monitorEngine(host, readiness, log, store);
  const reader = openStoreReader(config.store);
  const storeWatch = await watchForStoreLoss(config.store);
  const users = new UserAccounts({ engineClient, reader, environment, userTokenMs: config.userTokenMs });
  const settings = buildEngineSettings(engine);
  const requestThread = startsThreads(config) ? openRequestThread(config, environment, engineClient) : null;
  // Of its own: an archive of half a gigabyte takes seconds, in which requests would wait.
  const archiveThread = startsThreads(config) ? openRequestThread(config, environment, engineClient, archiveThreadLimits) : null;
  const loopProbe = startLoopProbe();
  const doors = new Doors({
    ...doorOptions(config, environment),
    engineClient,
    reader,
    people: users,
    blobs: {
      local: openBlobFolder(config.blobDir, environment, log),
      db: createDocumentBlobStore({ engineClient, reader }),
    },
    isSecure: server.isSecure,
    authenticate: credentials.authenticate,
    authenticator: credentials.workerAuthenticator,
    isStoreDiskFull: () => host.gauge().isDiskFull,
    schemaModeOf: (tenant) => config.tenants[tenant]?.schemaMode ?? config.schemaMode,
    heartbeatMsOf: (tenant, dialect) => workerTimings(settings, tenant, dialect).heartbeatMs,
    unready: () => readiness.notReadyReason(),
    gauge: () => host.gauge(),
    ...(requestThread !== null && {
      ownThread: requestThread,
      inPlace: sharedThreadLimits,
      changeRunElsewhere: requestThread.changeRun,
    }),
    ...(archiveThread !== null && { checkArchiveElsewhere: archiveThread.checkArchive }),
    loopTimes: () => ({ doors: loopProbe.times(), ...omitUndefined({ engine: host.gauge().loopTimes ?? undefined }) }),
  });
  await doors.attach(server.server);
  await createFirstUsers(users, config.admins, log);
  const filePoller = watchCredentials(credentials, server, { config, material, log });
  server.startServing();
  const { host: name, port, isSecure } = server;
  log.info({ host: name, port, tls: isSecure, store, replica, threads: config.threads, dev: config.isDev }, "scheduler.started");

  return {
    http: `${isSecure ? "https" : "http"}://${name}:${port}`,
    ws: `${isSecure ? "wss" : "ws"}://${name}:${port}${sessionPath}`,
    died: Promise.race([host.died, storeWatch.gone]),
    reload: () => filePoller.pollNow(),
    async stop() {
      readiness.markStopping();
      filePoller.stop();
      // The engine first: during its last turn /readyz can still report that no more work is accepted.
      await host.stop();
      stopMonitor();
      storeWatch.stop();
      loopProbe.stop();
      engineClient.close({ code: "E.SHUTTING_DOWN", message: "the scheduler is shutting down; try another or later" });
      await requestThread?.close();
      await archiveThread?.close();
      await doors.close();
      await server.close();
      await reader.close();
      log.info({}, "scheduler.stopped");
    },
  };
}

/** With `--threads 0` everything is in one thread, for debugging and for small machines. */
const startsThreads = ({ threads }: SchedulerConfig): boolean => threads > 0;

function openRequestThread(
  config: SchedulerConfig,
  environment: ServiceEnvironment,
  engineClient: EngineClient,
  limits = requestThreadLimits,
): RequestThread {
  const { store, blobDir, ackDeadlineMs, schemaMode, tenants } = config;
  const data = { store, blobDir, ackDeadlineMs, schemaMode, tenants, isDebug: environment.isDebug ?? false };
  return new RequestThread({ data, engineClient, log: environment.log, limits });
}

/** What the doors take from the configuration. */
const doorOptions = (config: SchedulerConfig, environment: ServiceEnvironment) => ({
  environment,
  tenants: config.tenants,
  limits: windowLimits(config),
  isAlone: config.store.of === "sqlite",
  metrics: createMetricsRegistry(),
  isMetricsOpen: config.isDev,
  corsOrigins: config.corsOrigins,
  trustedProxies: config.trustedProxies,
  answerLimits: { stalledMs: config.answerTimeoutMs },
  packageOrigins: config.packageOrigins,
  allowsUnsignedPackages: config.allowsUnsignedPackages,
  keptVersionsOf: (tenant: string) => config.tenants[tenant]?.packageKeep ?? config.packageKeep,
  isOnDemandAllowed: (tenant: string) => config.tenants[tenant]?.isPackageOnDemand ?? config.isPackageOnDemand,
  ...(config.publicUrl !== "" && { publicUrl: config.publicUrl }),
  digest: digestText,
  ackDeadlineMs: config.ackDeadlineMs,
  page: readDemoPage({ token: config.isDev ? devToken.secret : null }),
});

/** Called after the store is open, so that a refused start leaves no keys behind; stops the engine on failure. */
async function openCredentialsOrStop(options: CredentialsOptions, host: EngineHost): Promise<Credentials> {
  try {
    return openCredentials(options);
  } catch (cause) {
    await host.stop();
    throw cause;
  }
}

/** After the keys were read: those that others could read are replaced, which must be seen before it is corrected. */
function closeFilesForOthers({ dataDir, blobDir, store }: SchedulerConfig, log: Log): void {
  const parts = [
    restrictFolder(dataDir),
    restrictFolder(blobDir),
    ...(store.of === "sqlite" ? [restrictStoreFile(store.file)] : []),
  ];
  const changed = parts.flatMap((part) => part.changed);
  if (changed.length > 0) log.warn({ count: changed.length, changed: changed.slice(0, changedPathsLoggedMax) }, "files.closed");
  for (const problem of parts.flatMap((part) => part.problems)) log.error({ problem }, "files.open");
}

/** Watches the files of tokens and certificates for changes. */
function watchCredentials(
  { workerAuthenticator, reloadTokens, rotateKeys }: Credentials,
  server: BoundServer,
  { config, material, log }: StartContext,
) {
  const { tls: paths } = config;
  const reloadTls =
    paths === null || material === null
      ? null
      : createTlsReloader({
          first: material,
          read: () => readTlsCredentials(paths),
          log,
          now: Date.now,
          apply: server.replaceCertificates,
          onAuthorityRemoved: workerAuthenticator.distrustCertificates,
        });
  return startFilePoller(
    async (isExplicit) => {
      rotateKeys();
      await reloadTokens(isExplicit);
      await reloadTls?.();
    },
    (problem) => log.error({ problem: describeError(problem) }, "credentials.bug"),
  );
}

/** A configured window applies to all workers, also to those that could use a wider one. */
function windowLimits({ sendWindow, recvWindow }: SchedulerConfig): Partial<SessionLimits> {
  return {
    ...(sendWindow !== null && { sendWindow, wideSendWindow: sendWindow }),
    ...(recvWindow !== null && { recvWindow, wideRecvWindow: recvWindow }),
  };
}

function describeError(problem: unknown): string | undefined {
  if (problem === undefined) return undefined;
  return problem instanceof Error ? (problem.stack ?? problem.message) : String(problem);
}

/** The message of a store fault with a way out, and without the password of the address. */
function explainStoreFault(cause: Fault, { store }: SchedulerConfig): string {
  const fix = suggestFix(cause, store);
  const text = cause.message.replace(/[.]$/, "") + (fix === null ? "" : `; ${fix}`);
  return `${createPasswordMask(store)(text)}.`;
}

function suggestFix({ code, details }: Fault, store: SchedulerConfig["store"]): string | null {
  if ((code !== "E.STORE.OPEN" && code !== "E.STORE.BUSY") || details?.["isExplained"] === true) return null;
  const other = store.of === "sqlite" ? "choose another location with --data-dir or --store" : "correct --store";
  if (details?.["cluster"] !== undefined) return `use that name with --cluster, or ${other}`;
  return store.of === "sqlite" ? other : `check the server, or ${other}`;
}
