// Events that are not stored, for one reader. They are never queued: a slow reader gets the newest heartbeat of each worker once it has taken
// what waits, and the number of frames that it missed.

import { runOf } from "@astraflow/engine";
import {
  type PublishedHeartbeat,
  type ServiceEnvironment,
  type VolatileEvents,
  type VolatileListener,
  volatileEventJson,
  type WireFrameEvent,
} from "@astraflow/services";
import type { EventSink, EventStream } from "../requests/event-stream.ts";

export const volatileFeedLimits = {
  /** A reader for whom more than this waits is slow. Less than what the log may fill: it must not be kept from that. */
  waitingBytesMax: 128 * 1024,
  /** How soon a slow reader is looked at again. */
  pauseMs: 20,
  framesPerSecondMax: 200,
} as const;

/** What of it passes the reader's filter; null: nothing. */
export interface VolatileFilter {
  readonly heartbeat: ((workerName: string) => boolean) | null;
  readonly frame: FrameFilter | null;
}

export interface FrameFilter {
  readonly workerName: string | undefined;
  readonly runId: string | undefined;
  readonly frameType: string | undefined;
}

export interface VolatileFeedOptions {
  readonly tenant: string;
  readonly volatile: VolatileEvents;
  readonly environment: ServiceEnvironment;
  readonly sink: Pick<EventSink, "waitingBytes">;
  readonly stream: Pick<EventStream, "send">;
  readonly filter: VolatileFilter;
  /** False while the reader is told what it missed: a heartbeat of now would stand before what is older. */
  readonly isCaughtUp: () => boolean;
}

/** Feeds the reader until the returned function is called. */
export function feedVolatile(options: VolatileFeedOptions): () => void {
  const { tenant, volatile, sink, filter } = options;
  if (filter.heartbeat === null && filter.frame === null) return () => undefined;
  const isSlow = (): boolean => sink.waitingBytes > volatileFeedLimits.waitingBytesMax;
  const heartbeat = filter.heartbeat === null ? null : createHeartbeatFeed(options, filter.heartbeat, isSlow);
  const frame = filter.frame === null ? null : createFrameFeed(options, filter.frame, isSlow);
  const endListening = volatile.subscribe(tenant, { heartbeat, frame });
  return () => {
    endListening();
    heartbeat?.end();
  };
}

function createHeartbeatFeed(
  { tenant, volatile, environment, stream, isCaughtUp }: VolatileFeedOptions,
  wants: (workerName: string) => boolean,
  isSlow: () => boolean,
): NonNullable<VolatileListener["heartbeat"]> & { end(): void } {
  /** All up to this one were told, or not wanted. */
  let lastSentCount = volatile.heartbeatCount(tenant);
  let endPause: (() => void) | null = null;
  const send = ({ count, text }: PublishedHeartbeat): void => {
    lastSentCount = count;
    stream.send({ type: "worker.heartbeat", data: text });
  };
  const pause = (): void => {
    endPause ??= environment.timers.after(volatileFeedLimits.pauseMs, () => {
      endPause = null;
      catchUp();
    });
  };
  const catchUp = (): void => {
    if (isSlow() || !isCaughtUp()) return pause();
    for (const heartbeat of volatile.heartbeatsAfter(tenant, lastSentCount)) {
      if (!wants(heartbeat.workerName)) continue;
      if (isSlow()) return pause();
      send(heartbeat);
    }
  };
  return {
    wants,
    receive(heartbeat) {
      // Those before it come first, each worker's newest.
      if (endPause !== null) return;
      if (isSlow() || !isCaughtUp()) pause();
      else send(heartbeat);
    },
    end: () => endPause?.(),
  };
}

function createFrameFeed(
  { tenant, environment, stream }: VolatileFeedOptions,
  { workerName: onlyWorker, runId, frameType }: FrameFilter,
  isSlow: () => boolean,
): NonNullable<VolatileListener["frame"]> {
  let second = Number.NEGATIVE_INFINITY;
  let sent = 0;
  let skipped = 0;
  const hasCapacity = (): boolean => {
    const now = environment.clock.monotonic();
    if (now - second >= 1_000) [second, sent] = [now, 0];
    return sent < volatileFeedLimits.framesPerSecondMax && !isSlow();
  };
  return {
    wants: (workerName, type) =>
      (onlyWorker === undefined || workerName === onlyWorker) &&
      (frameType === undefined || type === frameType || type.startsWith(`${frameType}.`)),
    receive(frame) {
      if (runId !== undefined && !concernsRun(frame, runId)) return;
      if (!hasCapacity()) {
        skipped += 1;
        return;
      }
      const text =
        skipped === 0 ? sharedFrameJson(frame, tenant, environment) : frameEventJson({ ...frame, skipped }, tenant, environment);
      sent += 1;
      skipped = 0;
      stream.send({ type: "wire.frame", data: text });
    },
  };
}

function frameEventJson(
  data: Parameters<typeof volatileEventJson<"wire.frame">>[1],
  tenant: string,
  { clock }: ServiceEnvironment,
): string {
  const { workerName, run } = data;
  const scope = { tenant, workerName, ...(run !== undefined && { runId: run }) };
  return volatileEventJson("wire.frame", data, { occurredAt: new Date(clock.now()).toISOString(), scope });
}

/** Written once for all readers that have missed nothing. */
const frameJsonCache = new WeakMap<WireFrameEvent, string>();
function sharedFrameJson(frame: WireFrameEvent, tenant: string, environment: ServiceEnvironment): string {
  const text = frameJsonCache.get(frame) ?? frameEventJson(frame, tenant, environment);
  frameJsonCache.set(frame, text);
  return text;
}

const concernsRun = ({ run, tasks }: WireFrameEvent, runId: string): boolean =>
  run === runId || (tasks?.some((task) => runOf(task) === runId) ?? false);
