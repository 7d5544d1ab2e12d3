// The routes of vendor frames: a stream of what workers send, and a frame to one worker.

import { bodyReaderOf, Fault, fault } from "@astraflow/protocol";
import { isoTime, isVendorType, type VendorFrameRelay, type WorkerServices } from "@astraflow/services";
import { type EventSink, EventStream } from "../requests/event-stream.ts";
import { eventStreamReply, invalidRequest, parseCount, type RestCall, type RouteHandlers } from "../requests/rest-call.ts";
import type { StreamBudget } from "../requests/stream-budget.ts";

export function vendorFrameHandlers(workers: WorkerServices, relay: VendorFrameRelay, budget: StreamBudget) {
  /** Called when the head of the answer is out: a request that fails before has subscribed to nothing. */
  const openSubscription = (call: RestCall, type: string, after: number | null, sink: EventSink): (() => void) => {
    let end = (): void => undefined;
    const full = budget.capacityFault(call.identity);
    const stream = new EventStream(sink, {
      environment: workers.environment,
      budget,
      reader: call.identity,
      isAuthorized: () => call.isStillAuthorized(),
      onEnd: () => end(),
    });
    const subscription =
      full ??
      relay.subscribe(call.tenant, type, after, {
        onFrame: ({ number, data }) => stream.send({ id: number, type, data }),
        onClosed: () => stream.closeWithError(fault("E.SHUTTING_DOWN", "The scheduler is shutting down; reconnect.")),
      });
    if (subscription instanceof Fault) stream.closeWithError(subscription);
    else {
      end = () => subscription.unsubscribe();
      const { from, hasGap, buffered } = subscription;
      const gap = fault("E.CURSOR.EXPIRED", "Frames after this cursor have been dropped; some may be missing.");
      // Either way the reader has a cursor now, though no frame has arrived yet.
      stream.send(hasGap ? { id: from, type: "stream.error", data: JSON.stringify(gap) } : { id: from });
      for (const { number, data } of buffered) stream.send({ id: number, type, data });
    }
    return () => stream.stop();
  };

  return {
    streamExtension(call) {
      const type = readVendorType(call);
      const after = readLastEventId(call);
      const why = budget.capacityFault(call.identity) ?? relay.capacityFault(call.tenant, type);
      if (why !== null) throw why;
      return eventStreamReply((sink) => openSubscription(call, type, after, sink));
    },

    async tellWorker(call) {
      const type = readVendorType(call);
      const key = call.readIdempotencyKey();
      const request = call.readBody(bodyReaderOf("tellWorker"));
      const id = await workers.commands.sendVendorFrame(call, type, request, key);
      return { body: { id, workerId: request.workerId, type, acceptedAt: isoTime(workers.environment.clock.now()) } };
    },
  } satisfies RouteHandlers;
}

function readVendorType(call: RestCall): string {
  const type = call.param("type");
  if (isVendorType(type)) return type;
  const rule = "the type must be ext.vendor.<vendor>.<word> in lower case, and not one of ext.vendor.astraflow.*";
  throw invalidRequest("params.type", rule);
}

function readLastEventId(call: RestCall): number | null {
  const text = call.header("last-event-id") ?? "";
  const id = parseCount(text);
  if (id !== null || text === "") return id;
  throw invalidRequest("headers.Last-Event-ID", "Last-Event-ID must be the id of an event of this stream");
}
