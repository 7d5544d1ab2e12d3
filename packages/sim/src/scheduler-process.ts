// A scheduler's process: the real engine, wire, session hall and REST calls on the simulated outside. One object per life; what makes
// it live, die and live again is scheduler-machine.ts.

import { createHash } from "node:crypto";
import {
  createEngineClient,
  createLostResourceFinder,
  createMetricsRegistry,
  createRestApi,
  createSessionServer,
  type DoorEnvironment,
  type LogRecord,
  type RestApi,
  type RestResponse,
  type SessionLimits,
  type SessionServer,
  type WorkerSocket,
  type WorkerSocketEvents,
} from "@astraflow/doors";
import { createManifestRecorder } from "@astraflow/doors/testing";
import {
  createEngine,
  type Engine,
  type EngineFailpoint,
  type EngineProblem,
  type EngineSettings,
  type EventPage,
  type World,
} from "@astraflow/engine";
import { createMutantEngine, type Plant } from "@astraflow/engine/testing";
import type { RouteName } from "@astraflow/protocol";
import type { Connection, End, EndEars } from "./connection.ts";
import type { Dice } from "./dice.ts";
import { createGate } from "./gate.ts";
import { makeIds } from "./ids.ts";
import type { Life } from "./life.ts";
import type { Listener } from "./network.ts";
import type { ChunkPage } from "./observation.ts";
import { PlantedPeers, type SessionPlant } from "./session-plants.ts";
import type { StoreAccess } from "./store-access.ts";
import { authenticate, tokenOf } from "./tenants.ts";
import { plantedCall, plantedEffects, plantedStore, type WorkflowPlant } from "./workflow-plants.ts";

export interface SchedulerOptions {
  readonly replica: string;
  readonly life: Life;
  readonly access: StoreAccess;
  readonly dice: Dice;
  readonly settings: EngineSettings;
  readonly limits: Partial<SessionLimits>;
  readonly tokenMs: number;
  readonly plant: Plant | null;
  readonly sessionPlant: SessionPlant | null;
  readonly workflowPlant: WorkflowPlant | null;
  readonly tenants: readonly string[];
  /** The engine passes a named point; true kills the process there. */
  readonly failpoint: (name: EngineFailpoint) => void;
  /** Things that no caller hears of. */
  readonly report: (message: string) => void;
  /** Two processes with one name were found. */
  readonly alarm: (message: string) => void;
}

export interface ApiRequest {
  readonly route: RouteName;
  readonly tenant: string;
  readonly params: Readonly<Record<string, string>>;
  readonly query: Readonly<Record<string, string>>;
  readonly idempotencyKey: string | null;
  readonly body: string | null;
}

export class SchedulerProcess implements Listener {
  readonly life: Life;
  readonly #options: SchedulerOptions;
  readonly #engine: Engine;
  readonly #hall: SessionServer;
  readonly #rest: RestApi;
  readonly #closeLink: () => void;
  readonly #planted: PlantedPeers | null;
  isUp = false;

  constructor(options: SchedulerOptions) {
    const { life, access, dice, settings, plant, sessionPlant, workflowPlant } = options;
    this.#planted = sessionPlant === null ? null : new PlantedPeers(sessionPlant);
    this.life = life;
    this.#options = options;
    let cancelWake = (): void => undefined;
    const ids = makeIds(dice.fork("ids"));
    const world: World = {
      store: plantedStore(access.store, workflowPlant),
      ids: { next: (now) => ids.timed(now) },
      random: { next: () => rolls.roll() },
      digest,
      emit: (effects) => {
        if (!life.isOver) engineClient.handleEffects(plantedEffects(effects, workflowPlant));
      },
      scheduleWake: (wakeAt, now) => {
        cancelWake();
        cancelWake = life.after(Math.max(1, wakeAt - now), () => this.#engine.wake());
      },
      failpoint: (name) => {
        if (!life.isOver) options.failpoint(name);
      },
      reportProblem: (problem) => {
        // A store that fails is no surprise to whoever makes it fail.
        if (problem.code.startsWith("E.STORE.")) return;
        if (problem.code === "E.SESSION.DENIED" && !life.isOver) options.alarm(describe(problem));
        else this.#report(describe(problem));
      },
    };
    const rolls = dice.fork("engine");
    this.#engine = plant === null ? createEngine(world, settings) : createMutantEngine(world, settings, plant);
    const engineClient = createEngineClient(
      (items) => {
        if (!life.isOver) this.#engine.push(this.#planted?.commands(items) ?? items);
      },
      { report: (problem) => this.#report(`a door threw: ${describeCause(problem)}`) },
    );
    this.#closeLink = () =>
      engineClient.close({ code: "E.SHUTTING_DOWN", message: "the scheduler is shutting down; try another or later" });
    const environment: DoorEnvironment = {
      clock: { now: () => life.clock.wall(), monotonic: () => life.clock.mono() },
      timers: { every: (ms, run) => life.every(ms, run), after: (ms, run) => life.after(ms, run) },
      ids: { next: () => ids.next() },
      log: (line) => this.#log(line),
    };
    const metrics = createMetricsRegistry();
    const who = authenticate(options.tenants);
    const manifestRecorder = createManifestRecorder({ engineClient, reader: access.store, digest, environment });
    this.#hall = createSessionServer({
      engineClient,
      environment,
      metrics,
      authenticator: createGate({
        audience: life.name,
        tokenMs: options.tokenMs,
        now: () => life.clock.wall(),
        nextId: () => ids.next(),
      }),
      limits: options.limits,
      recordManifests: manifestRecorder.recordManifests,
      findLostResources: createLostResourceFinder({ reader: access.store }),
    });
    this.#rest = createRestApi({
      engineClient,
      environment,
      metrics,
      authenticate: who,
      reader: access.store,
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
    this.#closeLink();
    await this.#hall.close();
  }

