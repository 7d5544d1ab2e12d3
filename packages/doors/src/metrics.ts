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
export interface Series {
  add(value: number): void;
  set(value: number): void;
  /** Histograms only: one observation. */
  observe(value: number): void;
}

export interface Family {
  at(...labels: readonly string[]): Series;
  /** Forgets all series, for gauges that are filled anew at each scrape. */
  clear(): void;
}

export interface Metrics {
  counter(name: string, help: string, labels: readonly string[]): Family;
  gauge(name: string, help: string, labels: readonly string[]): Family;
  histogram(name: string, help: string, labels: readonly string[], buckets: readonly number[]): Family;
  /** A number that arrives as data; its family is made on first sight. */
  count(name: string, labels: Readonly<Record<string, string>>, value: number): void;
  /** Called before each scrape, for numbers that are read rather than counted. */
  onScrape(fill: () => void): void;
  /** Every family that was declared or counted so far. */
  families(): readonly FamilyName[];
  /** Families without a number yet show their name and kind, so that whoever scrapes sees all there is. */
  text(): string;
}

export interface FamilyName {
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

class Line implements Series {
  readonly labels: readonly string[];
  readonly buckets: readonly number[];
  readonly hits: number[];
  value = 0;
  observations = 0;

  constructor(labels: readonly string[], buckets: readonly number[]) {
    this.labels = labels;
    this.buckets = buckets;
    this.hits = buckets.map(() => 0);
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
    if (index >= 0) this.hits[index] = (this.hits[index] ?? 0) + 1;
  }
}

class Group implements Family {
  readonly name: string;
  readonly kind: Kind;
  readonly help: string;
  readonly labels: readonly string[];
  readonly buckets: readonly number[];
  readonly lines = new Map<string, Line>();

  constructor(name: string, kind: Kind, help: string, labels: readonly string[], buckets: readonly number[]) {
    this.name = name;
    this.kind = kind;
    this.help = help;
    this.labels = labels;
    this.buckets = buckets;
  }

  at(...values: readonly string[]): Series {
    const key = values.join("\u0000");
    const known = this.lines.get(key);
    if (known !== undefined) return known;
    // Cut before they are compared: two long names that begin alike are one series, as no series may be shown twice.
    const labels = values.map((value) => value.slice(0, metricsLimits.labelCharsMax));
    if (labels.some((label, index) => label !== values[index])) return this.at(...labels);
    // Tenants are those of our own tokens, so they are few: what one of them overflows with is still counted as its own.
    const others = values.map((value, index) => (this.labels[index] === "tenant" ? value : "other"));
    if (this.lines.size >= metricsLimits.seriesPerFamilyMax && others.some((other, index) => other !== values[index]))
      return this.at(...others);
    const line = new Line(labels, this.buckets);
    this.lines.set(key, line);
    return line;
  }

  clear(): void {
    this.lines.clear();
  }

  text(): string {
    return (
      formatMetricHeader(this.name, this.kind, this.help) + [...this.lines.values()].map((line) => this.lineText(line)).join("")
    );
  }

  private lineText(line: Line): string {
    const labels: MetricLabels = this.labels.map((label, index) => [label, line.labels[index] ?? ""]);
    if (this.kind !== "histogram") return formatMetricLine(this.name, labels, line.value);
    const { buckets: bounds, hits, value: sum, observations: count } = line;
    return formatHistogram(this.name, labels, { bounds, hits, sum, count });
  }
}

export function createMetrics(): Metrics {
  const groups = new Map<string, Group>();
  const fills: (() => void)[] = [];

  const group = (name: string, kind: Kind, help: string, labels: readonly string[], buckets: readonly number[] = []): Family => {
    const known = groups.get(name);
    if (known !== undefined) return known;
    const made = new Group(name, kind, help, labels, buckets);
    // Names come from our own code; a runaway one must not grow the registry for ever.
    if (groups.size < metricsLimits.familiesMax) groups.set(name, made);
    return made;
  };

  return {
    counter: (name, help, labels) => group(name, "counter", help, labels),
    gauge: (name, help, labels) => group(name, "gauge", help, labels),
    histogram: (name, help, labels, buckets) => group(name, "histogram", help, labels, buckets),
    count(name, labels, value) {
      const known = groups.get(name);
      const names = known?.labels ?? Object.keys(labels).sort();
      const family = known ?? group(name, "counter", "Counted by the engine.", names);
      const series = family.at(...names.map((label) => labels[label] ?? ""));
      if (known?.kind === "histogram") series.observe(value);
      else series.add(value);
    },
    onScrape: (fill) => void fills.push(fill),
    families: () => [...groups.values()].map(({ name, kind, labels }) => ({ name, kind, labels })),
    text() {
      for (const fill of fills) fill();
      return [...groups.values()].map((one) => one.text()).join("");
    },
  };
}
