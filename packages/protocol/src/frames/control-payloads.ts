// Payloads of the control frames: handshake, register, accept, resume, reset, drain, ack, heartbeat.
// The base schema of each is what existing workers know; ours adds optional fields, and v1 differs in a few fields.

import Type, { type Static } from "typebox";
import { limits } from "../json/limits.ts";
import {
  idString,
  instantString,
  integer,
  listOf,
  mapOf,
  nameString,
  oneOf,
  openObject,
  optional,
  textString,
} from "../schema/field-types.ts";

const auth = Type.Object({
  mode: oneOf(["token", "mtls"]),
  token: optional(Type.String({ maxLength: limits.tokenCharsMax })),
  fingerprint: optional(Type.String({ maxLength: limits.tokenCharsMax })),
});

export const HandshakeSchema = Type.Object({
  protocol: integer(1, undefined, "2 and above is this protocol; 1 is its first generation."),
  auth,
  worker: Type.Object({
    worker_name: nameString("Display name; need not be unique."),
    worker_instance_id: optional(idString("Permanent identity; also in sender.id.")),
    version: nameString(),
    hostname: nameString(),
  }),
});
export type HandshakePayload = Static<typeof HandshakeSchema>;

/** v1 has one id that is both display name and identity. */
export const HandshakeV1Schema = Type.Object({
  protocol: integer(1),
  auth,
  worker: Type.Object({ id: idString(), version: nameString(), hostname: nameString() }),
});

const concurrency = Type.Object({
  max_parallel: integer(1, 1_000_000),
  per_node_limits: optional(mapOf(integer(1, 1_000_000))),
});
const nameList = listOf(nameString(), 1_000);
const runtimes = Type.Array(nameString(), { minItems: 1, maxItems: 1_000 });

const packages = listOf(
  Type.Object({ name: idString(), version: idString(), status: oneOf(["installed", "missing", "failed"]) }),
  limits.packagesMax,
);
const manifests = listOf(Type.Object({ name: idString(), version: idString(), manifest: openObject() }), limits.packagesMax);

const HeldTaskRefSchema = Type.Object({ task_id: idString(), fence: integer(0) });
/** An attempt that a worker reports as held. */
export type HeldTaskRef = Static<typeof HeldTaskRefSchema>;
export const heldTaskList = listOf(HeldTaskRefSchema, limits.heldTasksMax);

const registerFields = {
  payload_types: optional(nameList),
  packages: optional(packages),
  channels: optional(nameList),
  manifests: optional(manifests),
};

export const RegisterFirstGenSchema = Type.Object({
  capabilities: Type.Object({ concurrency, runtimes, features: nameList }),
  ...registerFields,
});

export const RegisterSchema = Type.Object({
  capabilities: Type.Object({
    concurrency,
    runtimes: optional(runtimes),
    features: optional(nameList),
    pool: optional(idString("Pool this worker belongs to.")),
    tags: optional(mapOf(nameString())),
  }),
  runtimes: optional(runtimes),
  features: optional(nameList),
  ...registerFields,
  boot_id: optional(idString("New with every start of the worker process.")),
  running: optional(listOf(HeldTaskRefSchema, limits.heldTasksMax)),
  resources: optional(
    Type.Array(idString(), {
      maxItems: limits.registeredResourcesMax,
      description: "Every resource that results of this worker have named and that it still keeps; absent: unknown.",
    }),
  ),
});

/** A normalised register: runtimes and features are in the capabilities and never absent. */
export type RegisterPayload = Omit<Static<typeof RegisterSchema>, "capabilities" | "runtimes" | "features"> & {
  capabilities: Static<typeof RegisterSchema>["capabilities"] & { runtimes: string[]; features: string[] };
};

/** v1 requires the package list. Its own schema also required `queues`, which it forbade; that requirement is left out. */
export const RegisterV1Schema = Type.Object({
  capabilities: Type.Object({ concurrency, runtimes, features: nameList }),
  packages,
  channels: optional(nameList),
  manifests: optional(manifests),
});

const percent = (description?: string) => Type.Number({ minimum: 0, ...(description !== undefined && { description }) });

export const SessionAcceptFirstGenSchema = Type.Object({
  session_id: idString(),
  session_token: Type.String({ minLength: 1, maxLength: limits.tokenCharsMax }),
  worker_instance_id: idString(),
  expires_at: optional(instantString()),
  resumed: optional(Type.Boolean()),
});