  accept(connection: Connection): EndEars | string {
    const why = this.#hall.refusalReason();
    if (why !== null) return why.code;
    const socket = socketOf(connection.scheduler, connection.laneFrom("worker"));
    const welcome = (one: WorkerSocket): WorkerSocketEvents => this.#hall.acceptSocket(one);
    const socketEvents = this.#planted?.welcome(socket, welcome) ?? welcome(socket);
    return {
      opened: () => undefined,
      text: (text) => {
        const data = Buffer.from(text, "utf8");
        socketEvents.bytesReceived(data.length);
        socketEvents.message(data, false);
      },
      ping: () => socketEvents.ping(nothing),
      pong: () => socketEvents.pong(),
      drained: () => socketEvents.drained(),
      closed: (code) => socketEvents.closed(code),
    };
  }

  call(request: ApiRequest): Promise<RestResponse> {
    return plantedCall(request, this.#options.workflowPlant, (asked) => this.#call(asked));
  }

  #call(request: ApiRequest): Promise<RestResponse> {
    return this.#rest.handle(request.route, {
      token: tokenOf(request.tenant),
      params: request.params,
      query: request.query,
      headers: {
        "content-type": "application/json",
        ...(request.idempotencyKey !== null && { "idempotency-key": request.idempotencyKey }),
      },
      body: request.body === null ? null : Buffer.from(request.body, "utf8"),
    });
  }

  /** The tenant's log after a position, as this scheduler's own reader has it. */
  tail(tenant: string, after: number, limit: number): Promise<EventPage> {
    return this.#options.access.store.events({ tenant, after, limit });
  }

  /** What an attempt printed, row by row. The API shows lines, and lines do not say which chunks they were made of. */
  async chunks(tenant: string, task: string, fence: number): Promise<ChunkPage> {
    const { items } = await this.#options.access.store.page({ page: "chunks", tenant, task, fence, limit: chunkRowsMax });
    return { items: items.map(({ first, count, body }) => ({ first, count, chunks: JSON.parse(body) as unknown[] })) };
  }

  #log(line: LogRecord): void {
    // What a door logs as an error is a bug of the house; a caller that was told of a fault is not.
    if (line.level === "error" && line.event === "session.bug") this.#report(JSON.stringify(line));
  }

  #report(message: string): void {
    if (!this.life.isOver) this.#options.report(message);
  }
}

const nothing = new Uint8Array(0);
/** More than any attempt of a simulated afternoon prints. */
const chunkRowsMax = 1_000;

function socketOf(end: End, incoming: { read(isRead: boolean): void }): WorkerSocket {
  return {
    certificate: null,
    get isOpen() {
      return end.state === "open";
    },
    get bufferedAmount() {
      return end.out.bufferedBytes;
    },
    send: (text) => end.send(text),
    ping: () => end.ping(),
    pong: () => end.pong(),
    pause: () => incoming.read(false),
    resume: () => incoming.read(true),
    close: (code, reason) => end.close(code, reason),
    terminate: () => end.terminate(),
    batchWrites: (work) => work(),
    markAuthenticated: () => undefined,
  };
}

const digest = (text: string): string => createHash("sha256").update(text).digest("base64url").slice(0, 22);

const describe = (problem: EngineProblem): string => `${problem.code}: ${problem.message} (${describeCause(problem.cause)})`;
const describeCause = (cause: unknown): string => (cause instanceof Error ? (cause.stack ?? cause.message) : String(cause));
