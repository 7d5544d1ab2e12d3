import { describe, expect, it } from "vitest";
import { createMetricsRegistry, metricsLimits } from "./metrics-registry.ts";

describe("metrics", () => {
  it("[A1] the metrics registry renders counters, gauges and histograms in the text format, with labels escaped", () => {
    const metrics = createMetricsRegistry();
    metrics.counter("frames_total", "Frames.", ["tenant"]).withLabels('a"b\\c\nd').add(2);
    metrics.gauge("open", "Open.", []).withLabels().set(3);
    const latency = metrics.histogram("latency_ms", "Latency.", ["type"], [1, 10]);
    for (const ms of [0.5, 5, 50]) latency.withLabels("x").observe(ms);

    expect(metrics.render()).toBe(
      [
        "# HELP frames_total Frames.",
        "# TYPE frames_total counter",
        'frames_total{tenant="a\\"b\\\\c\\nd"} 2',
        "# HELP open Open.",
        "# TYPE open gauge",
        "open 3",
        "# HELP latency_ms Latency.",
        "# TYPE latency_ms histogram",
        'latency_ms_bucket{type="x",le="1"} 1',
        'latency_ms_bucket{type="x",le="10"} 2',
        'latency_ms_bucket{type="x",le="+Inf"} 3',
        'latency_ms_sum{type="x"} 55.5',
        'latency_ms_count{type="x"} 3',
        "",
      ].join("\n"),
    );
  });

  it("[A1] the metrics registry adds values by name: to known families by label, to histograms as observations, else as counters", () => {
    const metrics = createMetricsRegistry();
    metrics.histogram("latency_ms", "Latency.", ["tenant", "type"], [10]);

    metrics.addByName("latency_ms", { type: "x", tenant: "t" }, 4);
    metrics.addByName("retries_total", { reason: "lost" }, 2);
    metrics.addByName("retries_total", { reason: "lost" }, 1);

    expect(metrics.render()).toContain('latency_ms_bucket{tenant="t",type="x",le="10"} 1');
    expect(metrics.render()).toContain('retries_total{reason="lost"} 3');
  });

  it("[A1] the metrics registry keeps a bounded number of series per family and counts the rest together", () => {
    const metrics = createMetricsRegistry();
    const family = metrics.counter("wild_total", "Wild.", ["name"]);

    for (let i = 0; i < metricsLimits.seriesPerFamilyMax + 10; i += 1) family.withLabels(`n${i}`).add(1);

    expect(metrics.render()).toContain('wild_total{name="other"} 10');
    expect(metrics.render().split("\n").length).toBeLessThan(metricsLimits.seriesPerFamilyMax + 10);
  });

  it("[D97] the metrics registry counts overflowing series per tenant, so that one tenant's names do not hide another's numbers", () => {
    const metrics = createMetricsRegistry();
    const family = metrics.counter("misses_total", "Misses.", ["tenant", "worker"]);

    for (let i = 0; i < metricsLimits.seriesPerFamilyMax + 10; i += 1) family.withLabels("loud", `w${i}`).add(1);
    family.withLabels("quiet", "w").add(3);

    expect(metrics.render()).toContain('misses_total{tenant="loud",worker="other"} 10');
    expect(metrics.render()).toContain('misses_total{tenant="quiet",worker="other"} 3');
  });

  it("[D97] the metrics registry renders no series twice: labels that are equal once truncated share one series", () => {
    const metrics = createMetricsRegistry();
    const family = metrics.counter("misses_total", "Misses.", ["worker"]);
    const long = "w".repeat(metricsLimits.labelCharsMax);

    family.withLabels(`${long}-1`).add(1);
    family.withLabels(`${long}-2`).add(1);

    expect(metrics.render().match(/^misses_total\{.*$/gm)).toEqual([`misses_total{worker="${long}"} 2`]);
  });
});