export const SessionAcceptSchema = Type.Object({
  ...SessionAcceptFirstGenSchema.properties,
  worker_instance_id: optional(idString()),
  heartbeat_interval_ms: optional(integer(1)),
  lease_ms: optional(integer(1)),
  send_window: optional(integer(1, limits.windowMax, "Frames the scheduler keeps in flight towards the worker.")),
  recv_window: optional(integer(1, limits.windowMax, "Frames the worker may keep in flight towards the scheduler.")),
  features: optional(nameList),
  drain_mem_pct: optional(percent("Memory usage above which this worker gets no new work.")),
  drain_disk_pct: optional(percent("The same for its disk.")),
});
export type SessionAcceptPayload = Static<typeof SessionAcceptSchema>;

export const ResumeFirstGenSchema = Type.Object({
  session_id: idString(),
  session_token: Type.String({ minLength: 1, maxLength: limits.tokenCharsMax }),
  last_seen_seq: optional(integer(0)),
});
export const ResumeSchema = Type.Object({
  ...ResumeFirstGenSchema.properties,
  last_seen_seq: optional(integer(-1, undefined, "Highest contiguous number received; -1 is nothing.")),
  boot_id: optional(idString()),
});
export type ResumePayload = Static<typeof ResumeSchema>;

export const ResetSchema = Type.Object({ code: idString(), reason: textString(), retry_after_ms: optional(integer(0)) });
export type ResetPayload = Static<typeof ResetSchema>;

export const DrainSchema = Type.Object({ reason: optional(textString()), deadline_ms: optional(integer(0)) });
export type DrainPayload = Static<typeof DrainSchema>;

/** Undoes a drain without a new session; only for workers that announce `undrain`. */
export const UndrainSchema = Type.Object({ reason: optional(textString()) });
export type UndrainPayload = Static<typeof UndrainSchema>;

const ackFields = { ok: optional(Type.Boolean()), for: optional(idString()), info: optional(textString()) };

export const AckFirstGenSchema = Type.Object({
  ...ackFields,
  ack_seq: optional(integer(0, undefined, "Highest contiguous number received; 0 is nothing.")),
  ack_bitmap: optional(integer(0)),
  recv_window: optional(integer(1)),
});

export const AckSchema = Type.Object({
  ...ackFields,
  ack_seq: optional(integer(-1, undefined, "Highest contiguous number received; -1 is nothing.")),
  ack_bitmap: optional(
    Type.Union([integer(0), Type.String({ pattern: "^[0-9a-f]+$", maxLength: limits.bitmapHexCharsMax })], {
      description: "Bit i: number ack_seq + 1 + i was received. A number up to 53 bits, lowercase hex above.",
    }),
  ),
  recv_window: optional(integer(1)),
});
export type AckPayload = Static<typeof AckSchema>;

/** v1 requires `ok`, but its workers never sent it; absent means true. */
export const AckV1Schema = Type.Object({ ok: optional(Type.Boolean()), for: idString(), info: optional(textString()) });

interface HeartbeatMetrics {
  [more: string]: unknown;
  inflight: number;
  cpu_pct?: number;
  mem_pct?: number;
  disk_pct?: number;
  latency_ms?: number;
}
const metrics = Type.Unsafe<HeartbeatMetrics>(
  Type.Object(
    {
      inflight: integer(0),
      cpu_pct: optional(percent()),
      mem_pct: optional(percent()),
      disk_pct: optional(percent()),
      latency_ms: optional(integer(0)),
    },
    { additionalProperties: true },
  ),
);

export const HeartbeatFirstGenSchema = Type.Object({
  healthy: Type.Boolean(),
  metrics,
  packages: optional(Type.Object({ drift: optional(Type.Boolean()) })),
});
export const HeartbeatSchema = Type.Object({
  ...HeartbeatFirstGenSchema.properties,
  packages: optional(
    Type.Object({
      drift: optional(Type.Boolean()),
      hash: optional(idString("Digest of the installed packages and versions.")),
      installed: optional(packages),
    }),
  ),
  held: optional(heldTaskList),
  draining: optional(Type.Boolean()),
});
export type HeartbeatPayload = Static<typeof HeartbeatSchema>;

/** A register of any dialect, normalised. */
export function normaliseRegister(register: Static<typeof RegisterSchema>): RegisterPayload {
  const { runtimes, features, capabilities, ...rest } = register;
  return {
    ...rest,
    capabilities: {
      ...capabilities,
      runtimes: capabilities.runtimes ?? runtimes ?? [],
      features: capabilities.features ?? features ?? [],
    },
  };
}

/** The single id of v1 is display name and identity. */
export function normaliseHandshakeV1(handshake: Static<typeof HandshakeV1Schema>): HandshakePayload {
  const { id: instance, ...worker } = handshake.worker;
  return { ...handshake, worker: { worker_name: instance, worker_instance_id: instance, ...worker } };
}
