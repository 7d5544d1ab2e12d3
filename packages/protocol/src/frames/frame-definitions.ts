// Which payload belongs to which type of frame, in each dialect: one table, read in both directions.
// Whatever the dialect, a payload leaves here in the words of our own v2, so that everything above knows one language.

import type { Static } from "typebox";
import { Fault, fault } from "../faults/fault.ts";
import type { JsonObject } from "../json/json-value.ts";
import { createSchemaReader, type SchemaReader, type SchemaReaderOptions } from "../schema/schema-reader.ts";
import * as control from "./control-payloads.ts";
import type { Dialect, Envelope } from "./envelope.ts";
import { envelopeReaders } from "./envelope.ts";
import * as exec from "./execution-payloads.ts";
import * as pkg from "./package-payloads.ts";

/** Every type of frame by its v2 name, and what it carries. */
export interface FramePayloads {
  "control.handshake": control.HandshakePayload;
  "control.register": control.RegisterPayload;
  "control.session.accept": control.SessionAcceptPayload;
  "control.resume": control.ResumePayload;
  "control.reset": control.ResetPayload;
  "control.drain": control.DrainPayload;
  "control.undrain": control.UndrainPayload;
  "control.ack": control.AckPayload;
  "control.heartbeat": control.HeartbeatPayload;
  "biz.exec.dispatch": exec.DispatchPayload;
  "biz.exec.dispatch.batch": exec.DispatchBatchPayload;
  "biz.exec.feedback": exec.FeedbackPayload;
  "biz.exec.result": exec.ResultPayload;
  "biz.exec.result.batch": exec.ResultBatchPayload;
  "biz.exec.error": exec.ExecErrorPayload;
  "biz.exec.next.request": exec.NextRequestPayload;
  "biz.exec.next.response": exec.NextResponsePayload;
  "biz.exec.cancel": exec.CancelPayload;
  "biz.exec.inventory": exec.InventoryPayload;
  "biz.resource.removed": exec.ResourceRemovedPayload;
  "biz.pkg.install": pkg.PkgInstallPayload;
  "biz.pkg.uninstall": pkg.PkgUninstallPayload;
  "biz.pkg.event": pkg.PkgEventPayload;
  "biz.pkg.catalog": pkg.PkgCatalogPayload;
}
export type FrameType = keyof FramePayloads;

/** How v1 spells the types. Seed 000 says `error`; the workers built from it say `command.error`. */
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

/** What a type of frame carries once read; vendor frames stay opaque. */
export type PayloadOf<T extends string> = T extends FrameType
  ? FramePayloads[T]
  : T extends keyof V1FrameTypes
    ? FramePayloads[V1FrameTypes[T]]
    : JsonObject;

interface FrameDefinition {
  readonly reader: SchemaReader<unknown>;
  /** From the words of the dialect to ours, and back. */
  readonly normalise?: (payload: never) => unknown;
  readonly toDialect?: (payload: never) => unknown;
}

const dropUnknownKeys = {
  code: "E.FRAME.INVALID",
  subject: "payload",
  unknownKeys: "drop",
} as const satisfies SchemaReaderOptions;
const refuseUnknownKeys = {
  code: "E.FRAME.INVALID",
  subject: "payload",
  unknownKeys: "refuse",
} as const satisfies SchemaReaderOptions;

