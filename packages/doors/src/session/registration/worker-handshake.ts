// Checks the handshake of a worker, and builds the accept that its session begins with.

import type { AnswerBody } from "@astraflow/engine";
import { type Dialect, detectDialect, type Envelope, Fault, fault, type SessionAcceptPayload } from "@astraflow/protocol";
import type { PeerCertificate } from "../../auth/certificates.ts";
import type { IssuedSessionToken } from "../../auth/session-tokens.ts";
import type { AuthenticatedWorker, WorkerAuthenticator } from "../../auth/worker-authenticator.ts";
import type { DoorEnvironment } from "../../environment/door-environment.ts";
import type { RestartDetector } from "../frames/older-dialects.ts";
import { readFramePayload } from "../frames/work-frames.ts";

/** The worker that a connection is bound to from its handshake on. */
export interface HandshakeIdentity {
  readonly tenant: string;
  readonly instance: string;
  readonly worker: string;
  readonly dialect: Dialect;
  /** Shown to people, never compared. Nothing else of the handshake is stored, least of all its token. */
  readonly displayInfo: { readonly name: string; readonly version: string; readonly hostname: string };
  /** Id of the handshake's frame: the older workers repeat it until it is acked. */
  readonly handshakeFrameId: string;
  readonly authenticated: AuthenticatedWorker;
  /** For dialects without a boot id: a fresh one when the frame shows a new process, else null. */
  readonly freshBootId: string | null;
}

export function authenticateHandshake(
  first: Envelope,
  certificate: PeerCertificate | null,
  context: {
    readonly authenticator: WorkerAuthenticator;
    readonly environment: DoorEnvironment;
    readonly restartDetector: RestartDetector;
  },
): HandshakeIdentity | Fault {
  const dialect = detectDialect(first);
  if (dialect === undefined)
    return fault("E.AUTH.HANDSHAKE_REQUIRED", "the first frame of a connection must be a handshake or control.resume");
  const handshake = readFramePayload({ dialect }, "control.handshake", first);
  if (handshake instanceof Fault) return handshake;
  const { auth } = handshake;
  const instance = handshake.worker.worker_instance_id ?? first.sender.id;
  const { tenant, sender } = first;
  const admitted = context.authenticator.authenticate({
    tenant,
    instance,
    mode: auth.mode,
    token: auth.token ?? null,
    certificate,
  });
  if (admitted instanceof Fault) return admitted;
  // A valid token of another tenant answers exactly as a wrong one: neither tells what exists.
  if (admitted.tenant !== tenant) return fault("E.AUTH.INVALID_TOKEN", "the token is not valid for this tenant");
  if (sender.role !== "worker" || sender.id !== instance)
    return fault("E.SESSION.TENANT_MISMATCH", "sender must be the worker that the handshake names");
  const worker = `${tenant}/${instance}`;
  const isNewProcess = dialect !== "v2" && context.restartDetector.isRestart(worker, first.id);
  const boot = isNewProcess ? context.environment.ids.next() : null;
  const { worker_name, version, hostname } = handshake.worker;
  const label = { name: worker_name || instance, version, hostname };
  return {
    tenant,
    instance,
    worker,
    dialect,
    displayInfo: label,
    handshakeFrameId: first.id,
    authenticated: admitted,
    freshBootId: boot,
  };
}

/** Extensions of the protocol that this door uses with workers that announce them. */
const supportedFeatures = ["fence", "cancel", "held", "batch", "wide", "undrain", "renew", "resources"];

/** What a worker needs to know of its session: id, token, lease, windows, and the features that both ends support. */
export function buildAccept(from: {
  readonly identity: HandshakeIdentity;
  readonly session: string;
  readonly token: IssuedSessionToken;
  readonly isResumed: boolean;
  readonly joinAnswer: Extract<AnswerBody, { of: "join" }>;
  readonly announced: ReadonlySet<string>;
  readonly windows: { readonly send: number; readonly recv: number };
}): SessionAcceptPayload {
  const features = supportedFeatures.filter((feature) => from.announced.has(feature));
  return {
    session_id: from.session,
    session_token: from.token.token,
    worker_instance_id: from.identity.instance,
    expires_at: new Date(from.token.expiresAt).toISOString(),
    resumed: from.isResumed,
    heartbeat_interval_ms: from.joinAnswer.heartbeatMs,
    lease_ms: from.joinAnswer.leaseMs,
    send_window: from.windows.send,
    recv_window: from.windows.recv,
    drain_mem_pct: from.joinAnswer.drainMemPct,
    drain_disk_pct: from.joinAnswer.drainDiskPct,
    // Workers that announced no features do not know this field.
    ...(features.length > 0 && { features }),
  };
}
