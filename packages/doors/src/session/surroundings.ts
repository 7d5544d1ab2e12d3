// What a connection and its session ask of the hall: types only, so that neither needs to know the other's file or any socket.

import type { Command } from "@astraflow/engine";
import type { Envelope } from "@astraflow/protocol";
import type { VolatileEvents } from "../events/volatile.ts";
import type { Gate } from "../gate.ts";
import type { ShownPackage } from "../handlers.ts";
import type { Outside } from "../outside.ts";
import type { DispatchBinder } from "./dispatch-bindings.ts";
import type { FrameCounters } from "./frame-counters.ts";
import type { FrameLog } from "./frame-log.ts";
import type { CompareKept } from "./kept-resources.ts";
import type { SessionLimits } from "./limits.ts";
import type { Meters } from "./meters.ts";
import type { Note } from "./notes.ts";
import type { RunNumbers } from "./run-numbers.ts";
import type { Session } from "./session.ts";
import type { SessionBook } from "./session-book.ts";
import type { WireTap } from "./wire-tap.ts";

/** Where vendors' frames of workers go. */
export interface ExtensionEar {
  /** False: nobody listens to frames of this type. */
  fromWorker(frame: {
    readonly tenant: string;
    readonly worker: string;
    readonly instance: string;
    readonly type: string;
    readonly id: string;
    readonly corr: string | undefined;
    readonly payload: object;
  }): boolean;
}

/** Who keeps the manifests that workers bring. Must neither wait nor throw. */
export type NoteManifests = (tenant: string, shown: readonly ShownPackage[]) => void;

/** What a tenant has of its own; everything else is as in the limits. */
export interface TenantWindows {
  readonly sendWindow?: number | undefined;
  readonly recvWindow?: number | undefined;
}

export interface Surroundings {
  readonly gate: Gate;
  readonly outside: Outside;
  /** Null where nobody reads lines about single frames. */
  readonly frameLog: FrameLog | null;
  /** Both null where no reader of events can ever look on. */
  readonly wireTap: WireTap | null;
  readonly volatile: VolatileEvents | null;
  readonly limits: SessionLimits;
  readonly stamp: () => string;
  readonly meter: Meters;
  readonly book: SessionBook;
  readonly runNumbers: RunNumbers;
  readonly frameCounters: FrameCounters;
  readonly extensions: ExtensionEar | null;
  readonly noteManifests: NoteManifests | null;
  readonly tenants: Readonly<Record<string, TenantWindows>>;
  /** 0 <= n < 1, for the jitter of repeats. */
  readonly roll: () => number;
  /** Null where tasks are sent without the resources that their packages ask for. */
  readonly binder: DispatchBinder | null;
  /** Null where nobody can look up what results have left with workers. */
  readonly compareKept: CompareKept | null;
  /** Runs what a session hears later, from elsewhere than the engine; what it owes then leaves. */
  step(session: Session, step: () => void): void;
  /** Tells the engine; with a note, the answer comes back to the session that asked. */
  post(session: Session, command: Command, note: Note | null): void;
}

/** A socket as its session sees it: the connection it was opened on. */
export interface Line {
  send(text: string): void;
  /** All that was awaited of the inventory has come: the worker may join. */
  described(): void;
  /** The session is accepted: frames that waited for that are heard now. */
  opened(): void;
  /** Says the last word and closes. */
  refuse(text: string, reason: string): void;
  /** Another socket took the session over: nothing that still comes from this one counts. */
  supersede(): void;
  /** Ends without a goodbye. */
  terminate(): void;
}

/** Frames in flight in each direction, for a worker of this tenant. */
export function windowsOf(
  { limits, tenants }: Pick<Surroundings, "limits" | "tenants">,
  tenant: string,
  isWide: boolean,
): { readonly send: number; readonly recv: number } {
  const own = Object.hasOwn(tenants, tenant) ? tenants[tenant] : undefined;
  return {
    send: own?.sendWindow ?? (isWide ? limits.wideSendWindow : limits.sendWindow),
    recv: own?.recvWindow ?? (isWide ? limits.wideRecvWindow : limits.recvWindow),
  };
}

/** What a log line about a frame always holds; the worker is its sender. */
export function frameFields(envelope: Envelope): Record<string, unknown> {
  const { type, id, corr } = envelope;
  const seq = envelope.session_seq ?? envelope.seq;
  return { type, id, ...(corr !== undefined && { corr }), ...(seq !== undefined && { seq }) };
}
