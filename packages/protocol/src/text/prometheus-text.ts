// Numbers in the text form that Prometheus reads. What is counted, and how it is held meanwhile, is each program's own business.

export type MetricKind = "counter" | "gauge" | "histogram";

/** Names and values of labels, in the order they are written. */
export type MetricLabels = readonly (readonly [name: string, value: string])[];

export interface HistogramValues {
  /** Upper bounds, rising; what is above the last is only in `count`. */
  readonly bounds: readonly number[];
  /** How many fell between each bound and the one before it. */
  readonly hits: readonly number[];
  readonly sum: number;
  readonly count: number;
}

/** The two lines that open a family; they stand also where it has no number yet. */
export const formatMetricHeader = (name: string, kind: MetricKind, help: string): string =>
  `# HELP ${name} ${help}\n# TYPE ${name} ${kind}\n`;

export function formatMetricLine(name: string, labels: MetricLabels, value: number): string {
  if (labels.length === 0) return `${name} ${value}\n`;
  return `${name}{${labels.map(([label, text]) => `${label}="${escapeLabel(text)}"`).join(",")}} ${value}\n`;
}

export function formatHistogram(name: string, labels: MetricLabels, { bounds, hits, sum, count }: HistogramValues): string {
  let total = 0;
  const buckets = bounds.map((bound, index) => {
    total += hits[index] ?? 0;
    return formatMetricLine(`${name}_bucket`, [...labels, ["le", String(bound)]], total);
  });
  buckets.push(formatMetricLine(`${name}_bucket`, [...labels, ["le", "+Inf"]], count));
  return `${buckets.join("")}${formatMetricLine(`${name}_sum`, labels, sum)}${formatMetricLine(`${name}_count`, labels, count)}`;
}

const escapeLabel = (value: string): string => value.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n");
