// A scheduler process: the real engine, session server and REST API in the simulated environment. One object for each process; scheduler-machine.ts
// starts and kills it.

import { createHash } from "node:crypto";
import {
  createMetricsRegistry,
  RestApi,
  type RestResponse,
  SessionServer,
  type WorkerSocket,
  type WorkerSocketEvents,
} from "@astraflow/doors";
import {
  createEngine,
  type Engine,
  type EngineFailpoint,
  type EngineProblem,
  type EventPage,
  type World,
} from "@astraflow/engine";
import { createMutantEngine } from "@astraflow/engine/testing";
import { createLostResourceFinder, EngineClient, ManifestRecorder, type ServiceEnvironment } from "@astraflow/services";
import type { ProcessEventLoop } from "../kernel/process-event-loop.ts";
import { type SeededRandom, SimulatedIds } from "../kernel/seeded-random.ts";
import { createSimulatedAuthenticator, createTokenAuthenticator, tokenOfTenant } from "../network/simulated-authentication.ts";
import type { ConnectionEnd, ConnectionHandlers, SimulatedConnection } from "../network/simulated-connection.ts";
import type { NetworkListener } from "../network/simulated-network.ts";
import type { OutputChunkPage } from "../observation/observation.ts";
import type { WorldPlan } from "../plan/world-plan.ts";
import type { StoreConnection } from "../store/store-connection.ts";
import type { ApiRequest } from "./api-request.ts";
import { type Mutant, mutantIn, mutateSettings } from "./mutants.ts";
import { SessionMutator } from "./session-mutants.ts";
import { mutateApiCall, mutateEffects, mutateStore } from "./workflow-mutants.ts";

export interface SimulatedSchedulerSettings extends Pick<WorldPlan, "engineSettings" | "sessionLimits" | "tokenMs" | "tenants"> {
  readonly mutant: Mutant | null;
}

export interface SchedulerProcessOptions extends SimulatedSchedulerSettings {
  readonly replica: string;
  readonly eventLoop: ProcessEventLoop;
  readonly storeConnection: StoreConnection;
  readonly random: SeededRandom;
  /** The engine passes a named point; true kills the process there. */
  readonly onFailpoint: (name: EngineFailpoint) => void;
  /** Problems that no caller gets as an answer. */
  readonly onDefect: (message: string) => void;
  /** Two processes with the same instance id were found. */
  readonly onDuplicateWorker: (message: string) => void;
}

export class SchedulerProcess implements NetworkListener {
  readonly eventLoop: ProcessEventLoop;
  readonly #options: SchedulerProcessOptions;
  readonly #engine: Engine;
  readonly #sessionServer: SessionServer;
  readonly #rest: RestApi;
  readonly #closeEngineLink: () => void;
  readonly #sessionMutator: SessionMutator | null;
  isUp = false;

