// What a worker of the first generation takes: the fields of every frame that it knows, and nothing else. A frame with one more is dropped there
// without a word, so a scheduler that sends one has lost it.

interface FrameFields {
  readonly required: readonly string[];
  readonly optional: readonly string[];
}

const envelopeFields: FrameFields = {
  required: ["type", "id", "ts", "tenant", "sender", "payload"],
  optional: ["corr", "seq", "session_seq", "ack", "flags"],
};
const dispatchFields: FrameFields = {
  required: ["run_id", "task_id", "node_id", "node_type", "package_name", "package_version", "parameters", "constraints"],
  optional: ["concurrency_key", "priority", "host_node_id", "middleware_chain", "chain_index", "resource_refs", "affinity"],
};
const payloadFields: Readonly<Record<string, FrameFields>> = {
  "control.ack": { required: [], optional: ["ok", "for", "info", "ack_seq", "ack_bitmap", "recv_window"] },
  "control.session.accept": {
    required: ["session_id", "session_token", "worker_instance_id"],
    optional: ["expires_at", "resumed"],
  },
  "control.reset": { required: ["code", "reason"], optional: ["retry_after_ms"] },
  "control.drain": { required: [], optional: ["reason", "deadline_ms"] },
  "biz.exec.dispatch": dispatchFields,
};

export interface LegacyFrame {
  readonly type: string;
  readonly id: string;
  readonly corr?: string;
  readonly seq?: number;
  readonly session_seq?: number;
  readonly ack?: { readonly for?: string; readonly request?: boolean };
  readonly payload: Readonly<Record<string, unknown>>;
}

/** The frame, or what such a worker dislikes about it. */
export function readFirstGenerationFrame(text: string): LegacyFrame | string {
  const frame = JSON.parse(text) as LegacyFrame & Record<string, unknown>;
  const problem =
    findFieldProblem("the envelope", frame, envelopeFields) ??
    findFieldProblem("sender", frame["sender"], { required: ["role", "id"], optional: [] }) ??
    (frame.ack === undefined ? null : findFieldProblem("ack", frame.ack, { required: [], optional: ["for", "request"] })) ??
    findFieldProblem(frame.type, frame.payload, payloadFields[frame.type] ?? null) ??
    findNumberProblem(frame);
  return problem ?? frame;
}

function findFieldProblem(where: string, value: unknown, fields: FrameFields | null): string | null {
  if (fields === null) return null;
  if (typeof value !== "object" || value === null) return `${where} is not an object`;
  const names = Object.keys(value);
  const missing = fields.required.find((name) => !names.includes(name));
  if (missing !== undefined) return `${where} lacks ${missing}`;
  const strange = names.find((name) => !fields.required.includes(name) && !fields.optional.includes(name));
  return strange === undefined ? null : `${where} has ${strange}`;
}

function findNumberProblem({ type, payload, session_seq: number }: LegacyFrame): string | null {
  const isControl = type.startsWith("control.");
  if (isControl === (number !== undefined)) return `${type} ${isControl ? "has" : "lacks"} a number`;
  if (number !== undefined && number < 1) return `${type} has the number ${number}`;
  if (type !== "biz.exec.dispatch") return null;
  const { constraints } = payload;
  return findFieldProblem("constraints", constraints, { required: [], optional: ["timeout_ms"] });
}
