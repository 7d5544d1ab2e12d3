// What every session shares: settings, services, and two functions of the session server.

import { type EngineClient, type FindLostResources, type ReportedPackage, type VolatileEvents } from "@astraflow/services";
import type { WorkerAuthenticator } from "../../auth/worker-authenticator.ts";
import type { ConnectionContext } from "../connection/session-connection.ts";
import type { RestartDetector, RunSequence } from "../frames/older-dialects.ts";
import type { DispatchResourceBinder } from "./dispatch-resource-binder.ts";
import type { RegisteredSession, SessionRegistry } from "./session-registry.ts";

/** Where the frames go that workers send to vendors. */
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

/** Records the manifests that a worker reports. Must neither wait nor throw. */
export type RecordManifests = (tenant: string, reported: readonly ReportedPackage[]) => void;

/** Window sizes of one tenant; the defaults are in the limits. */
export interface TenantWindows {
  readonly sendWindow?: number | undefined;
  readonly recvWindow?: number | undefined;
}

export interface SessionContext extends ConnectionContext {
  readonly engineClient: EngineClient;
  readonly authenticator: WorkerAuthenticator;
  /** Null where no reader of events can ever watch. */
  readonly volatile: VolatileEvents | null;
  readonly timestamp: () => string;
  readonly registry: SessionRegistry<RegisteredSession>;
  readonly runSequence: RunSequence;
  readonly restartDetector: RestartDetector;
  readonly extensions: VendorFrameSink | null;
  readonly recordManifests: RecordManifests | null;
  readonly tenants: Readonly<Record<string, TenantWindows>>;
  /** 0 <= n < 1, for the jitter of resends. */
  readonly jitter: () => number;
  /** Null where tasks are sent without the resources that their packages ask for. */
  readonly binder: DispatchResourceBinder | null;
  /** Null where lost resources are not looked for. */
  readonly findLostResources: FindLostResources | null;
  /** Calls `flush` at the end of the tick. */
  readonly scheduleFlush: (session: { flush(): void }) => void;
  /** Checks the timers of v1 sessions soon. */
  readonly scheduleFastSweep: () => void;
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
