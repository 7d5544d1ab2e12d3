// Payloads of the control frames. The base schema of each is what existing workers know; ours adds optional fields.

import type { Static } from "typebox";
import { limits } from "../json/limits.ts";
import * as t from "../schema/field-types.ts";

const auth = t.object({
  mode: t.oneOf(["token", "mtls"]),
  token: t.optional(t.string({ maxLength: limits.tokenCharsMax })),
  fingerprint: t.optional(t.string({ maxLength: limits.tokenCharsMax })),
});

export const HandshakeFirstGenSchema = t.object({
  protocol: t.integer(1, "2 and above is this protocol; 1 is its specification without extensions, or its first generation."),
  auth,
  worker: t.object({
    worker_name: t.name("Display name; need not be unique."),
    worker_instance_id: t.optional(t.id("Permanent identity; also in sender.id.")),
    version: t.name(),
    hostname: t.name(),
  }),
});
export const HandshakeSchema = t.object({
  ...HandshakeFirstGenSchema.properties,
  session_key: t.optional(
    t.string({
      pattern: "^[A-Za-z0-9_-]{43}$",
      description: "Ed25519 public key in base64url, made for this session: only its holder can resume the session.",
    }),
  ),
});
export type HandshakePayload = Static<typeof HandshakeSchema>;

/** v1 has one id that is both display name and identity. */
export const HandshakeV1Schema = t.object({
  protocol: t.integer(1),
  auth,
  worker: t.object({ id: t.id(), version: t.name(), hostname: t.name() }),
});

const concurrency = t.object({
  max_parallel: t.between(1, 1_000_000),
  per_node_limits: t.optional(t.map(t.between(1, 1_000_000))),
});
const nameList = t.list(t.name(), 1_000);
const runtimes = t.array(t.name(), { minItems: 1, maxItems: 1_000 });

const packages = t.list(
  t.object({ name: t.id(), version: t.id(), status: t.oneOf(["installed", "missing", "failed"]) }),
  limits.packagesMax,
);
const manifests = t.list(t.object({ name: t.id(), version: t.id(), manifest: t.openObject() }), limits.packagesMax);

const HeldTaskRefSchema = t.object({ task_id: t.id(), fence: t.integer(0) });
export type HeldTaskRef = Static<typeof HeldTaskRefSchema>;
export const heldTaskList = t.list(HeldTaskRefSchema, limits.heldTasksMax);

const registerFields = {
  payload_types: t.optional(nameList),
  packages: t.optional(packages),
  channels: t.optional(nameList),
  manifests: t.optional(manifests),
};

export const RegisterFirstGenSchema = t.object({
  capabilities: t.object({ concurrency, runtimes, features: nameList }),
  ...registerFields,
});

