// Medians, spreads and a progress bar for the output of every bench, and the same figures as data for --json.

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  const upper = sorted[middle] ?? Number.NaN;
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? Number.NaN) + upper) / 2;
}

export function percentile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}

export const formatRange = (values: readonly number[]): string =>
  `${formatInteger(Math.min(...values))}..${formatInteger(Math.max(...values))}`;

export const formatInteger = (value: number): string => Math.round(value).toLocaleString("en-US");

export interface RoundStatistics {
  readonly median: number;
  readonly min: number;
  readonly max: number;
}

/** What a printed line contains about some rounds, as data. */
export const roundStatistics = (values: readonly number[]): RoundStatistics => ({
  median: median(values),
  min: Math.min(...values),
  max: Math.max(...values),
});

export const percentiles = (values: readonly number[]): { readonly p50: number; readonly p99: number; readonly max: number } => ({
  p50: percentile(values, 0.5),
  p99: percentile(values, 0.99),
  max: Math.max(...values),
});

const recordedFigures: Record<string, unknown[]> = {};

/** Recorded beside its printed line; a second record under one name is one more of its kind. */
export function recordFigures(name: string, figures: Readonly<Record<string, unknown>>): void {
  (recordedFigures[name] ??= []).push(figures);
}

/** All that was noted, by name, in the order in which it was seen; null where nothing was. */
export const allRecordedFigures = (): Readonly<Record<string, readonly unknown[]>> | null =>
  Object.keys(recordedFigures).length === 0 ? null : recordedFigures;

/** A bar on a terminal, nothing in a log: the figures are what a log is for. */
export function showProgress(label: string, done: number, all: number): void {
  if (!process.stderr.isTTY) return;
  const width = 30;
  const full = Math.round((done / all) * width);
  process.stderr.write(
    `\r${label.padEnd(28)} [${"#".repeat(full)}${".".repeat(width - full)}] ${Math.round((done / all) * 100)} %`,
  );
  if (done >= all) process.stderr.write("\n");
}

export function readNumberOption(argv: readonly string[], name: string, fallback: number): number {
  const at = argv.indexOf(`--${name}`);
  const value = at < 0 ? fallback : Number(argv[at + 1]);
  if (!Number.isFinite(value) || value <= 0) throw new Error(`--${name} takes a number above 0`);
  return value;
}
