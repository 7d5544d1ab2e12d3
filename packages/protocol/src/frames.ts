// Which payload belongs to which type of frame, in each dialect: one table, read in both directions.
// Whatever the dialect, a payload leaves here in the words of our own v2, so that everything above knows one language.

import type { Static } from "typebox";
import * as control from "./control.ts";
import type { Dialect, Envelope } from "./envelope.ts";
import { envelopeShapes } from "./envelope.ts";
import * as exec from "./exec.ts";
import { Fault, fault } from "./fault.ts";
import * as pkg from "./pkg.ts";
import { type Shape, type ShapeOptions, shape } from "./shape.ts";
import type { JsonObject } from "./words.ts";

/** Every type of frame by its v2 name, and what it carries. */
export interface Payloads {
  "control.handshake": control.Handshake;
  "control.register": control.Register;
  "control.session.accept": control.SessionAccept;
  "control.resume": control.Resume;
  "control.reset": control.Reset;
  "control.drain": control.Drain;
  "control.undrain": control.Undrain;
  "control.ack": control.Ack;
  "control.heartbeat": control.Heartbeat;
  "biz.exec.dispatch": exec.Dispatch;
  "biz.exec.dispatch.batch": exec.DispatchBatch;
  "biz.exec.feedback": exec.Feedback;
  "biz.exec.result": exec.Result;
  "biz.exec.result.batch": exec.ResultBatch;
  "biz.exec.error": exec.ExecError;
  "biz.exec.next.request": exec.NextRequest;
  "biz.exec.next.response": exec.NextResponse;
  "biz.exec.cancel": exec.Cancel;
  "biz.exec.inventory": exec.Inventory;
  "biz.resource.removed": exec.ResourceRemoved;
  "biz.pkg.install": pkg.PkgInstall;
  "biz.pkg.uninstall": pkg.PkgUninstall;
  "biz.pkg.event": pkg.PkgEvent;
  "biz.pkg.catalog": pkg.PkgCatalog;
}
export type FrameType = keyof Payloads;

/** How v1 spells the types. Seed 000 says `error`; the workers built from it say `command.error`. */
export const v1Types = {
  handshake: "control.handshake",
  register: "control.register",
  ack: "control.ack",
  heartbeat: "control.heartbeat",
  "cmd.drain": "control.drain",
  "cmd.dispatch": "biz.exec.dispatch",
  feedback: "biz.exec.feedback",
  result: "biz.exec.result",
  error: "biz.exec.error",
  "command.error": "biz.exec.error",
  "middleware.next_request": "biz.exec.next.request",
  "middleware.next_response": "biz.exec.next.response",
  "pkg.install": "biz.pkg.install",
  "pkg.uninstall": "biz.pkg.uninstall",
  "pkg.event": "biz.pkg.event",
} as const satisfies Record<string, FrameType>;
type V1Types = typeof v1Types;

/** What a type of frame carries once read; vendor frames stay opaque. */
export type PayloadOf<T extends string> = T extends FrameType
  ? Payloads[T]
  : T extends keyof V1Types
    ? Payloads[V1Types[T]]
    : JsonObject;

interface Row {
  readonly shape: Shape<unknown>;
  /** From the words of the dialect to ours, and back. */
  readonly normalise?: (payload: never) => unknown;
  readonly spell?: (payload: never) => unknown;
}

const drop = { code: "E.FRAME.INVALID", what: "payload", unknown: "drop" } as const satisfies ShapeOptions;
const refuse = { code: "E.FRAME.INVALID", what: "payload", unknown: "refuse" } as const satisfies ShapeOptions;

