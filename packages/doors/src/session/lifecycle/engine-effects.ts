// Routes the engine's effects to the sessions they are for: dispatches, stops, answers, commands, vendors' frames, resets and drains.

import type {
  SendDispatch,
  SendDrain,
  SendNextAnswer,
  SendReset,
  SendStop,
  SendVendorFrame,
  SendWorkerCommand,
} from "@astraflow/engine";
import { fault } from "@astraflow/protocol";
import type { EngineClient, ServiceEnvironment } from "@astraflow/services";
import { toPublicFault } from "../../engine-client/public-fault.ts";
import { frameBytesMaxOf } from "./outbound-frames.ts";
import type { Session } from "./session.ts";
import type { SessionRegistry } from "./session-registry.ts";

/** The returned functions end the subscriptions. */
export function subscribeToEffects(engineClient: EngineClient, registry: SessionRegistry): (() => void)[] {
  const route = <E extends { session: string }>(effect: E, handle: (session: Session, effect: E) => void): void => {
    const session = registry.findById(effect.session);
    // Otherwise the session has ended meanwhile, and its leave is on the way to the engine.
    if (session !== undefined) session.run(() => handle(session, effect));
  };
  return [
    engineClient.on("dispatch", (effect) => route(effect, handleDispatch)),
    engineClient.on("stop", (effect) => route(effect, handleStop)),
    engineClient.on("next", (effect) => route(effect, handleNextAnswer)),
    engineClient.on("order", (effect) => route(effect, handleCommand)),
    engineClient.on("tell", (effect) => route(effect, handleVendorFrame)),
    engineClient.on("reset", (effect) => route(effect, handleReset)),
    engineClient.on("drain", (effect) => route(effect, handleDrain)),
  ];
}

const handleNextAnswer = ({ outbound }: Session, answer: SendNextAnswer): void => outbound.enqueueNextResponse(answer);
const handleCommand = ({ outbound }: Session, command: SendWorkerCommand): void => outbound.enqueueCommand(command);

function handleDispatch(session: Session, send: SendDispatch): void {
  const { outbound, context } = session;
  // The engine repeats a dispatch whose resources are still being looked up: only one of them leaves.
  if (outbound.isAwaitingResources(send.dispatch)) return;
  const manifest = session.registration.manifestOf(send.dispatch.packageName, send.dispatch.packageVersion);
  const isDeferred = context.dispatchResources?.bind(send, manifest, (boundDispatch) =>
    session.run(() => {
      if (outbound.finishAwaiting(send.dispatch)) enqueueDispatch(session, boundDispatch);
    }),
  );
  if (isDeferred === true) outbound.awaitResources(send.dispatch);
  else enqueueDispatch(session, send);
}

/** It gets its number only as it leaves: one that is withdrawn before leaves no gap. */
function enqueueDispatch(session: Session, send: SendDispatch): void {
  if (session.isEnded) return;
  const { run, task, fence } = send.dispatch;
  const { worker, dialect } = session.identity;
  const runSeq = dialect === "v2" ? undefined : session.context.runSequence.assignNumber(run, fence, worker);
  session.chainAttempts.add(send.dispatch);
  if (session.outbound.enqueueDispatch(send, runSeq)) return;
  const message = `the parameters and their bound resources exceed the limit of ${frameBytesMaxOf(dialect)} bytes for this worker's protocol`;
  session.notify({ type: "task.error", ...session.sender, task, fence, code: "E.FRAME.TOO_LARGE", message });
}

function handleStop({ chainAttempts, outbound }: Session, stop: SendStop): void {
  chainAttempts.remove(stop.task);
  outbound.enqueueStop(stop);
}

function handleVendorFrame(session: Session, vendorFrame: SendVendorFrame): void {
  const { payload, type, id } = vendorFrame.frame;
  const { waitingBytes } = session.stream.counts;
  // v1 has no vendors' frames; and where the worker does not read, they would fill memory.
  if (session.identity.dialect === "v1" || waitingBytes + payload.length > session.context.limits.waitingBytesMax)
    return session.log("warn", "session.untold", { type, id });
  session.outbound.enqueueVendorFrame(vendorFrame);
}

function handleReset(session: Session, effect: SendReset): void {
  const { code, message } = toPublicFault({ code: effect.code, message: effect.reason });
  session.reset(fault(code, message));
}

/** A worker that is not connected is told when it joins again. */
function handleDrain(session: Session, { on, reason }: SendDrain): void {
  const { connection } = session;
  if (session.phase !== "live" || connection === null) return;
  if (on || session.registration.features.has("undrain")) return session.outbound.sendDrain(connection, on, reason);
  // Workers of v1 and of the first generation take work while they drain. Others take work again after a new handshake.
  const { dialect } = session.identity;
  if (dialect !== "v1" && dialect !== "first")
    session.reset(fault("E.SESSION.UNKNOWN", "the drain has ended; send a new handshake"));
}

/** Logs what the engine finds out about workers: late, lost, strained, full, cloned, and recovered. The returned function ends that. */
export function logWorkerEvents(engineClient: EngineClient, environment: ServiceEnvironment): () => void {
  return engineClient.on("worker", ({ tenant, worker, event, isRecovery, data }) => {
    const sender = { id: worker.slice(tenant.length + 1) };
    environment.log({ ...data, level: isRecovery ? "info" : "warn", event, tenant, sender });
  });
}
