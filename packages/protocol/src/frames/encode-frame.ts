// Writes outgoing frames in the form of the dialect: absent fields are left out, and the envelope has no null.

import type { Dialect } from "./envelope.ts";
import { type FrameType, sentFrameDefinitions, toWireType } from "./frame-definitions.ts";

/** What is the same in every frame that one end of a connection sends. */
export interface EnvelopeTemplate {
  readonly dialect: Dialect;
  readonly fixedFields: string;
}

export interface OutgoingFrame {
  /** A v2 name or `ext.vendor.*`; it is replaced by the name in the dialect. */
  readonly type: FrameType | `ext.vendor.${string}`;
  readonly id: string;
  readonly ts: string;
  /** An object, or its JSON text if the caller has it already (then in the form of the dialect). */
  readonly payload: object | string;
  readonly corr?: string | undefined;
  /** Transport number; not for control frames. */
  readonly number?: number | undefined;
  /** Number within the run; only the older dialects carry it. */
  readonly runSeq?: number | undefined;
  readonly ackFor?: string | undefined;
  readonly ackRequest?: boolean | undefined;
}

export function createEnvelopeTemplate(template: {
  dialect: Dialect;
  tenant: string;
  sender: { role: "scheduler" | "worker"; id: string };
}): EnvelopeTemplate {
  const fixedFields = `,"tenant":${JSON.stringify(template.tenant)},"sender":${JSON.stringify({ role: template.sender.role, id: template.sender.id })}`;
  return { dialect: template.dialect, fixedFields };
}

/** The text of a frame. Throws for a type that the dialect does not have. */
export function encodeFrame(template: EnvelopeTemplate, frame: OutgoingFrame): string {
  const { dialect } = template;
  const type = toWireType(dialect, frame.type);
  if (type === undefined) throw new Error(`${frame.type} does not exist in dialect ${dialect}`);
  let text = `{"type":"${type}","id":${JSON.stringify(frame.id)},"ts":"${frame.ts}"${template.fixedFields}`;
  if (frame.corr !== undefined) text += `,"corr":${JSON.stringify(frame.corr)}`;
  const seq = dialect === "first" || dialect === "v1" ? frame.runSeq : frame.number;
  if (seq !== undefined) text += `,"seq":${seq}`;
  if (dialect === "first" && frame.number !== undefined) text += `,"session_seq":${frame.number}`;
  if (frame.ackFor !== undefined) text += `,"ack":{"for":${JSON.stringify(frame.ackFor)}}`;
  else if (frame.ackRequest) text += `,"ack":{"request":true}`;
  return `${text},"payload":${encodePayload(dialect, frame)}}`;
}

function encodePayload(dialect: Dialect, frame: OutgoingFrame): string {
  if (typeof frame.payload === "string") return frame.payload;
  return JSON.stringify(toDialectPayload(dialect, frame.type, frame.payload));
}

/** Our payload in the form of the dialect. Older workers drop frames with unknown fields, so those are removed. */
export function toDialectPayload(dialect: Dialect, type: string, payload: object): object {
  if (dialect === "v2" || dialect === "basic") return payload;
  const row = sentFrameDefinitions[dialect][type as FrameType];
  if (row === undefined) return payload;
  const converted = row.toDialect ? row.toDialect(payload as never) : payload;
  return row.reader.dropUnknownFields(converted) as object;
}

/** Inserts values that are JSON text into the text of an object without parsing them: stored bodies are sent unchanged. */
export function insertRawJson(object: object, rawValues: Readonly<Record<string, string>>): string {
  const open = JSON.stringify(object).slice(0, -1);
  const rawFields = Object.entries(rawValues).map(([key, text]) => `${JSON.stringify(key)}:${text}`);
  return rawFields.length === 0 ? `${open}}` : `${open}${open === "{" ? "" : ","}${rawFields.join(",")}}`;
}
