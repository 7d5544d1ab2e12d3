// Checks the handshake of a worker: its first frame, its credentials, and the identity that its connection is bound to.

import { type Dialect, detectDialect, type Envelope, Fault, fault } from "@astraflow/protocol";
import type { ServiceEnvironment } from "@astraflow/services";
import type { PeerCertificate } from "../../auth/certificates.ts";
import { SessionPublicKey } from "../../auth/session-proof.ts";
import type { AuthenticatedWorker, WorkerAuthenticator } from "../../auth/worker-authenticator.ts";
import { hasFrameCounter, type RestartDetector } from "../frames/older-dialects.ts";
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
  /** Whose holder alone may resume the session; null where the worker brought none. */
  readonly sessionKey: SessionPublicKey | null;
  /** For dialects without a boot id: a fresh one when the frame shows a new process, else null. */
  readonly freshBootId: string | null;
  /** Nothing in the handshake tells a new process from the one before. */
  readonly isProcessUnknown: boolean;
  /** The worker numbers control frames too. */
  readonly isHandshakeNumbered: boolean;
}

export function authenticateHandshake(
  first: Envelope,
  certificate: PeerCertificate | null,
  context: {
    readonly authenticator: WorkerAuthenticator;
    readonly environment: ServiceEnvironment;
    readonly restartDetector: RestartDetector;
  },
): HandshakeIdentity | Fault {
  const dialect = detectDialect(first);
  if (dialect === undefined)
    return fault("E.AUTH.HANDSHAKE_REQUIRED", "the first frame of a connection must be a handshake or control.resume");
  const handshake = readFramePayload({ dialect }, "control.handshake", first);
  if (handshake instanceof Fault) return handshake;
  const { auth } = handshake;
  const { worker_name, worker_instance_id, version, hostname } = handshake.worker;
  const { tenant, sender } = first;
  const instance = worker_instance_id ?? sender.id;
  const credentials = { tenant, instance, mode: auth.mode, token: auth.token ?? null, certificate };
  const authenticated = context.authenticator.authenticate(credentials);
  if (authenticated instanceof Fault) return authenticated;
  // The same answer as for a wrong token: it must not reveal what exists.
  if (authenticated.tenant !== tenant) return fault("E.AUTH.INVALID_TOKEN", "the token is not valid for this tenant");
  if (sender.role !== "worker" || sender.id !== instance)
    return fault("E.SESSION.TENANT_MISMATCH", "sender must be the worker that the handshake names");
  // Only workers of this protocol know what a key is for.
  const { session_key } = handshake;
  const sessionKey = dialect === "v2" && session_key !== undefined ? new SessionPublicKey(session_key) : null;
  const worker = `${tenant}/${instance}`;
  const isNewProcess = dialect !== "v2" && context.restartDetector.isRestart(worker, first);
  const isProcessUnknown = dialect === "v2" || !hasFrameCounter(first);
  return {
    tenant,
    instance,
    worker,
    dialect,
    displayInfo: { name: worker_name || instance, version, hostname },
    handshakeFrameId: first.id,
    authenticated,
    sessionKey,
    freshBootId: isNewProcess ? context.environment.ids.next() : null,
    isProcessUnknown,
    isHandshakeNumbered: first.seq !== undefined,
  };
}
