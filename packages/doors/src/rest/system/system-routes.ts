// The routes about the process itself: alive, ready, its own description, and its numbers, which are read when somebody scrapes: the engine's
// gauges, the process's, and what the store knows of all schedulers together.

import type { EngineGauge } from "@astraflow/engine";
import { buildOpenapiDocument, errorMessage, type FaultCode, type HistogramValues } from "@astraflow/protocol";
import { countedTasksMax, type ServicesOptions, withTimeout } from "@astraflow/services";
import type { MetricsRegistry } from "../../environment/metrics-registry.ts";
import type { RouteHandlers } from "../requests/rest-call.ts";

/** How long the event loop of a thread is held. Plain data, so that the thread can send it. */
export interface LoopTimes {
  /** How late a timer was, in ms. */
  readonly delay: HistogramValues;
  /** CPU time of the thread from one firing of the timer to the next, in ms. */
  readonly cpu: HistogramValues;
}

export interface SystemRoutesOptions extends Pick<ServicesOptions, "reader" | "environment" | "gauge"> {
  readonly metrics: MetricsRegistry;
  /** Why the process cannot take work at this moment; null when it can. The reason is shown to whoever asks. */
  readonly unready: () => { readonly code: FaultCode; readonly reason: string } | null;
  /** By the name of the thread; absent: not measured. */
  readonly loopTimes?: () => Readonly<Record<string, LoopTimes>>;
}

export function systemHandlers(options: SystemRoutesOptions) {
  const { metrics, unready } = options;
  const refresh = createMetricsCollector(options);
  let openapi: string | null = null;
  return {
    getOpenapi: () => {
      openapi ??= JSON.stringify(buildOpenapiDocument());
      return { body: openapi, media: "application/json; charset=utf-8" };
    },
    getHealth: () => ({ body: { ok: true } }),
    getReadiness: () => {
      const why = unready();
      if (why === null) return { body: { ok: true } };
      return { status: 503, body: { ok: false, error: why.code, message: why.reason } };
    },
    async getMetrics({ identity }) {
      await refresh();
      // Without a token it is open, and shows everything.
      const isOfOneTenant = identity.grants.includes("admin") && !identity.grants.includes("metrics");
      return {
        body: isOfOneTenant ? metrics.render(identity.tenant) : metrics.render(),
        media: "text/plain; version=0.0.4; charset=utf-8",
      };
    },
  } satisfies RouteHandlers;
}

const collectorLimits = {
  /** Several scrapers ask the store once. */
  storeReadMsMin: 2_000,
  /** A store that is away must not keep anybody from seeing the rest. */
  waitMsMax: 2_000,
} as const;

type NumericGaugeField = { [F in keyof EngineGauge]: EngineGauge[F] extends number ? F : never }[keyof EngineGauge];
const engineGauges: readonly (readonly [name: string, help: string, field: Exclude<NumericGaugeField, "now">])[] = [
  ["engine_commands_waiting", "Commands that no turn has taken yet.", "waiting"],
  ["engine_turns", "Turns made since start.", "turns"],
  ["engine_commands", "Commands taken since start.", "commands"],
  ["engine_grants", "Tasks granted since start.", "grants"],
  ["engine_turns_retried", "Turns that were made again because the store refused them.", "retriedTurns"],
  ["engine_units_quarantined", "Quarantined roots.", "quarantined"],
  ["engine_sessions", "Worker sessions of this process.", "sessions"],
  ["engine_attempts_held", "Attempts held by the workers of this process.", "held"],
];

/** Lateness, so most of it is near zero; the last bounds are those of a worker that is about to be lost. */
const latenessBucketsMs = [5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 20_000, 35_000, 70_000];

/** Counted by the engine as data; their names and labels are promised here. */
function declareEngineMetrics(metrics: MetricsRegistry): void {
  metrics.counter("heartbeat_degraded_total", "Heartbeats reporting an unhealthy worker.", ["tenant", "worker"]);
  metrics.histogram("heartbeat_latency_ms", "How late heartbeats came, by their period.", ["tenant"], latenessBucketsMs);
  metrics.counter("worker_saturated_total", "Times that a worker had no free slot for too long.", ["tenant"]);
  metrics.counter("worker_cloned_total", "Joins refused because another process with that instance id is live.", ["tenant"]);
  metrics.counter("stale_words_total", "Reports about attempts the worker no longer holds.", ["type"]);
  metrics.counter("dispatch_recheck_total", "Dispatches sent again to workers that cannot report what they run.", ["tenant"]);
  metrics.counter("retention_removed_total", "Old rows that this process has removed, by kind.", ["tenant", "kind"]);
  metrics.counter("duplicate_results_total", "Results that were stored already.", []);
}

