// Metrics in the text format of Prometheus. The hot path adds to a series that it holds already: no label lookup per frame.

import {
  formatHistogram,
  formatMetricHeader,
  formatMetricLine,
  type HistogramValues,
  type MetricKind,
  type MetricLabels,
} from "@astraflow/protocol";

export interface MetricDefinition {
  readonly name: string;
  readonly kind: MetricKind;
  readonly help: string;
  readonly labels: readonly string[];
  /** Upper bounds, of histograms. */
  readonly buckets: readonly number[];
}

export const metricsLimits = {
  /** Label values come from workflows and workers; beyond this many, new series of a family share the label `other`, one for each tenant. */
  seriesPerFamilyMax: 2_000,
  familiesMax: 500,
  labelCharsMax: 128,
} as const;

/** One line of a family: the values of its labels are fixed. */
export class MetricSeries {
  readonly labels: readonly string[];
  readonly buckets: readonly number[];
  readonly bucketCounts: number[];
  value = 0;
  observations = 0;

  constructor(labels: readonly string[], buckets: readonly number[]) {
    this.labels = labels;
    this.buckets = buckets;
    this.bucketCounts = buckets.map(() => 0);
  }

  add(value: number): void {
    this.value += value;
  }

  set(value: number): void {
    this.value = value;
  }

  /** One observation of a histogram. */
  observe(value: number): void {
    this.value += value;
    this.observations += 1;
    const index = this.buckets.findIndex((bound) => value <= bound);
    if (index >= 0) this.bucketCounts[index] = (this.bucketCounts[index] ?? 0) + 1;
  }

  /** A histogram that is counted elsewhere, with the bounds of this family. */
  replaceObservations({ hits, sum, count }: HistogramValues): void {
    for (const index of this.bucketCounts.keys()) this.bucketCounts[index] = hits[index] ?? 0;
    this.value = sum;
    this.observations = count;
  }
}

export class MetricFamily {
  readonly definition: MetricDefinition;
  readonly series = new Map<string, MetricSeries>();

  constructor(definition: MetricDefinition) {
    this.definition = definition;
  }

  withLabels(...values: readonly string[]): MetricSeries {
    const key = values.join("\u0000");
    const existing = this.series.get(key);
    if (existing !== undefined) return existing;
    // Cut before they are compared: two long values with the same start are one series, as no series may be shown twice.
    const labels = values.map((value) => value.slice(0, metricsLimits.labelCharsMax));
    if (labels.some((label, index) => label !== values[index])) return this.withLabels(...labels);
    // There are few tenants, so what one of them overflows with is still counted as its own.
    const others = values.map((value, index) => (this.definition.labels[index] === "tenant" ? value : "other"));
    if (this.series.size >= metricsLimits.seriesPerFamilyMax && others.some((other, index) => other !== values[index]))
      return this.withLabels(...others);
    const series = new MetricSeries(labels, this.definition.buckets);
    this.series.set(key, series);
    return series;
  }

  /** Removes all series, for gauges that are filled anew at each scrape. */
  clear(): void {
    this.series.clear();
  }

  /** With a tenant only its own series; a family that is not about tenants has none. */
  render(tenant?: string): string {
    const { name, kind, help, labels } = this.definition;
    const tenantAt = labels.indexOf("tenant");
    if (tenant !== undefined && tenantAt < 0) return "";
    const shown = [...this.series.values()].filter((series) => tenant === undefined || series.labels[tenantAt] === tenant);
    const lines = shown.map((series) => this.renderSeries(series));
    return formatMetricHeader(name, kind, help) + lines.join("");
  }

  private renderSeries(series: MetricSeries): string {
    const { name, kind } = this.definition;
    const labels: MetricLabels = this.definition.labels.map((label, index) => [label, series.labels[index] ?? ""]);
    if (kind !== "histogram") return formatMetricLine(name, labels, series.value);
    const { buckets: bounds, bucketCounts: hits, value: sum, observations: count } = series;
    return formatHistogram(name, labels, { bounds, hits, sum, count });
  }
}

export class MetricsRegistry {
  readonly #families = new Map<string, MetricFamily>();
  readonly #collectors: (() => void)[] = [];

  counter(name: string, help: string, labels: readonly string[]): MetricFamily {
    return this.#define({ name, kind: "counter", help, labels, buckets: [] });
  }

  gauge(name: string, help: string, labels: readonly string[]): MetricFamily {
    return this.#define({ name, kind: "gauge", help, labels, buckets: [] });
  }

  histogram(name: string, help: string, labels: readonly string[], buckets: readonly number[]): MetricFamily {
    return this.#define({ name, kind: "histogram", help, labels, buckets });
  }

  #define(definition: MetricDefinition): MetricFamily {
    const existing = this.#families.get(definition.name);
    if (existing !== undefined) return existing;
    const created = new MetricFamily(definition);
    // Names come from our own code; a runaway one must not grow the registry for ever.
    if (this.#families.size < metricsLimits.familiesMax) this.#families.set(definition.name, created);
    return created;
  }

  /** A number that arrives as data; its family is created when it first appears. */
  addByName(name: string, labels: Readonly<Record<string, string>>, value: number): void {
    const existing = this.#families.get(name);
    const names = existing?.definition.labels ?? Object.keys(labels).sort();
    const family = existing ?? this.counter(name, "Counted by the engine.", names);
    const series = family.withLabels(...names.map((label) => labels[label] ?? ""));
    if (existing?.definition.kind === "histogram") series.observe(value);
    else series.add(value);
  }

  /** Calls `collect` before each scrape, for numbers that are read rather than counted. */
  onScrape(collect: () => void): void {
    this.#collectors.push(collect);
  }

  families(): readonly Pick<MetricDefinition, "name" | "kind" | "labels">[] {
    return [...this.#families.values()].map(({ definition: { name, kind, labels } }) => ({ name, kind, labels }));
  }

  /** Families without a number yet show their name and kind, so that a scrape lists all there are. */
  render(tenant?: string): string {
    for (const collect of this.#collectors) collect();
    return [...this.#families.values()].map((family) => family.render(tenant)).join("");
  }
}

export const createMetricsRegistry = (): MetricsRegistry => new MetricsRegistry();
