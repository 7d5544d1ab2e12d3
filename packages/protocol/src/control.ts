// Payloads of the control frames: handshake, register, accept, resume, reset, drain, ack, heartbeat.
// The base schema of each is what the workers in the field know; ours adds optional fields to it, v1 differs in a few words.

import Type, { type Static } from "typebox";
import { limits } from "./limits.ts";
import { bag, id, instant, int, list, map, name, oneOf, optional, text } from "./words.ts";

const auth = Type.Object({
  mode: oneOf(["token", "mtls"]),
  token: optional(Type.String({ maxLength: limits.tokenCharsMax })),
  fingerprint: optional(Type.String({ maxLength: limits.tokenCharsMax })),
});

export const HandshakeSchema = Type.Object({
  protocol: int(1, undefined, "2 and above is this protocol; 1 is its first generation."),
  auth,
  worker: Type.Object({
    worker_name: name("Label for people; may repeat."),
    worker_instance_id: optional(id("Lasting identity; also in sender.id.")),
    version: name(),
    hostname: name(),
  }),
});
export type Handshake = Static<typeof HandshakeSchema>;

/** v1 knows one id that is label and identity at once. */
export const HandshakeV1Schema = Type.Object({
  protocol: int(1),
  auth,
  worker: Type.Object({ id: id(), version: name(), hostname: name() }),
});

const concurrency = Type.Object({
  max_parallel: int(1, 1_000_000),
  per_node_limits: optional(map(int(1, 1_000_000))),
});
const words = list(name(), 1_000);
const runtimes = Type.Array(name(), { minItems: 1, maxItems: 1_000 });

const packages = list(
  Type.Object({ name: id(), version: id(), status: oneOf(["installed", "missing", "failed"]) }),
  limits.packagesMax,
);
const manifests = list(Type.Object({ name: id(), version: id(), manifest: bag() }), limits.packagesMax);

const HeldSchema = Type.Object({ task_id: id(), fence: int(0) });
/** An attempt that a worker says it holds. */
export type Held = Static<typeof HeldSchema>;
export const heldList = list(HeldSchema, limits.heldMax);

const registerRest = {
  payload_types: optional(words),
  packages: optional(packages),
  channels: optional(words),
  manifests: optional(manifests),
};

export const RegisterFirstSchema = Type.Object({
  capabilities: Type.Object({ concurrency, runtimes, features: words }),
  ...registerRest,
});

export const RegisterSchema = Type.Object({
  capabilities: Type.Object({
    concurrency,
    runtimes: optional(runtimes),
    features: optional(words),
    pool: optional(id("Pool this worker belongs to.")),
    tags: optional(map(name())),
  }),
  runtimes: optional(runtimes),
  features: optional(words),
  ...registerRest,
  boot_id: optional(id("New with every start of the worker process.")),
  running: optional(list(HeldSchema, limits.heldMax)),
  resources: optional(
    Type.Array(id(), {
      maxItems: limits.resourcesMax,
      description: "Every resource that results of this worker have named and that it still keeps; absent: it does not say.",
    }),
  ),
});

/** A register as everybody else sees it: runtimes and features sit in the capabilities and are never absent. */
export type Register = Omit<Static<typeof RegisterSchema>, "capabilities" | "runtimes" | "features"> & {
  capabilities: Static<typeof RegisterSchema>["capabilities"] & { runtimes: string[]; features: string[] };
};

/** v1 demands the package list. Its own schema also demanded `queues`, which it forbade; that demand is left out. */
export const RegisterV1Schema = Type.Object({
  capabilities: Type.Object({ concurrency, runtimes, features: words }),
  packages,
  channels: optional(words),
  manifests: optional(manifests),
});

const percent = (description?: string) => Type.Number({ minimum: 0, ...(description !== undefined && { description }) });

export const SessionAcceptFirstSchema = Type.Object({
  session_id: id(),
  session_token: Type.String({ minLength: 1, maxLength: limits.tokenCharsMax }),
  worker_instance_id: id(),
  expires_at: optional(instant()),
  resumed: optional(Type.Boolean()),
});

