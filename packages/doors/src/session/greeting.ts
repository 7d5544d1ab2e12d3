// The first word of a connection, whether it may speak at all, and what it is told once it may work. Pure, apart from asking the token book.

import type { AnswerBody } from "@astraflow/engine";
import { dialectOf, type Envelope, Fault, fault, type Handshake, readPayload, type SessionAccept } from "@astraflow/protocol";
import type { Authenticate, Sign } from "../identity.ts";
import type { Outside } from "../outside.ts";
import type { SessionLimits } from "./limits.ts";

/** Who a connection is bound to from its handshake on. */
export interface Bound {
  readonly tenant: string;
  readonly instance: string;
  readonly worker: string;
  readonly handshake: Handshake;
}

export function greet(first: Envelope, authenticate: Authenticate): Bound | Fault {
  if (first.type === "control.resume") return fault("E.SESSION.UNKNOWN", "no session can be resumed here; send a new handshake");
  const dialect = dialectOf(first);
  if (dialect === undefined)
    return fault("E.AUTH.HANDSHAKE_REQUIRED", "the first frame of a connection must be control.handshake");
  if (dialect !== "v2")
    return fault("E.SESSION.DENIED", "this scheduler speaks session protocol 2 only; set protocol to 2 in the handshake", {
      dialect,
    });
  const handshake = readPayload("v2", "control.handshake", first.payload);
  if (handshake instanceof Fault) return handshake;
  return bind(first, handshake, authenticate);
}

function bind(first: Envelope, handshake: Handshake, authenticate: Authenticate): Bound | Fault {
  const { auth, worker } = handshake;
  if (auth.mode !== "token") return fault("E.AUTH.MODE_UNSUPPORTED", `auth mode ${auth.mode} is not offered here; use token`);
  if (auth.token === undefined || auth.token === "") return fault("E.AUTH.MISSING_TOKEN", "auth.token is missing");
  const identity = authenticate(auth.token, first.tenant);
  // A valid token of another tenant answers exactly as a wrong one: neither tells what exists.
  if (identity === null || identity.tenant !== first.tenant)
    return fault("E.AUTH.INVALID_TOKEN", "the token is not valid for this tenant");
  if (!identity.grants.includes("worker")) return fault("E.SESSION.DENIED", "this token may not open worker sessions");
  const instance = worker.worker_instance_id ?? first.sender.id;
  if (first.sender.role !== "worker" || first.sender.id !== instance)
    return fault("E.SESSION.TENANT_MISMATCH", "sender must be the worker that the handshake names");
  return { tenant: identity.tenant, instance, worker: `${identity.tenant}/${instance}`, handshake };
}

/** Every later frame must come from whom the first one came from. */
export function isBound(bound: Bound, envelope: Envelope): boolean {
  return envelope.tenant === bound.tenant && envelope.sender.id === bound.instance && envelope.sender.role === "worker";
}

/** Extensions of the protocol that this door uses with workers that announce them. */
const sessionFeatures = ["fence", "cancel", "held", "batch"];

/** What a worker needs to know of its session: its name, its token, its lease, both windows, and what both ends understand. */
export function acceptance(
  bound: Bound,
  session: string,
  granted: Extract<AnswerBody, { of: "join" }>,
  announced: ReadonlySet<string>,
  around: { readonly sign: Sign; readonly outside: Outside; readonly limits: SessionLimits },
): SessionAccept {
  const { clock, ids } = around.outside;
  const now = clock.now();
  const expiresAt = now + around.limits.tokenMs;
  const features = sessionFeatures.filter((feature) => announced.has(feature));
  const times = { iat: Math.floor(now / 1000), exp: Math.floor(expiresAt / 1000) };
  return {
    session_id: session,
    session_token: around.sign({ sid: session, wid: bound.instance, tenant: bound.tenant, ...times, jti: ids.next() }),
    worker_instance_id: bound.instance,
    expires_at: new Date(expiresAt).toISOString(),
    resumed: false,
    heartbeat_interval_ms: granted.heartbeatMs,
    lease_ms: granted.leaseMs,
    send_window: around.limits.sendWindow,
    recv_window: around.limits.recvWindow,
    // Workers that announced nothing of ours are told nothing they do not know.
    ...(features.length > 0 && { features }),
  };
}
