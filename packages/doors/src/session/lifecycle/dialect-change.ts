// A worker with protocol 1 shows its dialect in the middle of its session.

import { dialectRules } from "@astraflow/session";
import type { Session } from "./session.ts";
import { clampWindows, windowSizesFor } from "./session-context.ts";

/** Numbers, acks and the form of frames follow the dialect from here on. */
export function changeDialect(session: Session, dialect: "first" | "basic"): void {
  const { context, stream, writer, connection, inbound } = session;
  session.identity = { ...session.identity, dialect };
  session.origin = { ...session.origin, dialect };
  session.framePeer = { ...session.framePeer, dialect };
  session.windows = clampWindows(windowSizesFor(context, session.identity.tenant, false), dialect);
  stream.changeDialect(dialectRules[dialect]);
  writer.changeDialect(session.framePeer);
  connection?.bindTo(session.identity);
  inbound.handleDialectChange(dialect);
  session.log("info", "session.dialect", { dialect });
}
