// `astra top`: reads workers and open runs periodically and draws them; the layout is in top-view.ts.

import { setTimeout as pause } from "node:timers/promises";
import type { CommandContext } from "../api/command-context.ts";
import { type CliExitCode, CliFailure, exitCodes } from "../output/cli-failure.ts";
import type { ListenForKeys } from "../output/terminal.ts";
import { type FleetSnapshot, formatTopRows, renderTop } from "./top-view.ts";
import { compareWorkers } from "./worker-commands.ts";

interface TopFlags {
  readonly once?: boolean;
  readonly every: number;
}

export const refreshMsMin = 100;
const itemsShownMax = 200;

type TopContext = CommandContext & { readonly listenKeys?: ListenForKeys | undefined };

/** Ends with exit code 0 at the key q, on a terminal. */
export async function showTop(context: TopContext, flags: TopFlags): Promise<CliExitCode> {
  const quitting = new AbortController();
  const isWatched = context.terminal.isInteractive && !context.json && !flags.once;
  const endListening = isWatched ? context.listenKeys?.((key) => quitKeys.includes(key) && quitting.abort()) : undefined;
  try {
    const code = await refreshUntilStopped(flags, { ...context, signal: AbortSignal.any([context.signal, quitting.signal]) });
    return quitting.signal.aborted ? exitCodes.ok : code;
  } finally {
    endListening?.();
  }
}

const quitKeys: readonly string[] = ["q", "Q"];

async function refreshUntilStopped(flags: TopFlags, context: TopContext): Promise<CliExitCode> {
  const { terminal, client, signal } = context;
  let isLost = false;
  let isSeen = false;
  // At once, not after the loop: a pending request may take a while.
  signal.addEventListener("abort", () => terminal.finishDrawing(), { once: true });
  while (!signal.aborted) {
    try {
      const snapshot = await fetchFleetSnapshot(context);
      if (isLost) terminal.info("Reconnected.");
      isLost = false;
      isSeen = true;
      // A snapshot that arrives after the end would be drawn below the last one.
      if (!signal.aborted || !terminal.isInteractive) showSnapshot(snapshot, flags, context);
      if (flags.once) return exitCodes.ok;
    } catch (cause) {
      const isAway = cause instanceof CliFailure && cause.exitCode === exitCodes.unreachable;
      // Before the first snapshot the address may be wrong, so this is a failure.
      if (!isAway || flags.once || !isSeen) throw cause;
      if (!isLost) terminal.info(`the scheduler at ${client.url} does not answer; reconnecting (the last known state is shown)`);
      isLost = true;
    }
    await pause(flags.every, undefined, { signal }).catch((cause: unknown) => {
      // The signal ends the loop, not the command.
      if (!signal.aborted) throw cause;
    });
  }
  return exitCodes.interrupted;
}

async function fetchFleetSnapshot({ client, now }: CommandContext): Promise<FleetSnapshot> {
  const [scaling, workers, runs, queues] = await Promise.all([
    client.getScaling(),
    client.listWorkers({ limit: itemsShownMax }),
    client.listRuns({ limit: itemsShownMax, status: "queued,running" }),
    client.listQueues(),
  ]);
  const sorted = workers.items.toSorted(compareWorkers);
  return { url: client.url, at: now(), scaling, workers: sorted, runs: runs.items, queues: queues.items };
}

function showSnapshot(snapshot: FleetSnapshot, { once }: TopFlags, { terminal, json, listenKeys }: TopContext): void {
  const { scaling, workers, runs, queues, at } = snapshot;
  const { colors: paint, stdoutColumns: width, stderrColumns: columns, stderrRows: rows } = terminal;
  if (json) {
    const data = { at: new Date(at).toISOString(), scaling, workers, runs, queues };
    terminal.print(JSON.stringify({ cursor: String(scaling.asOf), ...data }));
  } else if (terminal.isInteractive && !once)
    terminal.draw(renderTop(snapshot, { paint, columns, rows, isWatched: listenKeys !== undefined }));
  else {
    // With --once a screen gets the whole view, a pipe gets rows.
    const lines = Number.isFinite(width)
      ? renderTop(snapshot, { paint, columns: width, rows: Number.POSITIVE_INFINITY })
      : formatTopRows(snapshot);
    for (const line of lines) terminal.print(line);
  }
}
