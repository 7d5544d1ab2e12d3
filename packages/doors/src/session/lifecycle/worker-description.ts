// A worker describes itself again: a later register, or what a catalogue or a heartbeat has changed; and the command that updates the engine.

import { type Envelope, fault } from "@astraflow/protocol";
import { controlFrameTag } from "../frames/work-frames.ts";
import { Registration } from "../registration/registration.ts";
import type { Session } from "./session.ts";
import { postDescription, reconcileResources } from "./session-join.ts";

/** A register in a session that is live, or a repeat of the first one. */
export function handleRegister(session: Session, envelope: Envelope, bytes: number): void {
  if (envelope.id === session.join.registerFrameId) {
    // Before the join is stored the ack must not leave; then it leaves anyway.
    if (session.phase === "live") session.stream.queueNamedAck(envelope.id);
    return;
  }
  if (session.phase !== "live")
    return session.reset(fault("E.FRAME.INVALID", "register again only once the session is accepted"), envelope);
  const register = session.readOrReset("control.register", envelope);
  if (register === null) return;
  // A register replaces the description; an earlier catalogue stays only where the register lists no packages.
  const listsPackages = register.packages !== undefined || register.manifests !== undefined;
  session.registration = new Registration(
    register,
    session.identity.dialect,
    listsPackages ? null : session.registration.catalog,
  );
  session.recordManifests(register.manifests ?? []);
  reconcileResources(session);
  postDescription(session, controlFrameTag(envelope, bytes));
}