const v2: Record<FrameType, Row> = {
  "control.handshake": { shape: shape(control.HandshakeSchema, drop) },
  "control.register": { shape: shape(control.RegisterSchema, drop), normalise: control.normaliseRegister },
  "control.session.accept": { shape: shape(control.SessionAcceptSchema, drop) },
  "control.resume": { shape: shape(control.ResumeSchema, drop) },
  "control.reset": { shape: shape(control.ResetSchema, drop) },
  "control.drain": { shape: shape(control.DrainSchema, drop) },
  "control.undrain": { shape: shape(control.UndrainSchema, drop) },
  "control.ack": { shape: shape(control.AckSchema, drop) },
  "control.heartbeat": { shape: shape(control.HeartbeatSchema, drop) },
  "biz.exec.dispatch": { shape: shape(exec.DispatchSchema, drop) },
  "biz.exec.dispatch.batch": { shape: shape(exec.DispatchBatchSchema, drop) },
  "biz.exec.feedback": { shape: shape(exec.FeedbackSchema, drop) },
  "biz.exec.result": { shape: shape(exec.ResultSchema, drop) },
  "biz.exec.result.batch": { shape: shape(exec.ResultBatchSchema, drop) },
  "biz.exec.error": { shape: shape(exec.ExecErrorSchema, drop) },
  "biz.exec.next.request": { shape: shape(exec.NextRequestSchema, drop) },
  "biz.exec.next.response": { shape: shape(exec.NextResponseSchema, drop) },
  "biz.exec.cancel": { shape: shape(exec.CancelSchema, drop) },
  "biz.exec.inventory": { shape: shape(exec.InventorySchema, drop) },
  "biz.resource.removed": { shape: shape(exec.ResourceRemovedSchema, drop) },
  "biz.pkg.install": { shape: shape(pkg.PkgInstallSchema, drop) },
  "biz.pkg.uninstall": { shape: shape(pkg.PkgUninstallSchema, drop) },
  "biz.pkg.event": { shape: shape(pkg.PkgEventSchema, drop) },
  "biz.pkg.catalog": { shape: shape(pkg.PkgCatalogSchema, drop) },
};

const first: Partial<Record<FrameType, Row>> = {
  "control.handshake": { shape: shape(control.HandshakeSchema, refuse) },
  "control.register": { shape: shape(control.RegisterFirstSchema, refuse), normalise: control.normaliseRegister },
  "control.session.accept": { shape: shape(control.SessionAcceptFirstSchema, refuse) },
  "control.resume": { shape: shape(control.ResumeFirstSchema, refuse) },
  "control.reset": { shape: shape(control.ResetSchema, refuse) },
  "control.drain": { shape: shape(control.DrainSchema, refuse) },
  "control.ack": { shape: shape(control.AckFirstSchema, refuse) },
  "control.heartbeat": { shape: shape(control.HeartbeatFirstSchema, refuse) },
  "biz.exec.dispatch": { shape: shape(exec.DispatchFirstSchema, refuse) },
  "biz.exec.feedback": { shape: shape(exec.FeedbackFirstSchema, refuse) },
  "biz.exec.result": { shape: shape(exec.ResultFirstSchema, refuse) },
  "biz.exec.error": { shape: shape(exec.ExecErrorFirstSchema, refuse) },
  "biz.exec.next.request": { shape: shape(exec.NextRequestFirstSchema, refuse) },
  "biz.exec.next.response": { shape: shape(exec.NextResponseSchema, refuse) },
  "biz.pkg.install": { shape: shape(pkg.PkgInstallFirstSchema, refuse) },
  "biz.pkg.uninstall": { shape: shape(pkg.PkgUninstallFirstSchema, refuse) },
  "biz.pkg.event": { shape: shape(pkg.PkgEventFirstSchema, refuse) },
  "biz.pkg.catalog": { shape: shape(pkg.PkgCatalogSchema, refuse) },
};

type V1Ack = Static<typeof control.AckV1Schema>;

