// Frames in which a worker describes itself: its register, its package catalogue, its inventory; and the command that updates the engine.

import { type Envelope, Fault, fault } from "@astraflow/protocol";
import { type DeliveryTag, fillerFrameType } from "@astraflow/session";
import { controlFrameTag, type InboundWorkFrame, readFramePayload } from "../frames/work-frames.ts";
import { Registration } from "../registration/registration.ts";
import type { Session } from "./session.ts";
import { reconcileResources, startJoin } from "./session-join.ts";

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
  session.registration = new Registration(register, listsPackages ? null : session.registration.catalog);
  session.recordManifests(register.manifests ?? []);
  reconcileResources(session);
  postDescription(session, controlFrameTag(envelope, bytes));
}

/** A work frame before the join: it completes what the register left out. The fault, where its payload is invalid. */
export function handleInventory(session: Session, { type, envelope, tag }: InboundWorkFrame): Fault | null {
  const { registration, join, identity } = session;
  const { unnumberedMax, wideRecvWindow } = session.context.limits;
  if (type === "biz.pkg.catalog") {
    const catalog = readFramePayload(identity, type, envelope);
    if (catalog instanceof Fault) return catalog;
    registration.replaceCatalog(catalog);
    session.recordManifests(catalog.packages);
  } else if (type === "biz.exec.inventory") {
    const inventory = readFramePayload(identity, type, envelope);
    if (inventory instanceof Fault) return inventory;
    registration.recordInventory(inventory);
  } else if (type !== fillerFrameType) {
    session.reset(fault("E.SESSION.NOT_REGISTERED", "catalogue and inventory must come before other work frames"), envelope);
    return null;
  }
  if (join.tagsToSettle.push(tag) > unnumberedMax + wideRecvWindow)
    session.reset(fault("E.OVERLOADED", "too many frames before the inventory is complete"));
  else if (registration.isComplete(identity)) startJoin(session);
  return null;
}

/** The frame is acknowledged once the engine has stored the description. */
export function postDescription(session: Session, tag: DeliveryTag): void {
  if (session.hasTooManyUnanswered("descriptions")) return;
  const why = session.registration.sizeFault(session.identity);
  if (why !== null) return session.reset(why);
  session.countUnanswered(tag, 1);
  session.post(session.registration.buildDescribe(session.identity, session.origin), (_body, refusal) => {
    session.countUnanswered(tag, -1);
    if (session.isEnded) return;
    if (refusal === null) return session.stream.settle(tag);
    session.context.metrics.refused(session.identity.tenant, refusal.code);
    session.resetWithFault(refusal);
  });
}
