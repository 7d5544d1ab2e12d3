// A session that goes on over a new socket while an older one still looks open.

import { fault } from "@astraflow/protocol";
import type { SessionConnection } from "../connection/session-connection.ts";
import type { Session } from "./session.ts";

/** Close reason of the older socket; workers in the field expect exactly this text. */
const supersededReason = "superseded session";

/**
 * Usually the worker has lost its socket and we have not noticed yet; a session with a key proves that. Without one it may also be somebody else with
 * a copy of the token: whoever is at the older socket is told, and the audit keeps both addresses.
 */
export function endFormerSocket(session: Session, former: SessionConnection, { socket }: SessionConnection): void {
  const { tenant, instance, sessionKey, authenticated } = session.identity;
  const addresses = { address: socket.address, formerAddress: former.socket.address };
  session.log("info", "session.takeover", { ...addresses, isProven: sessionKey !== null });
  if (sessionKey !== null) return former.close(supersededReason);
  const { code, message } = fault("E.SESSION.SUPERSEDED", "this session was resumed on another connection");
  former.sendReset(session.writer.encodeRefusal(code, message, {}), supersededReason);
  const data = { ...addresses, session: session.id };
  const audit = { action: "worker.session.takeover", targetType: "worker", target: instance, outcome: "ok", data };
  session.notify({ type: "docs.write", tenant, by: authenticated.user, corr: session.id, puts: [], audit });
}
