// Whether a resume finds the session it asks for. The token is judged first and alone: whoever has none of ours, or not the key it is bound to,
// hears one answer whatever exists here. Only then the refusals follow in the order in which workers in the field know them. It changes nothing.

import { type Envelope, Fault, fault, type ResumePayload } from "@astraflow/protocol";
import type { SessionClaims, ShownCertificate } from "../gate.ts";
import type { Session } from "./session.ts";
import type { Surroundings } from "./surroundings.ts";

type Around = Pick<Surroundings, "book" | "gate" | "limits">;

/**
 * A session lives in the process that holds its window. Dialects whose gaps never fill, and a door that resumes nothing, answer as if
 * it were unknown, which leads every worker to a handshake and its inventory.
 */
export function findSession(
  first: Envelope,
  resume: ResumePayload,
  certificate: ShownCertificate | null,
  around: Around,
): Session | Fault {
  const claims = around.gate.read(resume.session_token);
  if (claims instanceof Fault) return claims;
  // A token that was taken along to another key is worth no more than a forged one, and told no more.
  if ((claims.cnf ?? null) !== (certificate?.thumbprint ?? null)) return notItsToken();
  const session = sessionOf(claims, around);
  if (session === undefined) return fault("E.SESSION.UNKNOWN", "no such session can be resumed here; send a new handshake");
  return refusal(first, resume, claims, session, around) ?? session;
}

/** Looked for by what the token says, never by what the frame says: nobody asks about a worker that is not their own. */
function sessionOf({ tenant, wid, sid, dialect }: SessionClaims, { book, limits }: Around): Session | undefined {
  if (limits.resumeMs === 0 || dialect !== "v2") return undefined;
  const session = book.of(`${tenant}/${wid}`) ?? book.find(sid);
  return session?.bound.dialect === "v2" ? session : undefined;
}

function refusal(
  first: Envelope,
  resume: ResumePayload,
  claims: SessionClaims,
  session: Session,
  { gate }: Around,
): Fault | null {
  const { bound, entrance } = session;
  if (first.tenant !== claims.tenant)
    return fault("E.SESSION.TENANT_MISMATCH", "the session belongs to another tenant than the frame says");
  if (entrance.jti === null) return fault("E.SESSION.NOT_REGISTERED", "the session of this worker was never accepted");
  if (session.id !== resume.session_id || first.sender.id !== claims.wid || first.sender.role !== "worker")
    return fault("E.SESSION.MISMATCH", "the session named is not the one of this worker");
  if (resume.boot_id !== undefined && resume.boot_id !== session.introduction.bootOf(bound))
    return fault("E.SESSION.MISMATCH", "the session belongs to another process of this worker");
  const isItsOwn = claims.sid === session.id && claims.wid === bound.instance && claims.tenant === bound.tenant;
  // Every accept ends the token before it: one that is shown again was copied, or its successor was lost on the way.
  if (!isItsOwn || claims.jti !== entrance.jti) return notItsToken();
  return gate.isGood(bound.admitted) ? null : fault("E.AUTH.INVALID_TOKEN", "the credential of this worker is no longer good");
}

/** In the words of a token that is no token of ours. */
const notItsToken = (): Fault => fault("E.SESSION.INVALID_TOKEN", "the session token is not valid here; send a new handshake");
