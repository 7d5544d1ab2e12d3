// What one reader of events gets of that which is not in the log. It is never queued: of heartbeats a slow reader gets the newest of each worker
// once it has taken what waits, of frames it is told how many it missed. What is told at all is ../events/volatile.ts.

import { runOf } from "@astraflow/engine";
import type { ToldBeat, VolatileEar, VolatileEvents, WireFrame } from "../events/volatile.ts";
import { volatileText } from "../events/volatile.ts";
import type { DoorEnvironment } from "../outside.ts";
import type { EventSink, EventStream } from "./event-stream.ts";

export const volatileLimits = {
  /** A reader for whom more than this waits is slow. Less than what the log may fill: it must not be kept from that. */
  waitingBytesMax: 128 * 1024,
  /** How soon a slow reader is looked at again. */
  pauseMs: 20,
  framesPerSecondMax: 200,
} as const;

/** What of it passes the reader's filter; null: nothing. */
export interface VolatileWishes {
  readonly beat: ((workerName: string) => boolean) | null;
  readonly frame: FrameWishes | null;
}

export interface FrameWishes {
  readonly workerName: string | undefined;
  readonly runId: string | undefined;
  readonly frameType: string | undefined;
}

export interface VolatileFeedOptions {
  readonly tenant: string;
  readonly volatile: VolatileEvents;
  readonly environment: DoorEnvironment;
  readonly sink: Pick<EventSink, "waitingBytes">;
  readonly stream: Pick<EventStream, "send">;
  readonly wishes: VolatileWishes;
  /** False while the reader is told what it missed: a heartbeat of now would stand before what is older. */
  readonly isCaughtUp: () => boolean;
}

/** Feeds the reader until the returned function is called. */
export function feedVolatile(options: VolatileFeedOptions): () => void {
  const { tenant, volatile, sink, wishes } = options;
  if (wishes.beat === null && wishes.frame === null) return () => undefined;
  const isSlow = (): boolean => sink.waitingBytes > volatileLimits.waitingBytesMax;
  const beats = wishes.beat === null ? null : beatFeed(options, wishes.beat, isSlow);
  const ear: VolatileEar = {
    beat: beats === null || wishes.beat === null ? null : { wants: wishes.beat, hear: beats.hear },
    frame: wishes.frame === null ? null : frameFeed(options, wishes.frame, isSlow),
  };
  const endListening = volatile.listen(tenant, ear);
  return () => {
    endListening();
    beats?.end();
  };
}

function beatFeed(
  { tenant, volatile, environment, stream, isCaughtUp }: VolatileFeedOptions,
  wants: (workerName: string) => boolean,
  isSlow: () => boolean,
): { hear(beat: ToldBeat): void; end(): void } {
  /** All up to this one were told, or not wanted. */
  let told = volatile.beatCount(tenant);
  let endPause: (() => void) | null = null;
  const send = ({ count, text }: ToldBeat): void => {
    told = count;
    stream.send({ type: "worker.heartbeat", data: text });
  };
  const pause = (): void => {
    endPause ??= environment.timers.after(volatileLimits.pauseMs, () => {
      endPause = null;
      catchUp();
    });
  };
  const catchUp = (): void => {
    if (isSlow() || !isCaughtUp()) return pause();
    for (const beat of volatile.beatsAfter(tenant, told)) {
      if (!wants(beat.workerName)) continue;
      if (isSlow()) return pause();
      send(beat);
    }
  };
  return {
    hear(beat) {
      // Those before it come first, each worker's newest.
      if (endPause !== null) return;
      if (isSlow() || !isCaughtUp()) pause();
      else send(beat);
    },
    end: () => endPause?.(),
  };
}

function frameFeed(
  { tenant, environment, stream }: VolatileFeedOptions,
  { workerName: only, runId, frameType }: FrameWishes,
  isSlow: () => boolean,
): NonNullable<VolatileEar["frame"]> {
  let second = Number.NEGATIVE_INFINITY;
  let sent = 0;
  let skipped = 0;
  const hasRoom = (): boolean => {
    const now = environment.clock.monotonic();
    if (now - second >= 1_000) [second, sent] = [now, 0];
    return sent < volatileLimits.framesPerSecondMax && !isSlow();
  };
  return {
    wants: (workerName, type) =>
      (only === undefined || workerName === only) &&
      (frameType === undefined || type === frameType || type.startsWith(`${frameType}.`)),
    hear(frame) {
      if (runId !== undefined && !isAbout(frame, runId)) return;
      if (!hasRoom()) {
        skipped += 1;
        return;
      }
      const text = skipped === 0 ? sharedText(frame, tenant, environment) : frameText({ ...frame, skipped }, tenant, environment);
      sent += 1;
      skipped = 0;
      stream.send({ type: "wire.frame", data: text });
    },
  };
}

function frameText(data: Parameters<typeof volatileText<"wire.frame">>[1], tenant: string, { clock }: DoorEnvironment): string {
  const { workerName, run } = data;
  const scope = { tenant, workerName, ...(run !== undefined && { runId: run }) };
  return volatileText("wire.frame", data, { occurredAt: new Date(clock.now()).toISOString(), scope });
}

/** Written once for all readers that have missed nothing. */
const sharedTexts = new WeakMap<WireFrame, string>();
function sharedText(frame: WireFrame, tenant: string, environment: DoorEnvironment): string {
  const text = sharedTexts.get(frame) ?? frameText(frame, tenant, environment);
  sharedTexts.set(frame, text);
  return text;
}

const isAbout = ({ run, tasks }: WireFrame, runId: string): boolean =>
  run === runId || (tasks?.some((task) => runOf(task) === runId) ?? false);