  constructor(options: SchedulerProcessOptions) {
    const { eventLoop, storeConnection, random, mutant } = options;
    const settings = mutateSettings(options.engineSettings, mutantIn("settings", mutant));
    const engineMutant = mutantIn("engine", mutant);
    const sessionMutant = mutantIn("session", mutant);
    const workflowMutant = mutantIn("workflow", mutant);
    this.#sessionMutator = sessionMutant === null ? null : new SessionMutator(sessionMutant);
    this.eventLoop = eventLoop;
    this.#options = options;
    let cancelWake = (): void => undefined;
    const ids = new SimulatedIds(random.fork("ids"));
    const world: World = {
      store: mutateStore(storeConnection.store, workflowMutant),
      ids: { next: (now) => ids.nextTimeOrdered(now) },
      random: { next: () => engineRandom.random() },
      digest,
      emit: (effects) => {
        if (!eventLoop.hasEnded) engineClient.handleEffects(mutateEffects(effects, workflowMutant));
      },
      scheduleWake: (wakeAt, now) => {
        cancelWake();
        cancelWake = eventLoop.after(Math.max(1, wakeAt - now), () => this.#engine.wake());
      },
      failpoint: (name) => {
        if (!eventLoop.hasEnded) options.onFailpoint(name);
      },
      reportProblem: (problem) => {
        // Store faults are injected here, so they are not defects.
        if (problem.code.startsWith("E.STORE.")) return;
        if (problem.code === "E.SESSION.DENIED" && !eventLoop.hasEnded) options.onDuplicateWorker(describeProblem(problem));
        else this.#reportDefect(describeProblem(problem));
      },
      // Reported as a defect by then; a mutant of the store must not end the simulator itself.
      endProcess: () => undefined,
    };
    const engineRandom = random.fork("engine");
    this.#engine = engineMutant === null ? createEngine(world, settings) : createMutantEngine(world, settings, engineMutant);
    const engineClient = new EngineClient(
      (items) => {
        if (!eventLoop.hasEnded) this.#engine.push(this.#sessionMutator?.mutateCommands(items) ?? items);
      },
      { report: (problem) => this.#reportDefect(`a door threw: ${describeCause(problem)}`) },
    );
    this.#closeEngineLink = () =>
      engineClient.close({ code: "E.SHUTTING_DOWN", message: "the scheduler is shutting down; try another or later" });
    const environment: ServiceEnvironment = {
      clock: { now: () => eventLoop.clock.wall(), monotonic: () => eventLoop.clock.mono() },
      timers: eventLoop,
      ids,
      // Only session.bug lines are defects; a fault answered to a caller is not.
      log: (line) => {
        if (line.level === "error" && line.event === "session.bug") this.#reportDefect(JSON.stringify(line));
      },
    };
    const metrics = createMetricsRegistry();
    const manifestRecorder = new ManifestRecorder({ engineClient, reader: storeConnection.store, digest, environment });
    this.#sessionServer = new SessionServer({
      engineClient,
      environment,
      metrics,
      authenticator: createSimulatedAuthenticator(eventLoop, ids, options.tokenMs),
      limits: options.sessionLimits,
      recordManifests: (tenant, reported) => manifestRecorder.recordManifests(tenant, reported),
      findLostResources: createLostResourceFinder({ reader: storeConnection.store }),
    });
    this.#rest = new RestApi({
      engineClient,
      environment,
      metrics,
      authenticate: createTokenAuthenticator(options.tenants),
      reader: storeConnection.store,
      digest,
      ackDeadlineMs: settings.ackDeadlineMs,
      unready: () => null,
      gauge: () => this.#engine.gauge(),
    });
  }

  /** Resolves once it listens. */
  async start(): Promise<void> {
    await this.#engine.start({ replica: this.#options.replica, cluster: "sim" });
    this.isUp = true;
  }

  /** As the program does on SIGTERM: the engine ends its turn, then the doors say goodbye. */
  async stop(): Promise<void> {
    await this.#engine.stop();
    this.#closeEngineLink();
    await this.#sessionServer.close();
  }

  accept(connection: SimulatedConnection): ConnectionHandlers | string {
    const why = this.#sessionServer.refusalReason(connection.workerAddress);
    if (why !== null) return why.code;
    const socket = toPeerSocket(connection.scheduler, connection.channelFrom("worker"), connection.workerAddress);
    const openSession = (one: WorkerSocket): WorkerSocketEvents => this.#sessionServer.acceptSocket(one);
    const socketEvents = this.#sessionMutator?.wrapSocket(socket, openSession) ?? openSession(socket);
    return {
      opened: () => undefined,
      text: (text) => {
        const data = Buffer.from(text, "utf8");
        socketEvents.bytesReceived(data.length);
        socketEvents.message(data, false);
      },
      ping: () => socketEvents.ping(emptyBytes),
      pong: () => socketEvents.pong(),
      drained: () => socketEvents.drained(),
      closed: (code) => socketEvents.closed(code),
    };
  }

  call(request: ApiRequest): Promise<RestResponse> {
    return mutateApiCall(request, mutantIn("workflow", this.#options.mutant), (apiCall) => this.#call(apiCall));
  }

  #call({ route, tenant, params, query, idempotencyKey: key, body }: ApiRequest): Promise<RestResponse> {
    return this.#rest.handle(route, {
      token: tokenOfTenant(tenant),
      params,
      query,
      headers: { "content-type": "application/json", ...(key !== null && { "idempotency-key": key }) },
      body: body === null ? null : Buffer.from(body, "utf8"),
    });
  }

  /** The tenant's log after a position, as this scheduler's own reader has it. */
  readLog(tenant: string, after: number, limit: number): Promise<EventPage> {
    return this.#options.storeConnection.store.events({ tenant, after, limit });
  }

  /** What an attempt printed, row by row. The API shows lines, and lines do not say which chunks they were made of. */
  async readOutputChunks(tenant: string, task: string, fence: number): Promise<OutputChunkPage> {
    const query = { page: "chunks", tenant, task, fence, limit: chunkRowsMax } as const;
    const { items } = await this.#options.storeConnection.store.page(query);
    return { items: items.map(({ first, count, body }) => ({ first, count, chunks: JSON.parse(body) as unknown[] })) };
  }

  #reportDefect(message: string): void {
    if (!this.eventLoop.hasEnded) this.#options.onDefect(message);
  }
}

const emptyBytes = new Uint8Array(0);
/** More than any attempt of a simulated run prints. */
const chunkRowsMax = 1_000;

function toPeerSocket(end: ConnectionEnd, incoming: { setReading(isRead: boolean): void }, address: string): WorkerSocket {
  return {
    address,
    certificate: null,
    get isOpen() {
      return end.state === "open";
    },
    get bufferedAmount() {
      return end.outgoing.bufferedBytes;
    },
    send: (text) => end.send(text),
    ping: () => end.ping(),
    pong: () => end.pong(),
    pause: () => incoming.setReading(false),
    resume: () => incoming.setReading(true),
    close: (code, reason) => end.close(code, reason),
    terminate: () => end.terminate(),
    batchWrites: (work) => work(),
    markAuthenticated: () => undefined,
  };
}

const digest = (text: string): string => createHash("sha256").update(text).digest("base64url").slice(0, 22);

const describeProblem = (problem: EngineProblem): string =>
  `${problem.code}: ${problem.message} (${describeCause(problem.cause)})`;
const describeCause = (cause: unknown): string => (cause instanceof Error ? (cause.stack ?? cause.message) : String(cause));