const v2Frames: Record<FrameType, FrameDefinition> = {
  "control.handshake": { reader: createSchemaReader(control.HandshakeSchema, dropUnknownKeys) },
  "control.register": {
    reader: createSchemaReader(control.RegisterSchema, dropUnknownKeys),
    normalise: control.normaliseRegister,
  },
  "control.session.accept": { reader: createSchemaReader(control.SessionAcceptSchema, dropUnknownKeys) },
  "control.resume": { reader: createSchemaReader(control.ResumeSchema, dropUnknownKeys) },
  "control.reset": { reader: createSchemaReader(control.ResetSchema, dropUnknownKeys) },
  "control.drain": { reader: createSchemaReader(control.DrainSchema, dropUnknownKeys) },
  "control.undrain": { reader: createSchemaReader(control.UndrainSchema, dropUnknownKeys) },
  "control.ack": { reader: createSchemaReader(control.AckSchema, dropUnknownKeys) },
  "control.heartbeat": { reader: createSchemaReader(control.HeartbeatSchema, dropUnknownKeys) },
  "biz.exec.dispatch": { reader: createSchemaReader(exec.DispatchSchema, dropUnknownKeys) },
  "biz.exec.dispatch.batch": { reader: createSchemaReader(exec.DispatchBatchSchema, dropUnknownKeys) },
  "biz.exec.feedback": { reader: createSchemaReader(exec.FeedbackSchema, dropUnknownKeys) },
  "biz.exec.result": { reader: createSchemaReader(exec.ResultSchema, dropUnknownKeys) },
  "biz.exec.result.batch": { reader: createSchemaReader(exec.ResultBatchSchema, dropUnknownKeys) },
  "biz.exec.error": { reader: createSchemaReader(exec.ExecErrorSchema, dropUnknownKeys) },
  "biz.exec.next.request": { reader: createSchemaReader(exec.NextRequestSchema, dropUnknownKeys) },
  "biz.exec.next.response": { reader: createSchemaReader(exec.NextResponseSchema, dropUnknownKeys) },
  "biz.exec.cancel": { reader: createSchemaReader(exec.CancelSchema, dropUnknownKeys) },
  "biz.exec.inventory": { reader: createSchemaReader(exec.InventorySchema, dropUnknownKeys) },
  "biz.resource.removed": { reader: createSchemaReader(exec.ResourceRemovedSchema, dropUnknownKeys) },
  "biz.pkg.install": { reader: createSchemaReader(pkg.PkgInstallSchema, dropUnknownKeys) },
  "biz.pkg.uninstall": { reader: createSchemaReader(pkg.PkgUninstallSchema, dropUnknownKeys) },
  "biz.pkg.event": { reader: createSchemaReader(pkg.PkgEventSchema, dropUnknownKeys) },
  "biz.pkg.catalog": { reader: createSchemaReader(pkg.PkgCatalogSchema, dropUnknownKeys) },
};

const firstGenFrames: Partial<Record<FrameType, FrameDefinition>> = {
  "control.handshake": { reader: createSchemaReader(control.HandshakeSchema, refuseUnknownKeys) },
  "control.register": {
    reader: createSchemaReader(control.RegisterFirstGenSchema, refuseUnknownKeys),
    normalise: control.normaliseRegister,
  },
  "control.session.accept": { reader: createSchemaReader(control.SessionAcceptFirstGenSchema, refuseUnknownKeys) },
  "control.resume": { reader: createSchemaReader(control.ResumeFirstGenSchema, refuseUnknownKeys) },
  "control.reset": { reader: createSchemaReader(control.ResetSchema, refuseUnknownKeys) },
  "control.drain": { reader: createSchemaReader(control.DrainSchema, refuseUnknownKeys) },
  "control.ack": { reader: createSchemaReader(control.AckFirstGenSchema, refuseUnknownKeys) },
  "control.heartbeat": { reader: createSchemaReader(control.HeartbeatFirstGenSchema, refuseUnknownKeys) },
  "biz.exec.dispatch": { reader: createSchemaReader(exec.DispatchFirstGenSchema, refuseUnknownKeys) },
  "biz.exec.feedback": { reader: createSchemaReader(exec.FeedbackFirstGenSchema, refuseUnknownKeys) },
  "biz.exec.result": { reader: createSchemaReader(exec.ResultFirstGenSchema, refuseUnknownKeys) },
  "biz.exec.error": { reader: createSchemaReader(exec.ExecErrorFirstGenSchema, refuseUnknownKeys) },
  "biz.exec.next.request": { reader: createSchemaReader(exec.NextRequestFirstGenSchema, refuseUnknownKeys) },
  "biz.exec.next.response": { reader: createSchemaReader(exec.NextResponseSchema, refuseUnknownKeys) },
  "biz.pkg.install": { reader: createSchemaReader(pkg.PkgInstallFirstGenSchema, refuseUnknownKeys) },
  "biz.pkg.uninstall": { reader: createSchemaReader(pkg.PkgUninstallFirstGenSchema, refuseUnknownKeys) },
  "biz.pkg.event": { reader: createSchemaReader(pkg.PkgEventFirstGenSchema, refuseUnknownKeys) },
  "biz.pkg.catalog": { reader: createSchemaReader(pkg.PkgCatalogSchema, refuseUnknownKeys) },
};

type V1Ack = Static<typeof control.AckV1Schema>;

