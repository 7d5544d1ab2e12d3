// The routes about the process itself: alive, ready, its numbers, its own description, and the demo page.

import type { EngineGauge } from "@astraflow/engine";
import { type FaultCode, openapiDocument } from "@astraflow/protocol";
import type { Metrics } from "../metrics.ts";
import type { Handler } from "./call.ts";

export interface SystemOptions {
  readonly metrics: Metrics;
  /** Why the process cannot take work at this moment; null when it can. The reason is shown to whoever asks. */
  readonly unready: () => { readonly code: FaultCode; readonly reason: string } | null;
  /** The engine's own numbers; null while it cannot be asked. */
  readonly gauge: () => EngineGauge | null;
}

export function systemHandlers(
  options: SystemOptions,
): Record<"getOpenapi" | "getHealth" | "getReadiness" | "getMetrics", Handler> {
  const { metrics, unready, gauge } = options;
  fillGauges(metrics, gauge);
  let openapi: string | null = null;
  return {
    getOpenapi: () => {
      openapi ??= JSON.stringify(openapiDocument());
      return { body: openapi, media: "application/json; charset=utf-8" };
    },
    getHealth: () => ({ body: { ok: true } }),
    getReadiness: () => {
      const why = unready();
      if (why === null) return { body: { ok: true } };
      return { status: 503, body: { ok: false, error: why.code, message: why.reason } };
    },
    getMetrics: () => ({ body: metrics.text(), media: "text/plain; version=0.0.4; charset=utf-8" }),
  };
}

const engineGauges: readonly (readonly [name: string, help: string, field: Exclude<keyof EngineGauge, "now">])[] = [
  ["engine_commands_waiting", "Commands that no turn has taken yet.", "waiting"],
  ["engine_turns", "Turns made since start.", "turns"],
  ["engine_commands", "Commands taken since start.", "commands"],
  ["engine_grants", "Tasks granted since start.", "grants"],
  ["engine_turns_retried", "Turns that were made again because the store refused them.", "retriedTurns"],
  ["engine_units_quarantined", "Roots set aside for an operator.", "quarantined"],
  ["engine_sessions", "Worker sessions of this process.", "sessions"],
  ["engine_attempts_held", "Attempts held by the workers of this process.", "held"],
];

function fillGauges(metrics: Metrics, gauge: () => EngineGauge | null): void {
  const families = engineGauges.map(([name, help, field]) => ({ family: metrics.gauge(name, help, []), field }));
  const memory = metrics.gauge("process_resident_memory_bytes", "Memory of the process.", []);
  const cpu = metrics.counter("process_cpu_seconds_total", "Processor time of the process.", []);
  metrics.onScrape(() => {
    const now = gauge();
    if (now !== null) for (const { family, field } of families) family.at().set(now[field]);
    const { user, system } = process.cpuUsage();
    cpu.at().set((user + system) / 1_000_000);
    memory.at().set(process.memoryUsage.rss());
  });
}
