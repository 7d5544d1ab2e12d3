// The progress of a simulation: a bar on a terminal, a line now and then in a pipe.

import type { Terminal } from "../output/terminal.ts";

export interface CampaignProgress {
  seeds: number;
  readonly total: number;
  violations: number;
  simulatedMs: number;
  events: number;
}

const barCells = 24;
const redrawMs = 100;
const logEveryMs = 10_000;

export interface CampaignProgressDisplay {
  show(count: CampaignProgress): void;
  end(): void;
}

export function createCampaignProgressDisplay(terminal: Terminal, elapsedMs: () => number): CampaignProgressDisplay {
  let shownAt = 0;
  let last: CampaignProgress | null = null;
  return {
    show(count) {
      last = count;
      const ms = elapsedMs();
      if (ms - shownAt < (terminal.isInteractive ? redrawMs : logEveryMs)) return;
      shownAt = ms;
      if (terminal.isInteractive) terminal.draw([formatCampaignProgress(count, ms, terminal)]);
      else terminal.info(formatCampaignProgress(count, ms, terminal));
    },
    end() {
      if (terminal.isInteractive && last !== null) terminal.draw([formatCampaignProgress(last, elapsedMs(), terminal)]);
      terminal.finishDrawing();
    },
  };
}

export function formatCampaignProgress(
  { seeds, total, violations, simulatedMs }: CampaignProgress,
  ms: number,
  { isInteractive: isLive, colors }: Terminal,
): string {
  const rate = seeds / Math.max(0.001, ms / 1_000);
  const left = Math.ceil((total - seeds) / Math.max(0.001, rate));
  const full = Math.round((seeds / total) * barCells);
  const bar = isLive ? `${colors.blue("━".repeat(full))}${colors.dim("─".repeat(barCells - full))} ` : "";
  const broken = violations === 0 ? "no violations" : colors.red(`${violations} violations`);
  const hours = (simulatedMs / 3_600_000).toFixed(1);
  return `${bar}${seeds} of ${total} seeds · ${rate.toFixed(1)} a second · ${left} s left · ${hours} simulated hours · ${broken}`;
}
