// `astra top`: looks at the fleet and the open runs again and again, and draws them. What it looks like is in top-picture.ts.

import { setTimeout as pause } from "node:timers/promises";
import { CliFailure, type ExitCode, exitCodes } from "./failure.ts";
import type { Place } from "./place.ts";
import type { ListenKeys } from "./program-words.ts";
import { drawTop, type Moment, topRows } from "./top-picture.ts";

export interface TopWords {
  readonly once: boolean;
  /** Between looks; a tenth of a second at least, so that no more than ten pictures are drawn a second. */
  readonly everyMs: number;
}

export const everyMsMin = 100;
const shownMax = 200;

type TopPlace = Place & { readonly signal: AbortSignal; readonly listenKeys?: ListenKeys };

/** Ends well at the key q, where there is a picture and somebody before it. */
export async function showTop(words: TopWords, place: TopPlace): Promise<ExitCode> {
  const quitting = new AbortController();
  const isWatched = place.terminal.isLive && !place.json && !words.once;
  const endListening = isWatched ? place.listenKeys?.((key) => quitKeys.includes(key) && quitting.abort()) : undefined;
  try {
    const code = await watch(words, { ...place, signal: AbortSignal.any([place.signal, quitting.signal]) });
    return quitting.signal.aborted ? exitCodes.ok : code;
  } finally {
    endListening?.();
  }
}

const quitKeys: readonly string[] = ["q", "Q"];

async function watch(words: TopWords, place: TopPlace): Promise<ExitCode> {
  const { terminal, client, signal } = place;
  let isLost = false;
  let isSeen = false;
  // At once, not after the loop: a look that is under way may wait for an answer.
  signal.addEventListener("abort", () => terminal.settle(), { once: true });
  while (!signal.aborted) {
    try {
      const moment = await look(place);
      if (isLost) terminal.say("connected again");
      isLost = false;
      isSeen = true;
      // A picture that was under way when it was told to end would stand below the last one.
      if (!signal.aborted || !terminal.isLive) show(moment, words, place);
      if (words.once) return exitCodes.ok;
    } catch (cause) {
      const isAway = cause instanceof CliFailure && cause.exitCode === exitCodes.unreachable;
      // Without a picture there is nothing to come back to: the address may be wrong.
      if (!isAway || words.once || !isSeen) throw cause;
      if (!isLost) terminal.say(`the scheduler at ${client.url} does not answer; reconnecting, this was its last picture`);
      isLost = true;
    }
    await pause(words.everyMs, undefined, { signal }).catch((cause: unknown) => {
      // The signal ends the loop, not the command.
      if (!signal.aborted) throw cause;
    });
  }
  return exitCodes.interrupted;
}

async function look({ client, now }: Place): Promise<Moment> {
  const [scaling, workers, runs, queues] = await Promise.all([
    client.getScaling(),
    client.listWorkers({ limit: shownMax }),
    client.listRuns({ limit: shownMax, status: "queued,running" }),
    client.listQueues(),
  ]);
  const there = workers.items.toSorted(
    (a, b) => Number(b.connected === true) - Number(a.connected === true) || a.id.localeCompare(b.id),
  );
  return { url: client.url, at: now(), scaling, workers: there, runs: runs.items, queues: queues.items };
}

function show(moment: Moment, { once }: TopWords, { terminal, json, listenKeys }: TopPlace): void {
  const { scaling, workers, runs, queues, at } = moment;
  const { paint, width } = terminal;
  if (json) {
    const data = { at: new Date(at).toISOString(), scaling, workers, runs, queues };
    terminal.print(JSON.stringify({ cursor: String(scaling.asOf), ...data }));
  } else if (terminal.isLive && !once)
    terminal.draw(
      drawTop(moment, { paint, columns: terminal.columns, rows: terminal.rows, isWatched: listenKeys !== undefined }),
    );
  else {
    // Printed once on a screen it is a picture of any length; in a pipe it is rows.
    const lines = Number.isFinite(width)
      ? drawTop(moment, { paint, columns: width, rows: Number.POSITIVE_INFINITY })
      : topRows(moment);
    for (const line of lines) terminal.print(line);
  }
}
