// What a worker of the first generation takes: the fields of every frame that it knows, and nothing else. A frame with one more is dropped there
// without a word, so a scheduler that sends one has lost it.

interface Fields {
  readonly must: readonly string[];
  readonly may: readonly string[];
}

const envelope: Fields = {
  must: ["type", "id", "ts", "tenant", "sender", "payload"],
  may: ["corr", "seq", "session_seq", "ack", "flags"],
};
const dispatch: Fields = {
  must: ["run_id", "task_id", "node_id", "node_type", "package_name", "package_version", "parameters", "constraints"],
  may: ["concurrency_key", "priority", "host_node_id", "middleware_chain", "chain_index", "resource_refs", "affinity"],
};
const payloads: Readonly<Record<string, Fields>> = {
  "control.ack": { must: [], may: ["ok", "for", "info", "ack_seq", "ack_bitmap", "recv_window"] },
  "control.session.accept": {
    must: ["session_id", "session_token", "worker_instance_id"],
    may: ["expires_at", "resumed"],
  },
  "control.reset": { must: ["code", "reason"], may: ["retry_after_ms"] },
  "control.drain": { must: [], may: ["reason", "deadline_ms"] },
  "biz.exec.dispatch": dispatch,
};

export interface FirstFrame {
  readonly type: string;
  readonly id: string;
  readonly corr?: string;
  readonly seq?: number;
  readonly session_seq?: number;
  readonly ack?: { readonly for?: string; readonly request?: boolean };
  readonly payload: Readonly<Record<string, unknown>>;
}

/** The frame, or what such a worker dislikes about it. */
export function readFirst(text: string): FirstFrame | string {
  const frame = JSON.parse(text) as FirstFrame & Record<string, unknown>;
  const problem =
    check("the envelope", frame, envelope) ??
    check("sender", frame["sender"], { must: ["role", "id"], may: [] }) ??
    (frame.ack === undefined ? null : check("ack", frame.ack, { must: [], may: ["for", "request"] })) ??
    check(frame.type, frame.payload, payloads[frame.type] ?? null) ??
    checkNumbers(frame);
  return problem ?? frame;
}

function check(where: string, value: unknown, fields: Fields | null): string | null {
  if (fields === null) return null;
  if (typeof value !== "object" || value === null) return `${where} is no object`;
  const names = Object.keys(value);
  const missing = fields.must.find((name) => !names.includes(name));
  if (missing !== undefined) return `${where} lacks ${missing}`;
  const strange = names.find((name) => !fields.must.includes(name) && !fields.may.includes(name));
  return strange === undefined ? null : `${where} has ${strange}`;
}

function checkNumbers({ type, payload, session_seq: number }: FirstFrame): string | null {
  const isControl = type.startsWith("control.");
  if (isControl === (number !== undefined)) return `${type} ${isControl ? "has" : "lacks"} a number`;
  if (number !== undefined && number < 1) return `${type} has the number ${number}`;
  if (type !== "biz.exec.dispatch") return null;
  const { constraints } = payload;
  return check("constraints", constraints, { must: [], may: ["timeout_ms"] });
}
