// The worker's counters, gauges and task durations, in the text form that Prometheus reads.

import { formatHistogram, formatMetricHeader, formatMetricLine, type MetricKind } from "@astraflow/protocol";
import type { LinkCounter } from "@astraflow/runtime";

/** Milliseconds; the last bucket is everything. */
const durationBuckets = [1, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000, 300_000] as const;
/** Node types come from packages; beyond this many the others share one line. */
const seriesMax = 500;
const labelCharsMax = 128;

interface DurationHistogram {
  readonly hits: number[];
  sum: number;
  count: number;
}

const counterHelp: Readonly<Record<LinkCounter, string>> = {
  heartbeat_sent_total: "Heartbeats sent.",
  heartbeat_degraded_total: "Heartbeats that reported this worker as unhealthy.",
};

export type Gauge = readonly [name: string, help: string, value: number];

export class WorkerMetrics {
  readonly #counters = new Map<LinkCounter, number>();
  readonly #durations = new Map<string, DurationHistogram>();

  increment(name: LinkCounter): void {
    this.#counters.set(name, (this.#counters.get(name) ?? 0) + 1);
  }

  observeDuration(nodeType: string, ms: number): void {
    const durations = this.#histogramFor(nodeType);
    durations.sum += ms;
    durations.count++;
    const index = durationBuckets.findIndex((bound) => ms <= bound);
    if (index >= 0) durations.hits[index] = (durations.hits[index] ?? 0) + 1;
  }

  /** All that was counted, and the numbers that are read rather than counted. */
  render(gauges: readonly Gauge[]): string {
    const counters = (Object.keys(counterHelp) as LinkCounter[]).map((name) =>
      renderMetric(name, "counter", counterHelp[name], this.#counters.get(name) ?? 0),
    );
    const read = gauges
      .filter(([, , value]) => Number.isFinite(value))
      .map(([name, help, value]) => renderMetric(name, "gauge", help, value));
    return [...read, ...counters, this.#renderDurations()].join("");
  }

  #histogramFor(nodeType: string): DurationHistogram {
    const key = this.#durations.has(nodeType) || this.#durations.size < seriesMax ? nodeType : "other";
    let durations = this.#durations.get(key);
    if (durations === undefined) {
      durations = { hits: durationBuckets.map(() => 0), sum: 0, count: 0 };
      this.#durations.set(key, durations);
    }
    return durations;
  }

  #renderDurations(): string {
    const name = "task_duration_ms";
    const lines = [...this.#durations].map(([nodeType, durations]) =>
      formatHistogram(name, [["node_type", nodeType.slice(0, labelCharsMax)]], { bounds: durationBuckets, ...durations }),
    );
    return formatMetricHeader(name, "histogram", "From a task's start to its outcome.") + lines.join("");
  }
}

const renderMetric = (name: string, kind: MetricKind, help: string, value: number): string =>
  formatMetricHeader(name, kind, help) + formatMetricLine(name, [], value);