/** Makes the families; the returned function brings those up to date that only the store knows, and never rejects. */
function createMetricsCollector(options: SystemRoutesOptions): () => Promise<void> {
  const { metrics, gauge } = options;
  const families = engineGauges.map(([name, help, field]) => ({ family: metrics.gauge(name, help, []), field }));
  const memory = metrics.gauge("process_resident_memory_bytes", "Memory of the process.", []);
  const cpu = metrics.counter("process_cpu_seconds_total", "Processor time of the process.", []);
  declareEngineMetrics(metrics);
  metrics.onScrape(() => {
    const now = gauge();
    if (now !== null) for (const { family, field } of families) family.withLabels().set(now[field]);
    const { user, system } = process.cpuUsage();
    cpu.withLabels().set((user + system) / 1_000_000);
    memory.withLabels().set(process.memoryUsage.rss());
    for (const [thread, times] of Object.entries(options.loopTimes?.() ?? {})) showLoopTimes(metrics, thread, times);
  });
  return createStoreMetricsReader(options);
}

function showLoopTimes(metrics: MetricsRegistry, thread: string, { delay, cpu }: LoopTimes): void {
  const families = [
    ["event_loop_delay_ms", "How late a timer of the thread was.", delay],
    ["event_loop_cpu_ms", "Processor time of the thread from one firing of that timer to the next.", cpu],
  ] as const;
  for (const [name, help, values] of families)
    metrics.histogram(name, help, ["thread"], values.bounds).withLabels(thread).replaceObservations(values);
}

function createStoreMetricsReader({ metrics, reader, environment, gauge }: SystemRoutesOptions): () => Promise<void> {
  const workers = metrics.gauge("workers", "Workers by state; draining and saturated ones are online too.", ["tenant", "state"]);
  const depth = metrics.gauge("queue_depth", `Tasks that could run and have no worker, among ${countedTasksMax} open ones.`, [
    "tenant",
  ]);
  let readAt = Number.NEGATIVE_INFINITY;
  let reading: Promise<void> | null = null;

  const read = async (): Promise<void> => {
    const [workerCounts, depths] = await Promise.all([
      reader.page({ page: "crew" }),
      reader.page({ page: "depth", max: countedTasksMax }),
    ]);
    workers.clear();
    depth.clear();
    for (const { tenant, phase, draining, workers: count } of workerCounts.items) {
      // Every state of a tenant that has workers is shown, so that one that falls to zero is seen to.
      for (const state of ["online", "away", "lost", "left", "draining", "saturated"]) workers.withLabels(tenant, state).add(0);
      workers.withLabels(tenant, phase).add(count);
      if (draining && phase === "online") workers.withLabels(tenant, "draining").add(count);
      depth.withLabels(tenant).add(0);
    }
    for (const [tenant, count] of Object.entries(gauge()?.saturated ?? {})) workers.withLabels(tenant, "saturated").set(count);
    for (const { tenant, phase, tasks } of depths.items) {
      depth.withLabels(tenant).add(0);
      if (phase === "ready") depth.withLabels(tenant).set(tasks);
    }
  };
  // Numbers of a minute ago would pass for those of now: without the store there are none.
  const clearStaleMetrics = (why: unknown): void => {
    workers.clear();
    depth.clear();
    environment.log({ level: "warn", event: "metrics.unread", problem: errorMessage(why) });
  };
  return () => {
    if (reading !== null) return reading;
    const now = environment.clock.monotonic();
    if (now - readAt < collectorLimits.storeReadMsMin) return Promise.resolve();
    readAt = now;
    reading = withTimeout(environment, collectorLimits.waitMsMax, read())
      .catch(clearStaleMetrics)
      .finally(() => {
        reading = null;
      });
    return reading;
  };
}
