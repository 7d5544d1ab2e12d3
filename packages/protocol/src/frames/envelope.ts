// The envelope of every frame, in three dialects. It is read before the payload inside it.

import type { Static } from "typebox";
import type { Fault } from "../faults/fault.ts";
import * as t from "../schema/field-types.ts";
import { createSchemaReader, type SchemaReader } from "../schema/schema-reader.ts";

/**
 * v1: the first protocol. v2: ours. Two kinds of workers name protocol 1 in a `control.handshake`. first: existing workers with v2 as it
 * was first built. basic: workers built from the specification of v2, which announce no feature. undecided: one of these two, as long as
 * the worker has not numbered a frame.
 */
export type Dialect = "v1" | "first" | "basic" | "undecided" | "v2";

const commonFields = {
  type: t.id("Selects the payload: control.* session, biz.* first party, ext.vendor.* third party."),
  id: t.id("Message id; what an acknowledgement names."),
  ts: t.instant("When the sender made the frame; displayed, never used for a decision."),
  tenant: t.id("Must be the tenant the connection is bound to."),
  sender: t.object({ role: t.oneOf(["scheduler", "worker"]), id: t.id("Instance id of a worker, not its display name.") }),
  payload: t.openObject("Selected by type and checked in a second step."),
  corr: t.optional(t.id("The subject of the frame: a task, a request, or the frame it answers.")),
  ack: t.optionalObject({ for: t.optional(t.id()), request: t.optional(t.boolean()) }),
  flags: t.optional(t.list(t.name(), 64)),
};

/** v1: `seq` counts dispatches of one run. */
const EnvelopeV1Schema = t.object({ ...commonFields, seq: t.optional(t.integer(0, "Number within the run.")) });

/** v2: `seq` is the transport number, one counter per direction and session, from 0. */
const EnvelopeV2Schema = t.object({ ...commonFields, seq: t.optional(t.integer(0, "Transport number, from 0.")) });

/** First generation: the transport number is `session_seq`, from 1; `seq` counts dispatches of one run. */
const EnvelopeFirstGenSchema = t.object({
  ...commonFields,
  seq: t.optional(t.integer(0, "Number within the run.")),
  session_seq: t.optional(t.integer(0, "Transport number, from 1 in use.")),
});

/** One type for all dialects: absent means absent, there is no null. */
export type Envelope = Static<typeof EnvelopeFirstGenSchema>;

const envelopeReaderOptions = { code: "E.FRAME.INVALID", subject: "frame" } as const;

const v2EnvelopeReader = createSchemaReader(EnvelopeV2Schema, { ...envelopeReaderOptions, unknownKeys: "drop" });
const anyEnvelopeReader = createSchemaReader(EnvelopeFirstGenSchema, { ...envelopeReaderOptions, unknownKeys: "drop" });

/** `any` reads the first frame of a connection, before its dialect is known. */
export const envelopeReaders: Readonly<Record<Dialect | "any", SchemaReader<Envelope>>> = {
  v1: createSchemaReader(EnvelopeV1Schema, { ...envelopeReaderOptions, unknownKeys: "drop" }),
  first: createSchemaReader(EnvelopeFirstGenSchema, { ...envelopeReaderOptions, unknownKeys: "refuse" }),
  v2: v2EnvelopeReader,
  basic: v2EnvelopeReader,
  undecided: anyEnvelopeReader,
  any: anyEnvelopeReader,
};

/** Reads the envelope; the payload inside is read in a second step. */
export function readEnvelope(value: unknown, dialect: Dialect | "any" = "any"): Envelope | Fault {
  return envelopeReaders[dialect].read(value);
}

/** The dialect that the first frame of a connection selects; undefined for a resume, whose session token names it. */
export function detectDialect(first: Envelope): Dialect | undefined {
  if (first.type === "handshake") return "v1";
  if (first.type !== "control.handshake") return undefined;
  const protocol = first.payload["protocol"];
  return typeof protocol === "number" && protocol >= 2 ? "v2" : "undecided";
}

/** The dialect that a work frame of an undecided worker shows, by the field of its transport number; null where it has none. */
export function dialectOfNumber({ seq, session_seq }: Envelope): "first" | "basic" | null {
  if (session_seq !== undefined) return "first";
  return seq === undefined ? null : "basic";
}

/** The transport number of a received frame, in the field where the dialect has it. */
export const transportNumber = (dialect: Dialect, { seq, session_seq }: Envelope): number | undefined =>
  dialect === "v2" || dialect === "basic" ? seq : session_seq;
