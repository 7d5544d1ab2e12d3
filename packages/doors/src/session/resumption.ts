// Whether a resume finds the session it asks for, in the order in which workers in the field know the refusals. It changes nothing.

import { type Envelope, Fault, fault, type Resume } from "@astraflow/protocol";
import type { ShownCertificate } from "../gate.ts";
import type { Session } from "./session.ts";
import type { Surroundings } from "./surroundings.ts";

/**
 * A session lives in the process that holds its window. Dialects whose gaps never fill, and a door that resumes nothing, answer as if
 * it were unknown, which leads every worker to a handshake and its inventory.
 */
export function findSession(
  first: Envelope,
  resume: Resume,
  certificate: ShownCertificate | null,
  around: Pick<Surroundings, "book" | "gate" | "limits">,
): Session | Fault {
  const { book, gate, limits } = around;
  const named = book.find(resume.session_id);
  const session = book.of(`${first.tenant}/${first.sender.id}`) ?? named;
  if (session === undefined || limits.resumeMs === 0 || session.bound.dialect !== "v2")
    return fault("E.SESSION.UNKNOWN", "no such session can be resumed here; send a new handshake");
  if (session.bound.tenant !== first.tenant)
    return fault("E.SESSION.TENANT_MISMATCH", "the session belongs to another tenant than the frame says");
  if (session.entrance.jti === null) return fault("E.SESSION.NOT_REGISTERED", "the session of this worker was never accepted");
  if (session !== named || session.bound.instance !== first.sender.id || first.sender.role !== "worker")
    return fault("E.SESSION.MISMATCH", "the session named is not the one of this worker");
  const { boot } = session.introduction.join(session.bound, session.id);
  if (resume.boot_id !== undefined && resume.boot_id !== boot)
    return fault("E.SESSION.MISMATCH", "the session belongs to another process of this worker");
  const claims = gate.read(resume.session_token);
  if (claims instanceof Fault) return claims;
  const { bound } = session;
  const isItsOwn =
    claims.sid === session.id &&
    claims.wid === bound.instance &&
    claims.tenant === bound.tenant &&
    claims.dialect === bound.dialect;
  const isSameKey = (claims.cnf ?? null) === (certificate?.thumbprint ?? null);
  // Every accept ends the token before it: one that is shown again was copied, or its successor was lost on the way.
  if (!isItsOwn || !isSameKey || claims.jti !== session.entrance.jti)
    return fault("E.SESSION.INVALID_TOKEN", "the session token is not the one of this session; send a new handshake");
  if (!gate.isGood(bound.admitted)) return fault("E.AUTH.INVALID_TOKEN", "the credential of this worker is no longer good");
  return session;
}