export const SessionAcceptSchema = Type.Object({
  ...SessionAcceptFirstSchema.properties,
  worker_instance_id: optional(id()),
  heartbeat_interval_ms: optional(int(1)),
  lease_ms: optional(int(1)),
  send_window: optional(int(1, limits.windowMax, "Frames the scheduler keeps in flight towards the worker.")),
  recv_window: optional(int(1, limits.windowMax, "Frames the worker may keep in flight towards the scheduler.")),
  features: optional(words),
  drain_mem_pct: optional(percent("Memory from which on the scheduler gives this worker nothing new.")),
  drain_disk_pct: optional(percent("The same for its disk.")),
});
export type SessionAccept = Static<typeof SessionAcceptSchema>;

export const ResumeFirstSchema = Type.Object({
  session_id: id(),
  session_token: Type.String({ minLength: 1, maxLength: limits.tokenCharsMax }),
  last_seen_seq: optional(int(0)),
});
export const ResumeSchema = Type.Object({
  ...ResumeFirstSchema.properties,
  last_seen_seq: optional(int(-1, undefined, "Highest contiguous number received; -1 is nothing.")),
  boot_id: optional(id()),
});
export type Resume = Static<typeof ResumeSchema>;

export const ResetSchema = Type.Object({ code: id(), reason: text(), retry_after_ms: optional(int(0)) });
export type Reset = Static<typeof ResetSchema>;

export const DrainSchema = Type.Object({ reason: optional(text()), deadline_ms: optional(int(0)) });
export type Drain = Static<typeof DrainSchema>;

/** Takes a drain back without a new session; only for workers that announce `undrain`. */
export const UndrainSchema = Type.Object({ reason: optional(text()) });
export type Undrain = Static<typeof UndrainSchema>;

const ackRest = { ok: optional(Type.Boolean()), for: optional(id()), info: optional(text()) };

export const AckFirstSchema = Type.Object({
  ...ackRest,
  ack_seq: optional(int(0, undefined, "Highest contiguous number received; 0 is nothing.")),
  ack_bitmap: optional(int(0)),
  recv_window: optional(int(1)),
});

export const AckSchema = Type.Object({
  ...ackRest,
  ack_seq: optional(int(-1, undefined, "Highest contiguous number received; -1 is nothing.")),
  ack_bitmap: optional(
    Type.Union([int(0), Type.String({ pattern: "^[0-9a-f]+$", maxLength: limits.bitmapHexCharsMax })], {
      description: "Bit i: number ack_seq + 1 + i was received. A number up to 53 bits, lowercase hex above.",
    }),
  ),
  recv_window: optional(int(1)),
});
export type Ack = Static<typeof AckSchema>;

/** v1 demands `ok`, yet its workers never sent it; absent reads as true. */
export const AckV1Schema = Type.Object({ ok: optional(Type.Boolean()), for: id(), info: optional(text()) });

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
      inflight: int(0),
      cpu_pct: optional(percent()),
      mem_pct: optional(percent()),
      disk_pct: optional(percent()),
      latency_ms: optional(int(0)),
    },
    { additionalProperties: true },
  ),
);

export const HeartbeatFirstSchema = Type.Object({
  healthy: Type.Boolean(),
  metrics,
  packages: optional(Type.Object({ drift: optional(Type.Boolean()) })),
});
export const HeartbeatSchema = Type.Object({
  ...HeartbeatFirstSchema.properties,
  packages: optional(
    Type.Object({
      drift: optional(Type.Boolean()),
      hash: optional(id("Digest of the installed packages and versions.")),
      installed: optional(packages),
    }),
  ),
  held: optional(heldList),
  draining: optional(Type.Boolean()),
});
export type Heartbeat = Static<typeof HeartbeatSchema>;

/** A register of any dialect in the words above. */
export function normaliseRegister(register: Static<typeof RegisterSchema>): Register {
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

/** v1's single id serves as label and as identity. */
export function normaliseHandshakeV1(handshake: Static<typeof HandshakeV1Schema>): Handshake {
  const { id: instance, ...worker } = handshake.worker;
  return { ...handshake, worker: { worker_name: instance, worker_instance_id: instance, ...worker } };
}
