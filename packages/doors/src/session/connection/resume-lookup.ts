// Whether a resume finds the session it asks for. The token is judged first and alone: whoever has none of ours, or not the key it is bound to,
// hears one answer whatever exists here. Only then the refusals follow in the order in which workers in the field know them. It changes nothing.

import { type Envelope, Fault, fault, type ResumePayload } from "@astraflow/protocol";
import type { PeerCertificate, SessionTokenClaims } from "../../auth/worker-authenticator.ts";
import type { Session } from "../lifecycle/session.ts";
import type { SessionContext } from "../lifecycle/session-context.ts";

type ResumeContext = Pick<SessionContext, "registry" | "authenticator" | "limits">;

/**
 * A session lives in the process that holds its window. Dialects whose gaps never fill, and a door that resumes nothing, answer as if
 * it were unknown, which leads every worker to a handshake and its inventory.
 */
export function findResumableSession(
  first: Envelope,
  resume: ResumePayload,
  certificate: PeerCertificate | null,
  context: ResumeContext,
): Session | Fault {
  const claims = context.authenticator.readSessionToken(resume.session_token);
  if (claims instanceof Fault) return claims;
  // A token that was taken along to another key is worth no more than a forged one, and told no more.
  if ((claims.cnf ?? null) !== (certificate?.thumbprint ?? null)) return invalidTokenFault();
  const session = sessionForClaims(claims, context);
  if (session === undefined) return fault("E.SESSION.UNKNOWN", "no such session can be resumed here; send a new handshake");
  return resumeFault(first, resume, claims, session, context) ?? session;
}

/** Looked for by what the token says, never by what the frame says: nobody asks about a worker that is not their own. */
function sessionForClaims(
  { tenant, wid, sid, dialect }: SessionTokenClaims,
  { registry, limits }: ResumeContext,
): Session | undefined {
  if (limits.resumeTimeoutMs === 0 || dialect !== "v2") return undefined;
  const session = registry.findByWorker(`${tenant}/${wid}`) ?? registry.findById(sid);
  return session?.identity.dialect === "v2" ? session : undefined;
}

function resumeFault(
  first: Envelope,
  resume: ResumePayload,
  claims: SessionTokenClaims,
  session: Session,
  { authenticator }: ResumeContext,
): Fault | null {
  const { identity, handshake } = session;
  if (first.tenant !== claims.tenant)
    return fault("E.SESSION.TENANT_MISMATCH", "the session belongs to another tenant than the frame says");
  if (handshake.jti === null) return fault("E.SESSION.NOT_REGISTERED", "the session of this worker was never accepted");
  if (session.id !== resume.session_id || first.sender.id !== claims.wid || first.sender.role !== "worker")
    return fault("E.SESSION.MISMATCH", "the session named is not the one of this worker");
  if (resume.boot_id !== undefined && resume.boot_id !== session.registration.bootIdFor(identity))
    return fault("E.SESSION.MISMATCH", "the session belongs to another process of this worker");
  const isOwnToken = claims.sid === session.id && claims.wid === identity.instance && claims.tenant === identity.tenant;
  // Every accept ends the token before it: one that is shown again was copied, or its successor was lost on the way.
  if (!isOwnToken || claims.jti !== handshake.jti) return invalidTokenFault();
  return authenticator.isStillValid(identity.authenticated)
    ? null
    : fault("E.AUTH.INVALID_TOKEN", "the credential of this worker is no longer good");
}

/** In the words of a token that is no token of ours. */
const invalidTokenFault = (): Fault =>
  fault("E.SESSION.INVALID_TOKEN", "the session token is not valid here; send a new handshake");