export const RegisterSchema = t.object({
  capabilities: t.object({
    concurrency,
    runtimes: t.optional(runtimes),
    features: t.optional(nameList),
    pool: t.optional(t.id("Pool this worker belongs to.")),
    tags: t.optional(t.map(t.name())),
  }),
  runtimes: t.optional(runtimes),
  features: t.optional(nameList),
  ...registerFields,
  boot_id: t.optional(t.id("New with every start of the worker process.")),
  running: t.optional(t.list(HeldTaskRefSchema, limits.heldTasksMax)),
  resources: t.optional(
    t.array(t.id(), {
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
export const RegisterV1Schema = t.object({
  capabilities: t.object({ concurrency, runtimes, features: nameList }),
  packages,
  channels: t.optional(nameList),
  manifests: t.optional(manifests),
});

const percent = (description?: string) => t.number({ minimum: 0, ...(description !== undefined && { description }) });

export const SessionAcceptFirstGenSchema = t.object({
  session_id: t.id(),
  session_token: t.string({ minLength: 1, maxLength: limits.tokenCharsMax }),
  worker_instance_id: t.id(),
  expires_at: t.optional(t.instant()),
  resumed: t.optional(t.boolean()),
});

export const SessionAcceptSchema = t.object({
  ...SessionAcceptFirstGenSchema.properties,
  worker_instance_id: t.optional(t.id()),
  heartbeat_interval_ms: t.optional(t.integer(1)),
  lease_ms: t.optional(t.integer(1)),
  send_window: t.optional(t.between(1, limits.windowMax, "Frames the scheduler keeps in flight towards the worker.")),
  recv_window: t.optional(t.between(1, limits.windowMax, "Frames the worker may keep in flight towards the scheduler.")),
  features: t.optional(nameList),
  drain_mem_pct: t.optional(percent("Memory usage above which this worker gets no new work.")),
  drain_disk_pct: t.optional(percent("The same for its disk.")),
});
export type SessionAcceptPayload = Static<typeof SessionAcceptSchema>;

export const ResumeFirstGenSchema = t.object({
  session_id: t.id(),
  session_token: t.string({ minLength: 1, maxLength: limits.tokenCharsMax }),
  last_seen_seq: t.optional(t.integer(0)),
});
export const ResumeSchema = t.object({
  ...ResumeFirstGenSchema.properties,
  last_seen_seq: t.optional(t.integer(-1, "Highest contiguous number received; -1 is nothing.")),
  boot_id: t.optional(t.id()),
  proof: t.optionalObject({
    count: t.integer(1, "Higher than in every earlier proof under this key."),
    age_ms: t.integer(0, "Since the worker received the session token, by its own clock."),
    signature: t.string({ pattern: "^[A-Za-z0-9_-]{86}$", description: "Ed25519, base64url." }),
  }),
});
export type ResumePayload = Static<typeof ResumeSchema>;

export const ResetSchema = t.object({ code: t.id(), reason: t.text(), retry_after_ms: t.optional(t.integer(0)) });
export type ResetPayload = Static<typeof ResetSchema>;

export const DrainSchema = t.object({ reason: t.optional(t.text()), deadline_ms: t.optional(t.integer(0)) });
export type DrainPayload = Static<typeof DrainSchema>;

/** Undoes a drain without a new session; only for workers that announce `undrain`. */
export const UndrainSchema = t.object({ reason: t.optional(t.text()) });

const ackFields = { ok: t.optional(t.boolean()), for: t.optional(t.id()), info: t.optional(t.text()) };

export const AckFirstGenSchema = t.object({
  ...ackFields,
  ack_seq: t.optional(t.integer(0, "Highest contiguous number received; 0 is nothing.")),
  ack_bitmap: t.optional(t.integer(0)),
  recv_window: t.optional(t.integer(1)),
});

export const AckSchema = t.object({
  ...ackFields,
  ack_seq: t.optional(t.integer(-1, "Highest contiguous number received; -1 is nothing.")),
  ack_bitmap: t.optional(
    t.union([t.integer(0), t.string({ pattern: "^[0-9a-f]+$", maxLength: limits.bitmapHexCharsMax })], {
      description: "Bit i: number ack_seq + 1 + i was received. A number up to 53 bits, lowercase hex above.",
    }),
  ),
  recv_window: t.optional(t.integer(0, "Frames the receiver has room for; 0 counts as 1.")),
});
export type AckPayload = Static<typeof AckSchema>;

/** v1 requires `ok`, but its workers never sent it; absent means true. */
export const AckV1Schema = t.object({ ok: t.optional(t.boolean()), for: t.id(), info: t.optional(t.text()) });

interface HeartbeatMetrics {
  [more: string]: unknown;
  inflight?: number;
  cpu_pct?: number;
  mem_pct?: number;
  disk_pct?: number;
  latency_ms?: number;
}
const metrics = t.unsafe<HeartbeatMetrics>(
  t.object(
    {
      inflight: t.optional(t.integer(0)),
      cpu_pct: t.optional(percent()),
      mem_pct: t.optional(percent()),
      disk_pct: t.optional(percent()),
      latency_ms: t.optional(t.integer(0)),
    },
    { additionalProperties: true },
  ),
);

const heartbeatPackageFields = { drift: t.optional(t.boolean()), installed: t.optional(packages) };

/** `healthy` alone is a complete heartbeat. */
export const HeartbeatFirstGenSchema = t.object({
  healthy: t.boolean(),
  metrics: t.optional(metrics),
  packages: t.optionalObject(heartbeatPackageFields),
});
export const HeartbeatSchema = t.object({
  ...HeartbeatFirstGenSchema.properties,
  packages: t.optionalObject({
    ...heartbeatPackageFields,
    hash: t.optional(t.id("Digest of the installed packages and versions.")),
  }),
  resources: t.optionalObject({
    hash: t.id("Digest of the resources that the worker keeps."),
    count: t.optional(t.integer(0)),
    items: t.optional(
      t.list(
        t.object({ resource_id: t.id(), type: t.name(), size_bytes: t.optional(t.integer(0)) }),
        limits.heartbeatResourcesMax,
      ),
    ),
  }),
  held: t.optional(heldTaskList),
  draining: t.optional(t.boolean()),
});
export type HeartbeatPayload = Static<typeof HeartbeatSchema>;

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