const v1Frames: Partial<Record<FrameType, FrameDefinition>> = {
  "control.handshake": {
    reader: createSchemaReader(control.HandshakeV1Schema, dropUnknownKeys),
    normalise: control.normaliseHandshakeV1,
  },
  "control.register": {
    reader: createSchemaReader(control.RegisterV1Schema, dropUnknownKeys),
    normalise: control.normaliseRegister,
  },
  "control.ack": {
    reader: createSchemaReader(control.AckV1Schema, dropUnknownKeys),
    normalise: (ack: V1Ack) => ({ ...ack, ok: ack.ok ?? true }),
    toDialect: (ack: control.AckPayload) => ({ ...ack, ok: ack.ok ?? true }),
  },
  "control.heartbeat": { reader: createSchemaReader(control.HeartbeatFirstGenSchema, dropUnknownKeys) },
  "control.drain": { reader: createSchemaReader(control.DrainSchema, dropUnknownKeys) },
  "biz.exec.dispatch": {
    reader: createSchemaReader(exec.DispatchV1Schema, dropUnknownKeys),
    normalise: exec.normaliseDispatchV1,
    toDialect: exec.formatDispatchV1,
  },
  "biz.exec.feedback": { reader: createSchemaReader(exec.FeedbackFirstGenSchema, dropUnknownKeys) },
  "biz.exec.result": {
    reader: createSchemaReader(exec.ResultV1Schema, dropUnknownKeys),
    normalise: exec.normaliseResultV1,
    toDialect: exec.formatResultV1,
  },
  "biz.exec.error": { reader: createSchemaReader(exec.ExecErrorFirstGenSchema, dropUnknownKeys) },
  "biz.exec.next.request": { reader: createSchemaReader(exec.NextRequestFirstGenSchema, dropUnknownKeys) },
  "biz.exec.next.response": { reader: createSchemaReader(exec.NextResponseSchema, dropUnknownKeys) },
  "biz.pkg.install": { reader: createSchemaReader(pkg.PkgInstallFirstGenSchema, dropUnknownKeys) },
  "biz.pkg.uninstall": { reader: createSchemaReader(pkg.PkgUninstallFirstGenSchema, dropUnknownKeys) },
  "biz.pkg.event": { reader: createSchemaReader(pkg.PkgEventSchema, dropUnknownKeys) },
};

/** The payload of every type of frame, by dialect and v2 name. */
export const frameDefinitions: Readonly<Record<Dialect, Readonly<Partial<Record<FrameType, FrameDefinition>>>>> = {
  v1: v1Frames,
  first: firstGenFrames,
  v2: v2Frames,
};

const v1TypeNames: Readonly<Partial<Record<FrameType, string>>> = Object.fromEntries(
  Object.entries(v1FrameTypes)
    .filter(([spelling]) => spelling !== "command.error") // both are read; we write what the seed says
    .map(([spelling, type]) => [type, spelling]),
);

const vendorTypePrefix = "ext.vendor.";

/** The v2 name of a type as the dialect spells it; undefined if the dialect has no such frame. */
export function toFrameType(dialect: Dialect, wireType: string): FrameType | undefined {
  const type =
    dialect === "v1"
      ? Object.hasOwn(v1FrameTypes, wireType)
        ? v1FrameTypes[wireType as keyof V1FrameTypes]
        : undefined
      : wireType;
  return type !== undefined && Object.hasOwn(frameDefinitions[dialect], type) ? (type as FrameType) : undefined;
}

/** How the dialect spells a type; undefined if it has no such frame, which then must not be sent. */
export function toWireType(dialect: Dialect, type: string): string | undefined {
  if (type.startsWith(vendorTypePrefix)) return dialect === "v1" ? undefined : type;
  if (!Object.hasOwn(frameDefinitions[dialect], type)) return undefined;
  return dialect === "v1" ? v1TypeNames[type as FrameType] : type;
}

/** Step two of two: the payload, by the type its envelope gave. The answer is in the words of v2. */
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

/** Compiles every validator of the session door now, so that no stranger's first frame pays for it. */
export function compileFrameReaders(): void {
  for (const definition of Object.values(envelopeReaders)) definition.compile();
  for (const dialect of Object.values(frameDefinitions))
    for (const definition of Object.values(dialect)) definition.reader.compile();
}