const v1: Partial<Record<FrameType, Row>> = {
  "control.handshake": { shape: shape(control.HandshakeV1Schema, drop), normalise: control.normaliseHandshakeV1 },
  "control.register": { shape: shape(control.RegisterV1Schema, drop), normalise: control.normaliseRegister },
  "control.ack": {
    shape: shape(control.AckV1Schema, drop),
    normalise: (ack: V1Ack) => ({ ...ack, ok: ack.ok ?? true }),
    spell: (ack: control.Ack) => ({ ...ack, ok: ack.ok ?? true }),
  },
  "control.heartbeat": { shape: shape(control.HeartbeatFirstSchema, drop) },
  "control.drain": { shape: shape(control.DrainSchema, drop) },
  "biz.exec.dispatch": {
    shape: shape(exec.DispatchV1Schema, drop),
    normalise: exec.normaliseDispatchV1,
    spell: exec.spellDispatchV1,
  },
  "biz.exec.feedback": { shape: shape(exec.FeedbackFirstSchema, drop) },
  "biz.exec.result": { shape: shape(exec.ResultV1Schema, drop), normalise: exec.normaliseResultV1, spell: exec.spellResultV1 },
  "biz.exec.error": { shape: shape(exec.ExecErrorFirstSchema, drop) },
  "biz.exec.next.request": { shape: shape(exec.NextRequestFirstSchema, drop) },
  "biz.exec.next.response": { shape: shape(exec.NextResponseSchema, drop) },
  "biz.pkg.install": { shape: shape(pkg.PkgInstallFirstSchema, drop) },
  "biz.pkg.uninstall": { shape: shape(pkg.PkgUninstallFirstSchema, drop) },
  "biz.pkg.event": { shape: shape(pkg.PkgEventSchema, drop) },
};

/** The payload of every type of frame, by dialect and v2 name. */
export const frames: Readonly<Record<Dialect, Readonly<Partial<Record<FrameType, Row>>>>> = { v1, first, v2 };

const v1Spelling: Readonly<Partial<Record<FrameType, string>>> = Object.fromEntries(
  Object.entries(v1Types)
    .filter(([spelling]) => spelling !== "command.error") // both are read; we write what the seed says
    .map(([spelling, type]) => [type, spelling]),
);

const vendorPrefix = "ext.vendor.";

/** The v2 name of a type as the dialect spells it; undefined if the dialect has no such frame. */
export function frameTypeOf(dialect: Dialect, wireType: string): FrameType | undefined {
  const type = dialect === "v1" ? (Object.hasOwn(v1Types, wireType) ? v1Types[wireType as keyof V1Types] : undefined) : wireType;
  return type !== undefined && Object.hasOwn(frames[dialect], type) ? (type as FrameType) : undefined;
}

/** How the dialect spells a type; undefined if it has no such frame, which then must not be sent. */
export function wireTypeOf(dialect: Dialect, type: string): string | undefined {
  if (type.startsWith(vendorPrefix)) return dialect === "v1" ? undefined : type;
  if (!Object.hasOwn(frames[dialect], type)) return undefined;
  return dialect === "v1" ? v1Spelling[type as FrameType] : type;
}

/** Step two of two: the payload, by the type its envelope gave. The answer is in the words of v2. */
export function readPayload<T extends string>(dialect: Dialect, type: T, payload: unknown): PayloadOf<T> | Fault {
  const frameType = frameTypeOf(dialect, type);
  if (frameType === undefined) {
    if (type.startsWith(vendorPrefix) && typeof payload === "object" && payload !== null) return payload as PayloadOf<T>;
    return fault("E.CMD.UNKNOWN", `frames of type ${JSON.stringify(type.slice(0, 100))} are not known in dialect ${dialect}`);
  }
  const row = frames[dialect][frameType];
  if (row === undefined) throw new Error(`no row for ${frameType} in ${dialect}`);
  const read = row.shape.read(payload);
  if (read instanceof Fault || row.normalise === undefined) return read as PayloadOf<T> | Fault;
  return row.normalise(read as never) as PayloadOf<T>;
}

/** A frame whose payload was read: switch on `type`. */
export type Frame =
  | { [T in FrameType]: { type: T; payload: Payloads[T]; envelope: Envelope } }[FrameType]
  | { type: "ext"; payload: JsonObject; envelope: Envelope };

/** Reads the payload of an envelope and gives both under the v2 name of the type. */
export function readFrame(dialect: Dialect, envelope: Envelope): Frame | Fault {
  const payload = readPayload<string>(dialect, envelope.type, envelope.payload);
  if (payload instanceof Fault) return payload;
  return { type: frameTypeOf(dialect, envelope.type) ?? "ext", payload, envelope } as Frame;
}

/** Compiles every validator of the session door now, so that no stranger's first frame pays for it. */
export function prepareFrames(): void {
  for (const row of Object.values(envelopeShapes)) row.prepare();
  for (const dialect of Object.values(frames)) for (const row of Object.values(dialect)) row.shape.prepare();
}
