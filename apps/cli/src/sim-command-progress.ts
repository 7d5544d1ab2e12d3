// How far a campaign of seeds is: a bar on a terminal, a line now and then in a pipe.

import type { Terminal } from "./terminal.ts";

export interface SimCount {
  seeds: number;
  readonly of: number;
  violations: number;
  simulatedMs: number;
  events: number;
}

const barCells = 24;
const drawEveryMs = 100;
const sayEveryMs = 10_000;

export interface SimProgress {
  show(count: SimCount): void;
  end(): void;
}

export function drawSimProgress(terminal: Terminal, elapsedMs: () => number): SimProgress {
  let shownAt = 0;
  let last: SimCount | null = null;
  return {
    show(count) {
      last = count;
      const ms = elapsedMs();
      if (ms - shownAt < (terminal.isLive ? drawEveryMs : sayEveryMs)) return;
      shownAt = ms;
      if (terminal.isLive) terminal.draw([describeProgress(count, ms, terminal)]);
      else terminal.say(describeProgress(count, ms, terminal));
    },
    end() {
      if (terminal.isLive && last !== null) terminal.draw([describeProgress(last, elapsedMs(), terminal)]);
      terminal.settle();
    },
  };
}

export function describeProgress(
  { seeds, of, violations, simulatedMs }: SimCount,
  ms: number,
  { isLive, paint }: Terminal,
): string {
  const rate = seeds / Math.max(0.001, ms / 1_000);
  const left = Math.ceil((of - seeds) / Math.max(0.001, rate));
  const full = Math.round((seeds / of) * barCells);
  const bar = isLive ? `${paint.blue("━".repeat(full))}${paint.dim("─".repeat(barCells - full))} ` : "";
  const broken = violations === 0 ? "no violations" : paint.red(`${violations} violations`);
  const hours = (simulatedMs / 3_600_000).toFixed(1);
  return `${bar}${seeds} of ${of} seeds · ${rate.toFixed(1)} a second · ${left} s left · ${hours} simulated hours · ${broken}`;
}
