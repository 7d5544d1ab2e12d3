// The published contract as files: which JSON Schema documents exist, under which names. The generator writes them.

import type { TSchema } from "typebox";
import { ManifestSchema } from "../definitions/manifest.ts";
import { WorkflowSchema } from "../definitions/workflow.ts";
import { type Dialect, envelopeReaders } from "../frames/envelope.ts";
import { type FrameType, frameDefinitions, v1FrameTypes } from "../frames/frame-definitions.ts";
import { type JsonSchemaObject, toJsonSchema } from "../schema/json-schema.ts";

const controlSchemaFiles = {
  "control.handshake": "handshake",
  "control.register": "register",
  "control.session.accept": "session.accept",
  "control.resume": "session.resume",
  "control.reset": "session.reset",
  "control.drain": "session.drain",
  "control.undrain": "session.undrain",
  "control.ack": "ack",
  "control.heartbeat": "heartbeat",
} as const satisfies Partial<Record<FrameType, string>>;

/** Path below docs/schema -> document. */
export function buildSchemaDocuments(): Record<string, JsonSchemaObject> {
  const documents: Record<string, JsonSchemaObject> = {};
  const add = (path: string, title: string, schema: TSchema) => {
    documents[path] = { $schema: "https://json-schema.org/draft/2020-12/schema", title, ...toJsonSchema(schema) };
  };
  const payload = (dialect: Dialect, type: FrameType): TSchema => {
    const row = frameDefinitions[dialect][type];
    if (row === undefined) throw new Error(`${type} does not exist in dialect ${dialect}`);
    return row.reader.schema;
  };

  add("ws/ws.envelope.schema.json", "Envelope, protocol v1", envelopeReaders.v1.schema);
  for (const [spelling, type] of Object.entries(v1FrameTypes)) {
    if (spelling === "command.error") continue; // the same document as `error`
    add(`ws/ws.${spelling}.schema.json`, `Payload of ${spelling}, protocol v1`, payload("v1", type));
  }
  for (const [dialect, folder] of [
    ["v2", "session"],
    ["first", "session-first-generation"],
  ] as const) {
    const of = dialect === "v2" ? "protocol v2" : "protocol v2, first generation";
    add(`${folder}/ws.envelope.schema.json`, `Envelope, ${of}`, envelopeReaders[dialect].schema);
    for (const [type, file] of Object.entries(controlSchemaFiles) as [FrameType, string][])
      if (type in frameDefinitions[dialect])
        add(`${folder}/${file}.schema.json`, `Payload of ${type}, ${of}`, payload(dialect, type));
    const biz = dialect === "v2" ? "biz" : `${folder}/biz`;
    for (const type of Object.keys(frameDefinitions[dialect]) as FrameType[])
      if (type.startsWith("biz."))
        add(`${biz}/${type.slice(4)}.schema.json`, `Payload of ${type}, ${of}`, payload(dialect, type));
  }
  add("manifest.json", "Package manifest", ManifestSchema);
  add("workflow.json", "Workflow definition", WorkflowSchema);
  return documents;
}
