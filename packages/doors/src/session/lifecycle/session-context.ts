// What a connection and its session ask of the session server: types only, so that neither needs to know the other's file or any socket.

import type { Command } from "@astraflow/engine";
import type { Envelope } from "@astraflow/protocol";
import type { FindLostResources, ReportedPackage, VolatileEvents } from "@astraflow/services";
import type { WorkerAuthenticator } from "../../auth/worker-authenticator.ts";
import type { DoorEnvironment } from "../../environment/door-environment.ts";
import type { FrameLog } from "../frames/frame-log.ts";
import type { FrameTap } from "../frames/frame-tap.ts";
import type { RestartDetector } from "../frames/restart-detector.ts";
import type { RunSequence } from "../frames/run-sequence.ts";
import type { UnansweredFrame } from "../frames/unanswered-frames.ts";
import type { DispatchResourceBinder } from "./dispatch-resource-binder.ts";
import type { Session } from "./session.ts";
import type { SessionLimits } from "./session-limits.ts";
import type { SessionMetrics } from "./session-metrics.ts";
import type { SessionRegistry } from "./session-registry.ts";

/** Where vendors' frames of workers go. */
export interface VendorFrameSink {
  /** False: nobody listens to frames of this type. */
  publish(frame: {
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
export type RecordManifests = (tenant: string, reported: readonly ReportedPackage[]) => void;

/** What a tenant has of its own; everything else is as in the limits. */
export interface TenantWindows {
  readonly sendWindow?: number | undefined;
  readonly recvWindow?: number | undefined;
}

export interface SessionContext {
  readonly authenticator: WorkerAuthenticator;
  readonly environment: DoorEnvironment;
  /** Null where nobody reads lines about single frames. */
  readonly frameLog: FrameLog | null;
  /** Both null where no reader of events can ever look on. */
  readonly frameTap: FrameTap | null;
  readonly volatile: VolatileEvents | null;
  readonly limits: SessionLimits;
  readonly timestamp: () => string;
  readonly metrics: SessionMetrics;
  readonly registry: SessionRegistry;
  readonly runSequence: RunSequence;
  readonly restartDetector: RestartDetector;
  readonly extensions: VendorFrameSink | null;
  readonly recordManifests: RecordManifests | null;
  readonly tenants: Readonly<Record<string, TenantWindows>>;
  /** 0 <= n < 1, for the jitter of repeats. */
  readonly jitter: () => number;
  /** Null where tasks are sent without the resources that their packages ask for. */
  readonly binder: DispatchResourceBinder | null;
  /** Null where nobody can look up what results have left with workers. */
  readonly findLostResources: FindLostResources | null;
  /** Runs what a session hears later, from elsewhere than the engine; what it owes then leaves. */
  runStep(session: Session, step: () => void): void;
  /** Tells the engine; with a note, the answer comes back to the session that asked. */
  postCommand(session: Session, command: Command, note: UnansweredFrame | null): void;
}

/** A socket as its session sees it: the connection it was opened on. */
export interface SessionTransport {
  send(text: string): void;
  /** All that was awaited of the inventory has come: the worker may join. */
  startJoin(): void;
  /** The session is accepted: frames that waited for that are heard now. */
  markLive(): void;
  /** Says the last word and closes. */
  sendAndClose(text: string, reason: string): void;
  /** Another socket took the session over: nothing that still comes from this one counts. */
  supersede(): void;
  /** Ends without a goodbye. */
  terminate(): void;
}

/** Frames in flight in each direction, for a worker of this tenant. */
export function windowSizesFor(
  { limits, tenants }: Pick<SessionContext, "limits" | "tenants">,
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
export function frameLogFields(envelope: Envelope): Record<string, unknown> {
  const { type, id, corr } = envelope;
  const seq = envelope.session_seq ?? envelope.seq;
  return { type, id, ...(corr !== undefined && { corr }), ...(seq !== undefined && { seq }) };
}
