// What a worker's words about its work lead to: told to the engine, taken by the door itself, or refused. None of them ends a session.
// In which order they come, and that they come once, is inbound.ts; what they say is read in words.ts.

import type { Command, FaultData } from "@astraflow/engine";
import type { Envelope, Fault, NextRequestPayload, PkgEventPayload } from "@astraflow/protocol";
import { type Ticket, voidType } from "@astraflow/session";
import { packageOpOf } from "../package-op.ts";
import { plainFault } from "../plain-fault.ts";
import { readMisfit } from "./misfits.ts";
import type { Note } from "./notes.ts";
import type { Session } from "./session.ts";
import { frameFields, type Surroundings } from "./surroundings.ts";
import { nextCommand, packageCommand, taskIn, type Word } from "./words.ts";

export class WorkEar {
  readonly #session: Session;
  readonly #around: Surroundings;

  constructor(session: Session, around: Surroundings) {
    this.#session = session;
    this.#around = around;
  }

  hear(word: Exclude<Word, { of: "catalog" }>, type: string, envelope: Envelope, ticket: Ticket): void {
    const session = this.#session;
    switch (word.of) {
      case "commands":
        return this.tell(word.commands, ticket);
      case "package":
        return this.#hearPackage(word.event, envelope, ticket);
      case "error":
        session.log("warn", "session.error", {
          ...frameFields(envelope),
          code: word.error.code,
          message: word.error.message.slice(0, 500),
        });
        return session.stream.settle(ticket);
      case "gap":
        session.log("warn", "session.missing", { ...frameFields(envelope), code: word.error.code });
        session.stream.settle(ticket);
        return session.repeatAll();
      case "next":
        return this.#hearNext(word.request, envelope, ticket);
      case "vendor":
        return this.#hearVendor(type, envelope, word.payload, ticket);
      case "unknown":
        return this.unknown(envelope, ticket);
    }
  }

  #hearPackage(event: PkgEventPayload, envelope: Envelope, ticket: Ticket): void {
    const session = this.#session;
    const { op, status } = packageOpOf(event);
    this.#around.meter.packageOp(session.bound.tenant, op, status);
    session.log("info", "session.package", {
      ...frameFields(envelope),
      package: event.name,
      version: event.version,
      status: event.status,
    });
    this.tell([packageCommand(session.speaker, event)], ticket);
  }

  /** Whoever asks waits for the answer: one that the engine never hears of, or will not hear, is answered here. */
  #hearNext(request: NextRequestPayload, envelope: Envelope, ticket: Ticket): void {
    const session = this.#session;
    const { runId, middlewareId, nodeId } = request;
    const named = taskIn(envelope.corr, session.bound.dialect);
    const held = session.heldNodes.find(runId, [middlewareId, nodeId], request.task_id ?? named);
    const command = nextCommand(session.speaker, request, envelope.corr, held);
    if (command !== null) return this.tell([command], ticket, undefined, request);
    this.#refuseNext(request, { code: "next_no_chain", message: `node ${middlewareId} of run ${runId} is in no chain here` });
    session.stream.settle(ticket);
  }

  #refuseNext({ requestId, runId, middlewareId }: NextRequestPayload, error: { code: string; message: string }): void {
    const { tenant, worker, session } = this.#session.speaker;
    const names = { tenant, worker, session, run: runId, task: "", node: middlewareId, request: requestId };
    this.#session.outbound.offerNext({ type: "next", ...names, result: null, error, trace: {} });
  }

  #hearVendor(type: string, envelope: Envelope, payload: object, ticket: Ticket): void {
    const session = this.#session;
    if (type === voidType) return session.stream.settle(ticket);
    const { tenant, worker, instance } = session.bound;
    const { id, corr } = envelope;
    const isTaken = this.#around.extensions?.fromWorker({ tenant, worker, instance, type, id, corr, payload }) === true;
    if (isTaken) return session.stream.settle(ticket);
    this.unknown(envelope, ticket);
  }

  /** A payload that does not fit costs its own frame and the attempt it names, never the session: the worker's other work goes on. */
  misfit(type: string, envelope: Envelope, ticket: Ticket, why: Fault): void {
    if (why.code === "E.CMD.UNKNOWN") return this.unknown(envelope, ticket);
    const session = this.#session;
    const { commands, reason } = readMisfit(session.speaker, type, envelope, why);
    this.#around.meter.refused(session.bound.tenant, why.code);
    session.log("warn", "session.misfit", { ...frameFields(envelope), code: why.code, reason });
    if (session.bound.dialect === "v1") session.line?.send(session.writer.error(why.code, reason, envelope.id));
    this.tell(commands, ticket, `${why.code}: ${reason}`);
  }

  /** Once the engine has answered everything the frame is settled, or refused where there is a reason to. */
  tell(commands: readonly Command[], ticket: Ticket, refusal?: string, next?: NextRequestPayload): void {
    const session = this.#session;
    if (commands.length === 0) return this.close(ticket, refusal);
    const note: Note = {
      what: "word",
      ticket,
      left: commands.length,
      ...(refusal !== undefined && { refusal }),
      ...(next !== undefined && { next }),
    };
    session.notes.enter(note);
    for (const command of commands) {
      if (command.type === "task.result") for (const { resource } of command.artifacts ?? []) session.kept.left(resource);
      if (command.type === "task.result" || command.type === "task.error") {
        session.heldNodes.ended(command.task);
        session.outbound.heardEnd(command.task, command.fence);
      }
      session.post(command, note);
    }
  }

  /** The engine will not have this word. Most are over with that; whoever asked for the next of a chain still waits. */
  refused(note: Note, why: FaultData): void {
    if (note.next === undefined) return;
    const { message } = plainFault(why);
    this.#refuseNext(note.next, { code: "next_unavailable", message });
  }

  close(ticket: Ticket, refusal: string | undefined): void {
    const { stream } = this.#session;
    if (refusal === undefined) stream.settle(ticket);
    else stream.refuse(ticket, refusal);
  }

  /** Never fatal: a newer worker may know more words than we do. */
  unknown(envelope: Envelope, ticket: Ticket): void {
    const session = this.#session;
    this.#around.meter.refused(session.bound.tenant, "E.CMD.UNKNOWN");
    session.stream.refuse(ticket, `E.CMD.UNKNOWN: nobody here takes frames of type ${envelope.type.slice(0, 100)}`);
  }
}
