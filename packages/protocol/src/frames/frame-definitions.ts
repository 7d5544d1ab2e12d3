// Which payload belongs to which type of frame in each dialect. A payload that was read is always in the form of v2.

import type { Static, TSchema } from "typebox";
import { Fault, fault } from "../faults/fault.ts";
import type { JsonObject } from "../json/json-value.ts";
import { createSchemaReader, type SchemaReader, type SchemaReaderOptions } from "../schema/schema-reader.ts";
import * as control from "./control-payloads.ts";
import type { Dialect, Envelope } from "./envelope.ts";
import { envelopeReaders } from "./envelope.ts";
import * as work from "./work-payloads.ts";

/** Every type of frame by its v2 name, and what it carries. */
const v2Schemas = {
  "control.handshake": control.HandshakeSchema,
  "control.register": control.RegisterSchema,
  "control.session.accept": control.SessionAcceptSchema,
  "control.resume": control.ResumeSchema,
  "control.reset": control.ResetSchema,
  "control.drain": control.DrainSchema,
  "control.undrain": control.UndrainSchema,
  "control.ack": control.AckSchema,
  "control.heartbeat": control.HeartbeatSchema,
  "biz.exec.dispatch": work.DispatchSchema,
  "biz.exec.dispatch.batch": work.DispatchBatchSchema,
  "biz.exec.feedback": work.FeedbackSchema,
  "biz.exec.result": work.ResultSchema,
  "biz.exec.result.batch": work.ResultBatchSchema,
  "biz.exec.error": work.ExecErrorSchema,
  "biz.exec.next.request": work.NextRequestSchema,
  "biz.exec.next.response": work.NextResponseSchema,
  "biz.exec.cancel": work.CancelSchema,
  "biz.exec.inventory": work.InventorySchema,
  "biz.resource.removed": work.ResourceRemovedSchema,
  "biz.pkg.install": work.PkgInstallSchema,
  "biz.pkg.uninstall": work.PkgUninstallSchema,
  "biz.pkg.event": work.PkgEventSchema,
  "biz.pkg.catalog": work.PkgCatalogSchema,
};

/** What each type of frame carries after reading. */
export type FramePayloads = {
  [T in keyof typeof v2Schemas]: T extends "control.register" ? control.RegisterPayload : Static<(typeof v2Schemas)[T]>;
};
export type FrameType = keyof FramePayloads;

