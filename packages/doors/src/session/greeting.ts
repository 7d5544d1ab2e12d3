// The first word of a connection, whether it may speak at all, and what it is told once it may work. Pure, apart from asking the gate.

import type { AnswerBody } from "@astraflow/engine";
import { type Dialect, detectDialect, type Envelope, Fault, fault, type SessionAcceptPayload } from "@astraflow/protocol";
import type { AdmittedWorker, Gate, IssuedToken, ShownCertificate } from "../gate.ts";
import type { Outside } from "../outside.ts";
import type { FrameCounters } from "./frame-counters.ts";
import { readAs } from "./words.ts";

/** Who a connection is bound to from its handshake on. */
export interface Bound {
  readonly tenant: string;
  readonly instance: string;
  readonly worker: string;
  readonly dialect: Dialect;
  /** What it calls itself and where it runs: shown to people, never compared. No more of the handshake is kept, least of all its token. */
  readonly label: { readonly name: string; readonly version: string; readonly hostname: string };
  /** Id of the handshake's frame: the older workers repeat it until it is acked. */
  readonly greeting: string;
  readonly admitted: AdmittedWorker;
  /** For dialects without a boot id: a fresh one when the frame shows a new process, else null. */
  readonly boot: string | null;
}

export function greet(
  first: Envelope,
  certificate: ShownCertificate | null,
  around: { readonly gate: Gate; readonly outside: Outside; readonly frameCounters: FrameCounters },
): Bound | Fault {
  const dialect = detectDialect(first);
  if (dialect === undefined)
    return fault("E.AUTH.HANDSHAKE_REQUIRED", "the first frame of a connection must be a handshake or control.resume");
  const handshake = readAs({ dialect }, "control.handshake", first);
  if (handshake instanceof Fault) return handshake;
  const { auth } = handshake;
  const instance = handshake.worker.worker_instance_id ?? first.sender.id;
  const { tenant, sender } = first;
  const admitted = around.gate.admit({ tenant, instance, mode: auth.mode, token: auth.token ?? null, certificate });
  if (admitted instanceof Fault) return admitted;
  // A valid token of another tenant answers exactly as a wrong one: neither tells what exists.
  if (admitted.tenant !== tenant) return fault("E.AUTH.INVALID_TOKEN", "the token is not valid for this tenant");
  if (sender.role !== "worker" || sender.id !== instance)
    return fault("E.SESSION.TENANT_MISMATCH", "sender must be the worker that the handshake names");
  const worker = `${tenant}/${instance}`;
  const isNewProcess = dialect !== "v2" && around.frameCounters.restarts(worker, first.id);
  const boot = isNewProcess ? around.outside.ids.next() : null;
  const { worker_name, version, hostname } = handshake.worker;
  const label = { name: worker_name || instance, version, hostname };
  return { tenant, instance, worker, dialect, label, greeting: first.id, admitted, boot };
}

/** Every later frame must come from whom the first one came from. */
export function isBound(bound: Bound, envelope: Envelope): boolean {
  return envelope.tenant === bound.tenant && envelope.sender.id === bound.instance && envelope.sender.role === "worker";
}

/** Extensions of the protocol that this door uses with workers that announce them. */
const sessionFeatures = ["fence", "cancel", "held", "batch", "wide", "undrain", "renew", "resources"];

/** What a worker needs to know of its session: its name, its token, its lease, both windows, and what both ends understand. */
export function acceptance(of: {
  readonly bound: Bound;
  readonly session: string;
  readonly token: IssuedToken;
  readonly isResumed: boolean;
  readonly granted: Extract<AnswerBody, { of: "join" }>;
  readonly announced: ReadonlySet<string>;
  readonly windows: { readonly send: number; readonly recv: number };
}): SessionAcceptPayload {
  const features = sessionFeatures.filter((feature) => of.announced.has(feature));
  return {
    session_id: of.session,
    session_token: of.token.token,
    worker_instance_id: of.bound.instance,
    expires_at: new Date(of.token.expiresAt).toISOString(),
    resumed: of.isResumed,
    heartbeat_interval_ms: of.granted.heartbeatMs,
    lease_ms: of.granted.leaseMs,
    send_window: of.windows.send,
    recv_window: of.windows.recv,
    drain_mem_pct: of.granted.drainMemPct,
    drain_disk_pct: of.granted.drainDiskPct,
    // Workers that announced nothing of ours are told nothing they do not know.
    ...(features.length > 0 && { features }),
  };
}
