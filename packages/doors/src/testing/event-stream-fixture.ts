// The event stream over a log and a few rows in memory, with readers that take only what the test lets them take.

import type { ChunkRow, EventPage, LoggedFact, PageQuery, RunRow, StoreReader, TaskRowPhase, TaskState } from "@astraflow/engine";
import { routes } from "@astraflow/protocol";
import { SseTestReader } from "@astraflow/protocol/testing";
import { type CallerIdentity, HeartbeatWatch, VolatileEvents } from "@astraflow/services";
import { createFakeEngine, createFakeEnvironment, runRow, taskRow, workerRow } from "@astraflow/services/testing";
import { createMetricsRegistry } from "../environment/metrics-registry.ts";
import { eventsHandlers } from "../rest/events/event-routes.ts";
import { RestCall } from "../rest/requests/rest-call.ts";
import { StreamBudget, type StreamBudgetLimits } from "../rest/requests/stream-budget.ts";

export const sampleUuid = (n: number) => `00000000-0000-4000-8000-${String(n).padStart(12, "0")}`;
const port = (key: string) => ({ key, label: key, binding: { path: `parameters.${key}`, mode: "write" } });
const workflow = {
  id: sampleUuid(99),
  schemaVersion: "2025-10",
  metadata: { name: "w" },
  nodes: [0, 1].map((n) => ({
    id: sampleUuid(n),
    type: "demo.step",
    package: { name: "demo", version: "1.0.0" },
    label: `n${n}`,
    position: { x: 0, y: 0 },
    ui: { inputPorts: [port("in")], outputPorts: [] },
    ...(n === 1 && {
      middlewares: [{ id: sampleUuid(7), type: "demo.around", package: { name: "demo", version: "1.0.0" }, label: "mw" }],
    }),
  })),
  edges: [],
};

interface SampleFact {
  readonly type: string;
  readonly data?: Record<string, unknown>;
  readonly subject?: string;
}

/** A log and the few rows that events look up, in memory. */
export function openEventStreamFixture(
  facts: SampleFact[],
  more: {
    floor?: number;
    chunks?: ChunkRow[];
    state?: TaskState;
    phase?: TaskRowPhase;
    farewells?: Set<() => void>;
    /** All runs there are, oldest first; otherwise r1 of the client c1 and r2 of c2. */
    runs?: readonly RunRow[];
    streamLimits?: Partial<StreamBudgetLimits>;
    /** Called when the runs of a client session are looked for. */
    onFindRuns?: () => void;
  } = {},
) {
  const entries: LoggedFact[] = [];
  const add = ({ type, data = {}, subject = "run/r1" }: SampleFact): void => {
    entries.push({
      position: entries.length + 1,
      at: 1_000 + entries.length,
      subject: subject as LoggedFact["subject"],
      type,
      data,
    });
  };
  facts.forEach(add);
  const phase = more.phase === undefined ? {} : { phase: more.phase };
  const counts = { events: 0, snapshots: 0 };
  const runs = more.runs ?? [runRow("r1", { client: "c1" }), runRow("r2", { client: "c2" })];
  const page = async (query: PageQuery): Promise<unknown> => {
    const head = entries.length;
    if (query.page === "run") {
      if (query.tasksMax !== 0) counts.snapshots += 1;
      const run = runs.find(({ id }) => id === query.run);
      return { detail: run === undefined ? null : { run, tasks: [], workflow: JSON.stringify(workflow) }, head };
    }
    if (query.page === "runs") {
      more.onFindRuns?.();
      const { client, phase: wanted, limit } = query;
      const matching = runs.filter((run) => run.client === client && (wanted === undefined || run.phase === wanted));
      return { items: matching.reverse().slice(0, limit), next: null, head };
    }
    if (query.page === "workers") return { items: [workerRow("w-1")], head };
    if (query.page === "worker") return { worker: workerRow("w-1"), held: [], head };
    if (query.page === "task")
      return {
        run: null,
        task: taskRow(query.task, { result: '{"sum":3}', state: JSON.stringify(more.state ?? {}), ...phase }),
        head,
      };
    if (query.page === "chunks") return { items: more.chunks ?? [], head };
    throw new Error(`page ${query.page} is not part of this scene`);
  };
  const reader: StoreReader = {
    page: page as StoreReader["page"],
    async events({ tenant, after, limit }): Promise<EventPage> {
      counts.events += 1;
      const mine = tenant === "default" ? entries : [];
      const items = mine.filter(({ position }) => position > Math.max(after, more.floor ?? 0)).slice(0, limit);
      return { items, next: items.at(-1)?.position ?? after, head: mine.length, floor: more.floor ?? 0 };
    },
    close: async () => undefined,
  };
  const environment = createFakeEnvironment();
  const metrics = createMetricsRegistry();
  const engine = createFakeEngine();
  const { farewells = new Set() } = more;
  const volatile = new VolatileEvents();
  const beats = new HeartbeatWatch({ reader, environment, volatile, isAlone: true });
  const handlers = eventsHandlers({
    engineClient: engine.client,
    reader,
    environment,
    volatile,
    heartbeatWatch: beats,
    budget: new StreamBudget(metrics, more.streamLimits),
    ackDeadlineMs: 5_000,
    shutdownListeners: farewells,
  });
  const grow = (fact: SampleFact): void => {
    add(fact);
    engine.client.handleEffects([{ type: "log", tenant: "default", head: entries.length }]);
  };
  return { outside: environment, counts, grow, handlers, volatile, metrics };
}

export type EventStreamFixture = ReturnType<typeof openEventStreamFixture>;

export interface StreamedEvent {
  readonly id: string;
  readonly type: string | null;
  readonly data: Record<string, unknown> | null;
}

export async function followEvents(
  scene: EventStreamFixture,
  query: Record<string, string> = {},
  lastEventId?: string,
  tenant = "default",
  grants: CallerIdentity["grants"] = ["view"],
  user = "ann",
) {
  const identity: CallerIdentity = { tenant, user, grants };
  const header = (name: string) => (name === "last-event-id" ? lastEventId : undefined);
  const request = { requestId: "q", identity, token: null, params: {}, query, header, body: null };
  const reply = await scene.handlers.streamEvents(new RestCall(request, routes.streamEvents, () => true));
  const sink = { text: "", waitingBytes: 0, isEnded: false, isDestroyed: false };
  const gone = reply.stream?.({
    write: (text) => void (sink.text += text),
    get waitingBytes() {
      return sink.waitingBytes;
    },
    end: () => void (sink.isEnded = true),
    destroy: () => void (sink.isDestroyed = true),
  });
  const seen = (): StreamedEvent[] =>
    new SseTestReader()
      .push(sink.text)
      .map(({ id, type, data }) => ({ id: id ?? "", type, data: data === null ? null : JSON.parse(data) }));
  return { sink, seen, gone: gone ?? (() => undefined), namedEvents: () => seen().filter((one) => one.type !== null) };
}

/** Reads that wait for promises only are done after a few turns of the event loop. */
export const flushPromises = async (): Promise<void> => {
  for (let turn = 0; turn < 5_000; turn++) await Promise.resolve();
};

export const eventTypes = (events: readonly StreamedEvent[]) => events.map((one) => one.type);
