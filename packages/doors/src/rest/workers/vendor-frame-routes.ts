// The routes of vendor frames: a stream of what workers send, and a frame to one worker.

import { Fault, fault, readExtensionRequest } from "@astraflow/protocol";
import { isoTime, isVendorType, sendVendorFrame, type VendorFrameRelay, type WorkerServices } from "@astraflow/services";
import { type EventSink, openEventStream } from "../requests/event-stream.ts";
import { type RestCall, type RouteHandler, readIdempotencyKey, readRequest } from "../requests/rest-call.ts";

export function vendorFrameHandlers(
  workers: WorkerServices,
  relay: VendorFrameRelay,
): Record<"streamExtension" | "tellWorker", RouteHandler> {
  /** Called when the head of the answer is out: a request that fails before has subscribed to nothing. */
  const openSubscription = (call: RestCall, type: string, after: number | null, sink: EventSink): (() => void) => {
    let end = (): void => undefined;
    const stream = openEventStream(sink, {
      environment: workers.environment,
      findObjection: () => (call.isStillAdmitted() ? null : fault("E.AUTH.INVALID_TOKEN", "the token is not valid any more")),
      overloadFault: () => fault("E.OVERLOADED", "This reader is too slow; reconnect with Last-Event-ID."),
      onEnd: () => end(),
    });
    const subscription = relay.subscribe(call.identity.tenant, type, after, {
      onFrame: ({ number, data }) => stream.send({ id: number, type, data }),
      onClosed: () => stream.closeWithError(fault("E.SHUTTING_DOWN", "The scheduler is shutting down; reconnect.")),
    });
    if (subscription instanceof Fault) {
      stream.closeWithError(subscription);
      return () => stream.stop();
    }
    end = () => subscription.unsubscribe();
    const { from, hasGap, buffered } = subscription;
    const gap = fault("E.CURSOR.EXPIRED", "Frames after this cursor have been dropped; some may be missing before the next one.");
    // Either way the reader has a cursor now, though no frame has arrived yet.
    stream.send(hasGap ? { id: from, type: "stream.error", data: JSON.stringify(gap) } : { id: from });
    for (const { number, data } of buffered) stream.send({ id: number, type, data });
    return () => stream.stop();
  };

  return {
    streamExtension(call) {
      const type = readVendorType(call);
      const after = readLastEventId(call);
      const why = relay.capacityFault(call.identity.tenant, type);
      if (why !== null) throw why;
      return {
        body: "",
        media: "text/event-stream; charset=utf-8",
        headers: { "x-accel-buffering": "no" },
        stream: (sink) => openSubscription(call, type, after, sink),
      };
    },

    async tellWorker(call) {
      const type = readVendorType(call);
      const key = readIdempotencyKey(call);
      const request = readRequest(call, readExtensionRequest);
      const id = await sendVendorFrame(workers, call, type, request, key);
      return { body: { id, workerId: request.workerId, type, acceptedAt: isoTime(workers.environment.clock.now()) } };
    },
  };
}

function readVendorType(call: RestCall): string {
  const type = call.params["type"] ?? "";
  if (isVendorType(type)) return type;
  throw fault(
    "E.REQUEST.INVALID",
    "the type must be ext.vendor.<vendor>.<word> in lower case, and not one of ext.vendor.astraflow.*",
    {
      path: "params.type",
    },
  );
}

function readLastEventId(call: RestCall): number | null {
  const text = call.header("last-event-id");
  if (text === undefined || text === "") return null;
  const id = /^[0-9]{1,16}$/.test(text) ? Number(text) : Number.NaN;
  if (Number.isSafeInteger(id)) return id;
  throw fault("E.REQUEST.INVALID", "Last-Event-ID must be the id of an event of this stream", { path: "headers.Last-Event-ID" });
}
