// What a worker's words about its work lead to: told to the engine, taken by the door itself, or refused. None of them ends a session.
// In which order they come, and that they come once, is inbound-frames.ts; what they say is read in words.ts.

import type { Command, FaultData } from "@astraflow/engine";
import type { Envelope, Fault, NextRequestPayload, PkgEventPayload } from "@astraflow/protocol";
import { type DeliveryTag, fillerFrameType } from "@astraflow/session";
import { toPublicFault } from "../../engine-client/public-fault.ts";
import { salvageInvalidFrame } from "../frames/invalid-frames.ts";
import { toPackageOperation } from "../frames/package-operation.ts";
import type { UnansweredFrame } from "../frames/unanswered-frames.ts";
import { type ParsedWorkFrame, taskFromCorr, toNextCommand, toPackageCommand } from "../frames/work-frames.ts";
import type { Session } from "./session.ts";
import { frameLogFields, type SessionContext } from "./session-context.ts";

export class WorkFrameHandler {
  readonly #session: Session;
  readonly #context: SessionContext;

  constructor(session: Session, context: SessionContext) {
    this.#session = session;
    this.#context = context;
  }

  handle(parsed: Exclude<ParsedWorkFrame, { of: "catalog" }>, type: string, envelope: Envelope, tag: DeliveryTag): void {
    const session = this.#session;
    switch (parsed.of) {
      case "commands":
        return this.postCommands(parsed.commands, tag);
      case "package":
        return this.#handlePackageEvent(parsed.event, envelope, tag);
      case "error":
        session.log("warn", "session.error", {
          ...frameLogFields(envelope),
          code: parsed.error.code,
          message: parsed.error.message.slice(0, 500),
        });
        return session.stream.settle(tag);
      case "gap":
        session.log("warn", "session.missing", { ...frameLogFields(envelope), code: parsed.error.code });
        session.stream.settle(tag);
        return session.resendAll();
      case "next":
        return this.#handleNextRequest(parsed.request, envelope, tag);
      case "vendor":
        return this.#handleVendorFrame(type, envelope, parsed.payload, tag);
      case "unknown":
        return this.refuseUnknown(envelope, tag);
    }
  }

  #handlePackageEvent(event: PkgEventPayload, envelope: Envelope, tag: DeliveryTag): void {
    const session = this.#session;
    const { op, status } = toPackageOperation(event);
    this.#context.metrics.packageOp(session.identity.tenant, op, status);
    session.log("info", "session.package", {
      ...frameLogFields(envelope),
      package: event.name,
      version: event.version,
      status: event.status,
    });
    this.postCommands([toPackageCommand(session.origin, event)], tag);
  }

  /** Whoever asks waits for the answer: one that the engine never hears of, or will not hear, is answered here. */
  #handleNextRequest(request: NextRequestPayload, envelope: Envelope, tag: DeliveryTag): void {
    const session = this.#session;
    const { runId, middlewareId, nodeId } = request;
    const named = taskFromCorr(envelope.corr, session.identity.dialect);
    const held = session.chainAttempts.find(runId, [middlewareId, nodeId], request.task_id ?? named);
    const command = toNextCommand(session.origin, request, envelope.corr, held);
    if (command !== null) return this.postCommands([command], tag, undefined, request);
    this.#refuseNextRequest(request, {
      code: "next_no_chain",
      message: `node ${middlewareId} of run ${runId} is in no chain here`,
    });
    session.stream.settle(tag);
  }

  #refuseNextRequest({ requestId, runId, middlewareId }: NextRequestPayload, error: { code: string; message: string }): void {
    const { tenant, worker, session } = this.#session.origin;
    const names = { tenant, worker, session, run: runId, task: "", node: middlewareId, request: requestId };
    this.#session.outbound.enqueueNextResponse({ type: "next", ...names, result: null, error, trace: {} });
  }

  #handleVendorFrame(type: string, envelope: Envelope, payload: object, tag: DeliveryTag): void {
    const session = this.#session;
    if (type === fillerFrameType) return session.stream.settle(tag);
    const { tenant, worker, instance } = session.identity;
    const { id, corr } = envelope;
    const isTaken = this.#context.extensions?.publish({ tenant, worker, instance, type, id, corr, payload }) === true;
    if (isTaken) return session.stream.settle(tag);
    this.refuseUnknown(envelope, tag);
  }

  /** A payload that does not fit costs its own frame and the attempt it names, never the session: the worker's other work goes on. */
  handleInvalid(type: string, envelope: Envelope, tag: DeliveryTag, why: Fault): void {
    if (why.code === "E.CMD.UNKNOWN") return this.refuseUnknown(envelope, tag);
    const session = this.#session;
    const { commands, reason } = salvageInvalidFrame(session.origin, type, envelope, why);
    this.#context.metrics.refused(session.identity.tenant, why.code);
    session.log("warn", "session.misfit", { ...frameLogFields(envelope), code: why.code, reason });
    if (session.identity.dialect === "v1") session.connection?.send(session.writer.encodeError(why.code, reason, envelope.id));
    this.postCommands(commands, tag, `${why.code}: ${reason}`);
  }

  /** Once the engine has answered everything the frame is settled, or refused where there is a reason to. */
  postCommands(commands: readonly Command[], tag: DeliveryTag, refusal?: string, next?: NextRequestPayload): void {
    const session = this.#session;
    if (commands.length === 0) return this.settleOrRefuse(tag, refusal);
    const frame: UnansweredFrame = {
      kind: "word",
      tag,
      answersLeft: commands.length,
      ...(refusal !== undefined && { refusal }),
      ...(next !== undefined && { nextRequest: next }),
    };
    session.unanswered.add(frame);
    for (const command of commands) {
      if (command.type === "task.result")
        for (const { resource } of command.artifacts ?? []) session.resources.addPresent(resource);
      if (command.type === "task.result" || command.type === "task.error") {
        session.chainAttempts.remove(command.task);
        session.outbound.handleTaskEnd(command.task, command.fence);
      }
      session.postCommand(command, frame);
    }
  }

  /** The engine will not have this word. Most are over with that; whoever asked for the next of a chain still waits. */
  handleRefusal(frame: UnansweredFrame, why: FaultData): void {
    if (frame.nextRequest === undefined) return;
    const { message } = toPublicFault(why);
    this.#refuseNextRequest(frame.nextRequest, { code: "next_unavailable", message });
  }

  settleOrRefuse(tag: DeliveryTag, refusal: string | undefined): void {
    const { stream } = this.#session;
    if (refusal === undefined) stream.settle(tag);
    else stream.refuse(tag, refusal);
  }

  /** Never fatal: a newer worker may know more words than we do. */
  refuseUnknown(envelope: Envelope, tag: DeliveryTag): void {
    const session = this.#session;
    this.#context.metrics.refused(session.identity.tenant, "E.CMD.UNKNOWN");
    session.stream.refuse(tag, `E.CMD.UNKNOWN: nobody here takes frames of type ${envelope.type.slice(0, 100)}`);
  }
}
