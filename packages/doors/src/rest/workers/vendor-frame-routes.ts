// The routes of vendors' frames: what workers send as a stream of events, and a frame to a worker. Who keeps frames for whom is ../extensions.ts.

import { canonicalJson } from "@astraflow/graph";
import { Fault, fault, readExtensionRequest } from "@astraflow/protocol";
import { type EngineClient, isoTime, isVendorType, type VendorFrameRelay, vendorRelayLimits } from "@astraflow/services";
import type { DoorEnvironment } from "../../environment/door-environment.ts";
import { type EventSink, openEventStream } from "../requests/event-stream.ts";
import { type RestCall, type RouteHandler, readIdempotencyKey, readJsonBody } from "../requests/rest-call.ts";
import { askAboutWorker } from "./worker-routes.ts";

export interface VendorFrameRoutesOptions {
  readonly engineClient: EngineClient;
  readonly environment: DoorEnvironment;
  readonly extensions: VendorFrameRelay;
  readonly digest: (text: string) => string;
}

export function vendorFrameHandlers(options: VendorFrameRoutesOptions): Record<"streamExtension" | "tellWorker", RouteHandler> {
  const { engineClient, environment, extensions, digest } = options;

  /** Opened when the head of the answer is out, so that a request that dies before has subscribed to nothing. */
  const openSubscription = (call: RestCall, type: string, after: number | null, sink: EventSink): (() => void) => {
    let end = (): void => undefined;
    const stream = openEventStream(sink, {
      environment,
      findObjection: () => (call.isStillAdmitted() ? null : fault("E.AUTH.INVALID_TOKEN", "the token is not valid any more")),
      overloadFault: () => fault("E.OVERLOADED", "frames came faster than they were read; come back with the last event's id"),
      onEnd: () => end(),
    });
    const subscription = extensions.subscribe(call.identity.tenant, type, after, {
      onFrame: ({ number, data }) => stream.send({ id: number, type, data }),
      onClosed: () => stream.closeWithError(fault("E.SHUTTING_DOWN", "this scheduler is going away; come back to its successor")),
    });
    if (subscription instanceof Fault) {
      stream.closeWithError(subscription);
      return () => stream.stop();
    }
    end = () => subscription.unsubscribe();
    const { from, hasGap, buffered: kept } = subscription;
    const gap = fault("E.CURSOR.EXPIRED", "frames after this cursor are no longer kept; some may be missing before the next one");
    // Either way the reader has a cursor from now on, though nothing has come yet.
    stream.send(hasGap ? { id: from, type: "stream.error", data: JSON.stringify(gap) } : { id: from });
    for (const { number, data } of kept) stream.send({ id: number, type, data });
    return () => stream.stop();
  };

  return {
    streamExtension(call) {
      const type = readVendorType(call);
      const after = readLastEventId(call);
      const why = extensions.capacityFault(call.identity.tenant, type);
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
      const request = readExtensionRequest(readJsonBody(call));
      if (request instanceof Fault) throw request;
      const { workerId, corr } = request;
      const payload = JSON.stringify(request.payload);
      if (Buffer.byteLength(payload) > vendorRelayLimits.frameBytesMax)
        throw fault("E.REQUEST.TOO_LARGE", `a payload may have ${vendorRelayLimits.frameBytesMax} bytes as JSON`);
      const { tenant, user } = call.identity;
      // Nothing is kept about the key: it names the frame, and a worker takes a frame of one name once.
      const id = key === null ? `ext-${environment.ids.next()}` : `ext-${digest(canonicalJson({ tenant, type, key, request }))}`;
      await askAboutWorker(engineClient, {
        type: "worker.tell",
        tenant,
        by: user,
        worker: `${tenant}/${workerId}`,
        frame: { type, id, corr: corr ?? null, payload },
      });
      return { body: { id, workerId, type, acceptedAt: isoTime(environment.clock.now()) } };
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
