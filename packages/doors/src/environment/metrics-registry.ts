// Numbers for operators, in the text form that Prometheus reads. What is worth counting is decided where it happens.
// A registry of our own because the hot path adds to a series it already holds: no label lookup per frame.

import {
  formatHistogram,
  formatMetricHeader,
  formatMetricLine,
  type MetricKind as Kind,
  type MetricLabels,
} from "@astraflow/protocol";

/** One line of a family: the values of its labels are fixed. */
export interface MetricSeries {
  add(value: number): void;
  set(value: number): void;
  /** Histograms only: one observation. */
  observe(value: number): void;
}

export interface MetricFamily {
  withLabels(...labels: readonly string[]): MetricSeries;
  /** Forgets all series, for gauges that are filled anew at each scrape. */
  clear(): void;
}

export interface MetricsRegistry {
  counter(name: string, help: string, labels: readonly string[]): MetricFamily;
  gauge(name: string, help: string, labels: readonly string[]): MetricFamily;
  histogram(name: string, help: string, labels: readonly string[], buckets: readonly number[]): MetricFamily;
  /** A number that arrives as data; its family is made on first sight. */
  addByName(name: string, labels: Readonly<Record<string, string>>, value: number): void;
  /** Called before each scrape, for numbers that are read rather than counted. */
  onScrape(collect: () => void): void;
  /** Every family that was declared or counted so far. */
  families(): readonly MetricFamilyInfo[];
  /** Families without a number yet show their name and kind, so that whoever scrapes sees all there is. */
  render(): string;
}

export interface MetricFamilyInfo {
  readonly name: string;
  readonly kind: Kind;
  readonly labels: readonly string[];
}

export const metricsLimits = {
  /** Label values come from workflows and workers; beyond this many, a family's new series share the label `other`, each tenant's its own. */
  seriesPerFamilyMax: 2_000,
  familiesMax: 500,
  labelCharsMax: 128,
} as const;

class SeriesValues implements MetricSeries {
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

  observe(value: number): void {
    this.value += value;
    this.observations += 1;
    const index = this.buckets.findIndex((bound) => value <= bound);
    if (index >= 0) this.bucketCounts[index] = (this.bucketCounts[index] ?? 0) + 1;
  }
}

class SeriesFamily implements MetricFamily {
  readonly name: string;
  readonly kind: Kind;
  readonly help: string;
  readonly labels: readonly string[];
  readonly buckets: readonly number[];
  readonly series = new Map<string, SeriesValues>();

  constructor(name: string, kind: Kind, help: string, labels: readonly string[], buckets: readonly number[]) {
    this.name = name;
    this.kind = kind;
    this.help = help;
    this.labels = labels;
    this.buckets = buckets;
  }

  withLabels(...values: readonly string[]): MetricSeries {
    const key = values.join("\u0000");
    const existing = this.series.get(key);
    if (existing !== undefined) return existing;
    // Cut before they are compared: two long names that begin alike are one series, as no series may be shown twice.
    const labels = values.map((value) => value.slice(0, metricsLimits.labelCharsMax));
    if (labels.some((label, index) => label !== values[index])) return this.withLabels(...labels);
    // Tenants are those of our own tokens, so they are few: what one of them overflows with is still counted as its own.
    const others = values.map((value, index) => (this.labels[index] === "tenant" ? value : "other"));
    if (this.series.size >= metricsLimits.seriesPerFamilyMax && others.some((other, index) => other !== values[index]))
      return this.withLabels(...others);
    const series = new SeriesValues(labels, this.buckets);
    this.series.set(key, series);
    return series;
  }

  clear(): void {
    this.series.clear();
  }

  render(): string {
    return (
      formatMetricHeader(this.name, this.kind, this.help) +
      [...this.series.values()].map((series) => this.renderSeries(series)).join("")
    );
  }

  private renderSeries(series: SeriesValues): string {
    const labels: MetricLabels = this.labels.map((label, index) => [label, series.labels[index] ?? ""]);
    if (this.kind !== "histogram") return formatMetricLine(this.name, labels, series.value);
    const { buckets: bounds, bucketCounts: hits, value: sum, observations: count } = series;
    return formatHistogram(this.name, labels, { bounds, hits, sum, count });
  }
}

export function createMetricsRegistry(): MetricsRegistry {
  const families = new Map<string, SeriesFamily>();
  const collectors: (() => void)[] = [];

  const defineFamily = (
    name: string,
    kind: Kind,
    help: string,
    labels: readonly string[],
    buckets: readonly number[] = [],
  ): MetricFamily => {
    const existing = families.get(name);
    if (existing !== undefined) return existing;
    const created = new SeriesFamily(name, kind, help, labels, buckets);
    // Names come from our own code; a runaway one must not grow the registry for ever.
    if (families.size < metricsLimits.familiesMax) families.set(name, created);
    return created;
  };

  return {
    counter: (name, help, labels) => defineFamily(name, "counter", help, labels),
    gauge: (name, help, labels) => defineFamily(name, "gauge", help, labels),
    histogram: (name, help, labels, buckets) => defineFamily(name, "histogram", help, labels, buckets),
    addByName(name, labels, value) {
      const existing = families.get(name);
      const names = existing?.labels ?? Object.keys(labels).sort();
      const family = existing ?? defineFamily(name, "counter", "Counted by the engine.", names);
      const series = family.withLabels(...names.map((label) => labels[label] ?? ""));
      if (existing?.kind === "histogram") series.observe(value);
      else series.add(value);
    },
    onScrape: (collect) => void collectors.push(collect),
    families: () => [...families.values()].map(({ name, kind, labels }) => ({ name, kind, labels })),
    render() {
      for (const collect of collectors) collect();
      return [...families.values()].map((one) => one.render()).join("");
    },
  };
}
