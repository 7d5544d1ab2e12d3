// The metrics of the session door, under the names that the protocol promises to operators.

import type { EngineClient } from "@astraflow/services";
import type { MetricsRegistry } from "../../environment/metrics-registry.ts";

export type SessionMetrics = ReturnType<typeof createSessionMetrics>;

const latencyBucketsMs = [1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000, 300_000, 1_800_000];

export function createSessionMetrics(metrics: MetricsRegistry, engineClient: EngineClient) {
  const active = metrics.gauge("ws_conn_active", "Worker connections that have authenticated.", ["tenant"]);
  const bytes = metrics.counter("ws_frame_bytes_total", "Bytes of session frames.", ["tenant", "dir"]);
  const dispatches = metrics.counter("cmd_dispatch_total", "Dispatches handed to a worker connection.", ["tenant", "node_type"]);
  // Counted by the engine, declared here so that they show before the first count.
  metrics.counter("ws_heartbeat_miss_total", "Heartbeat periods that passed without a heartbeat.", ["tenant", "worker"]);
  metrics.histogram("result_latency_ms", "From grant to result.", ["tenant", "node_type"], latencyBucketsMs);
  metrics.counter("cmd_retry_total", "Task retries by reason.", ["reason"]);
  const refusals = metrics.counter("ws_frame_refused_total", "Frames that were refused.", ["tenant", "code"]);
  const resumes = metrics.counter("ws_session_resumed_total", "Sessions resumed on a new socket.", ["tenant"]);
  const resets = metrics.counter("ws_session_reset_total", "Sessions ended with a reset, by reason.", ["tenant", "code"]);
  const delays = metrics.counter("ws_handshake_delayed_total", "Handshakes that waited because their address had failed.", []);
  const repeats = metrics.counter("ws_frame_repeat_total", "Numbered frames received or sent more than once.", ["tenant", "dir"]);
  const packageOps = metrics.counter("pkg_ops_total", "Package operations that workers reported.", ["tenant", "op", "status"]);

  engineClient.on("dispatch", ({ tenant, dispatch }) => dispatches.withLabels(tenant, dispatch.nodeType).add(1));
  engineClient.on("count", ({ name, labels, values }) => {
    for (const value of values) metrics.addByName(name, labels, value);
  });
  return {
    connections: (tenant: string) => active.withLabels(tenant),
    bytes: (tenant: string, dir: "in" | "out") => bytes.withLabels(tenant, dir),
    refused: (tenant: string, code: string) => refusals.withLabels(tenant, code).add(1),
    resumed: (tenant: string) => resumes.withLabels(tenant).add(1),
    reset: (tenant: string, code: string) => resets.withLabels(tenant, code).add(1),
    handshakeDelayed: () => delays.withLabels().add(1),
    repeated: (tenant: string, dir: "in" | "out", frames: number) => repeats.withLabels(tenant, dir).add(frames),
    packageOp: (tenant: string, op: string, status: string) => packageOps.withLabels(tenant, op, status).add(1),
  };
}
