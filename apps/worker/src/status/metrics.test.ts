import { expect, it } from "vitest";
import { WorkerMetrics } from "./metrics.ts";

it("[W135] the worker's metrics render counters, gauges and task durations by node type in the Prometheus format", () => {
  const meter = new WorkerMetrics();
  meter.increment("heartbeat_sent_total");
  meter.increment("heartbeat_sent_total");
  for (const ms of [0.5, 5, 20, 1e9]) meter.observeDuration('demo."x"\\', ms);

  const lines = meter
    .render([
      ["inflight_tasks", "Now.", 3],
      ["unknown", "Not known.", Number.NaN],
    ])
    .split("\n");

  expect(lines.slice(0, 9)).toEqual([
    "# HELP inflight_tasks Now.",
    "# TYPE inflight_tasks gauge",
    "inflight_tasks 3",
    "# HELP heartbeat_sent_total Heartbeats sent.",
    "# TYPE heartbeat_sent_total counter",
    "heartbeat_sent_total 2",
    "# HELP heartbeat_degraded_total Heartbeats that reported this worker as unhealthy.",
    "# TYPE heartbeat_degraded_total counter",
    "heartbeat_degraded_total 0",
  ]);
  const of = (rest: string) => lines.find((line) => line.startsWith(`task_duration_ms${rest}`));
  expect(lines).toContain("# TYPE task_duration_ms histogram");
  expect(of('_bucket{node_type="demo.\\"x\\"\\\\",le="1"}')).toMatch(/ 1$/);
  expect(of('_bucket{node_type="demo.\\"x\\"\\\\",le="5"}')).toMatch(/ 2$/);
  expect(of('_bucket{node_type="demo.\\"x\\"\\\\",le="300000"}')).toMatch(/ 3$/);
  expect(of('_bucket{node_type="demo.\\"x\\"\\\\",le="+Inf"}')).toMatch(/ 4$/);
  expect(of("_count{")).toMatch(/ 4$/);
});

it("[W135] the worker's metrics keep a bounded number of node types and count the rest together", () => {
  const meter = new WorkerMetrics();
  for (let type = 0; type < 600; type++) meter.observeDuration(`t.${type}`, 1);

  const counts = meter
    .render([])
    .split("\n")
    .filter((line) => line.startsWith("task_duration_ms_count"));

  expect(counts).toHaveLength(501);
  expect(counts.at(-1)).toBe('task_duration_ms_count{node_type="other"} 100');
});