/** How v1 spells the types. The specification says `error`; workers built from it send `command.error`. */
export const v1FrameTypes = {
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
type V1FrameTypes = typeof v1FrameTypes;

/** The payload of a type of frame after reading; vendor frames stay opaque. */
export type PayloadOf<T extends string> = T extends FrameType
  ? FramePayloads[T]
  : T extends keyof V1FrameTypes
    ? FramePayloads[V1FrameTypes[T]]
    : JsonObject;

interface FrameDefinition {
  readonly reader: SchemaReader<unknown>;
  /** From the form of the dialect to v2, and back. */
  readonly normalise?: (payload: never) => unknown;
  readonly toDialect?: (payload: never) => unknown;
}

type Conversions = Partial<Record<FrameType, Omit<FrameDefinition, "reader">>>;

/** Every row gets a reader; a few rows also convert between the dialect's payload and ours. */
function defineFrames<T extends FrameType>(
  unknownKeys: SchemaReaderOptions["unknownKeys"],
  schemas: Readonly<Record<T, TSchema>>,
  conversions: Conversions,
): Record<T, FrameDefinition> {
  const options: SchemaReaderOptions = { code: "E.FRAME.INVALID", subject: "payload", unknownKeys };
  const rows = (Object.entries(schemas) as [T, TSchema][]).map(([type, schema]) => [
    type,
    { reader: createSchemaReader(schema, options), ...conversions[type] },
  ]);
  return Object.fromEntries(rows) as Record<T, FrameDefinition>;
}

const v2Frames: Record<FrameType, FrameDefinition> = defineFrames("drop", v2Schemas, {
  "control.register": { normalise: control.normaliseRegister },
});

const firstGenFrames: Partial<Record<FrameType, FrameDefinition>> = defineFrames(
  "refuse",
  {
    "control.handshake": control.HandshakeFirstGenSchema,
    "control.register": control.RegisterFirstGenSchema,
    "control.session.accept": control.SessionAcceptFirstGenSchema,
    "control.resume": control.ResumeFirstGenSchema,
    "control.reset": control.ResetSchema,
    "control.drain": control.DrainSchema,
    "control.ack": control.AckFirstGenSchema,
    "control.heartbeat": control.HeartbeatFirstGenSchema,
    "biz.exec.dispatch": work.DispatchFirstGenSchema,
    "biz.exec.feedback": work.FeedbackFirstGenSchema,
    "biz.exec.result": work.ResultFirstGenSchema,
    "biz.exec.error": work.ExecErrorFirstGenSchema,
    "biz.exec.next.request": work.NextRequestFirstGenSchema,
    "biz.exec.next.response": work.NextResponseSchema,
    "biz.pkg.install": work.PkgInstallFirstGenSchema,
    "biz.pkg.uninstall": work.PkgUninstallFirstGenSchema,
    "biz.pkg.event": work.PkgEventFirstGenSchema,
    "biz.pkg.catalog": work.PkgCatalogSchema,
  },
  { "control.register": { normalise: control.normaliseRegister } },
);

const withOk = (ack: Static<typeof control.AckV1Schema>) => ({ ...ack, ok: ack.ok ?? true });

const v1Frames: Partial<Record<FrameType, FrameDefinition>> = defineFrames(
  "drop",
  {
    "control.handshake": control.HandshakeV1Schema,
    "control.register": control.RegisterV1Schema,
    "control.ack": control.AckV1Schema,
    "control.heartbeat": control.HeartbeatFirstGenSchema,
    "control.drain": control.DrainSchema,
    "biz.exec.dispatch": work.DispatchV1Schema,
    "biz.exec.feedback": work.FeedbackFirstGenSchema,
    "biz.exec.result": work.ResultV1Schema,
    "biz.exec.error": work.ExecErrorFirstGenSchema,
    "biz.exec.next.request": work.NextRequestFirstGenSchema,
    "biz.exec.next.response": work.NextResponseSchema,
    "biz.pkg.install": work.PkgInstallFirstGenSchema,
    "biz.pkg.uninstall": work.PkgUninstallFirstGenSchema,
    "biz.pkg.event": work.PkgEventSchema,
  },
  {
    "control.handshake": { normalise: control.normaliseHandshakeV1 },
    "control.register": { normalise: control.normaliseRegister },
    "control.ack": { normalise: withOk, toDialect: withOk },
    "biz.exec.dispatch": { normalise: work.normaliseDispatchV1, toDialect: work.formatDispatchV1 },
    "biz.exec.result": { normalise: work.normaliseResultV1, toDialect: work.formatResultV1 },
  },
);

/** The payload of every type of frame, by dialect and v2 name. What a worker with protocol 1 sends is read as leniently as v2. */
export const frameDefinitions: Readonly<Record<Dialect, Readonly<Partial<Record<FrameType, FrameDefinition>>>>> = {
  v1: v1Frames,
  first: firstGenFrames,
  basic: v2Frames,
  undecided: v2Frames,
  v2: v2Frames,
};

/** The frames that may be sent: an undecided worker may be of the first generation, which drops frames with fields it does not know. */
export const sentFrameDefinitions: typeof frameDefinitions = { ...frameDefinitions, undecided: firstGenFrames };

const v1TypeNames: Readonly<Partial<Record<FrameType, string>>> = Object.fromEntries(
  Object.entries(v1FrameTypes)
    .filter(([spelling]) => spelling !== "command.error") // both are read; we write what the specification says
    .map(([spelling, type]) => [type, spelling]),
);

const vendorTypePrefix = "ext.vendor.";

/** The v2 name of a type as the dialect spells it; undefined if the dialect has no such frame. */
export function toFrameType(dialect: Dialect, wireType: string): FrameType | undefined {
  if (dialect === "v1") return Object.hasOwn(v1FrameTypes, wireType) ? v1FrameTypes[wireType as keyof V1FrameTypes] : undefined;
  return Object.hasOwn(frameDefinitions[dialect], wireType) ? (wireType as FrameType) : undefined;
}

/** How the dialect spells a type; undefined if it has no such frame, which then must not be sent. */
export function toWireType(dialect: Dialect, type: string): string | undefined {
  if (type.startsWith(vendorTypePrefix)) return dialect === "v1" ? undefined : type;
  if (!Object.hasOwn(sentFrameDefinitions[dialect], type)) return undefined;
  return dialect === "v1" ? v1TypeNames[type as FrameType] : type;
}

/** Reads the payload of a frame by the type in its envelope; the result is in the form of v2. */
export function readPayload<T extends string>(dialect: Dialect, type: T, payload: unknown): PayloadOf<T> | Fault {
  const frameType = toFrameType(dialect, type);
  if (frameType === undefined) {
    if (type.startsWith(vendorTypePrefix) && typeof payload === "object" && payload !== null) return payload as PayloadOf<T>;
    return fault("E.CMD.UNKNOWN", `frames of type ${JSON.stringify(type.slice(0, 100))} are not known in dialect ${dialect}`);
  }
  const definition = frameDefinitions[dialect][frameType];
  if (definition === undefined) throw new Error(`no row for ${frameType} in ${dialect}`);
  const parsed = definition.reader.read(payload);
  if (parsed instanceof Fault || definition.normalise === undefined) return parsed as PayloadOf<T> | Fault;
  return definition.normalise(parsed as never) as PayloadOf<T>;
}

/** A frame whose payload was read: switch on `type`. */
export type Frame =
  | { [T in FrameType]: { type: T; payload: FramePayloads[T]; envelope: Envelope } }[FrameType]
  | { type: "ext"; payload: JsonObject; envelope: Envelope };

/** Reads the payload of an envelope and gives both under the v2 name of the type. */
export function readFrame(dialect: Dialect, envelope: Envelope): Frame | Fault {
  const payload = readPayload<string>(dialect, envelope.type, envelope.payload);
  if (payload instanceof Fault) return payload;
  return { type: toFrameType(dialect, envelope.type) ?? "ext", payload, envelope } as Frame;
}

/** Compiles every frame validator now, so that the first frame of a client does not pay for it. */
export function compileFrameReaders(): void {
  for (const definition of Object.values(envelopeReaders)) definition.compile();
  for (const dialect of Object.values(frameDefinitions))
    for (const definition of Object.values(dialect)) definition.reader.compile();
}
