// What all sessions share: services, settings, and two functions of the session server.

import type { Dialect } from "@astraflow/protocol";
import type {
  DispatchResources,
  EngineClient,
  FindLostResources,
  ReportedPackage,
  ServiceEnvironment,
  VendorFrameRelay,
  VolatileEvents,
} from "@astraflow/services";
import { dialectRules } from "@astraflow/session";
import type { WorkerAuthenticator } from "../../auth/worker-authenticator.ts";
import type { ConnectionContext } from "../connection/session-connection.ts";
import type { RestartDetector, RunSequence } from "../frames/older-dialects.ts";
import type { SessionRegistry } from "./session-registry.ts";

/** Window sizes of one tenant; the defaults are in the limits. */
export interface TenantWindows {
  readonly sendWindow?: number | undefined;
  readonly recvWindow?: number | undefined;
}

/** What sessions are given from outside; without the optional ones they do without. */
export interface SessionServices {
  readonly engineClient: EngineClient;
  readonly authenticator: WorkerAuthenticator;
  readonly environment: ServiceEnvironment;
  /** Settings of single tenants. */
  readonly tenants?: Readonly<Record<string, TenantWindows>>;
  /** Takes the frames that workers send to vendors; without it they are refused. */
  readonly extensions?: Pick<VendorFrameRelay, "publish">;
  /** Records the manifests that a worker reports. Must neither wait nor throw. */
  readonly recordManifests?: (tenant: string, reported: readonly ReportedPackage[]) => void;
  /** Finds the resources that packages ask for; without it tasks are sent without them. */
  readonly dispatchResources?: DispatchResources;
  /** Finds resources that a worker has lost; without it they end by their time to live. */
  readonly findLostResources?: FindLostResources;
  /** Where heartbeats and frames are published that are not stored; without it they are not published. */
  readonly volatile?: VolatileEvents;
}

export interface SessionContext extends ConnectionContext, SessionServices {
  readonly timestamp: () => string;
  readonly registry: SessionRegistry;
  readonly runSequence: RunSequence;
  readonly restartDetector: RestartDetector;
  /** 0 <= n < 1, for the jitter of resends. */
  readonly jitter: () => number;
  /** Calls `flush` at the end of the tick. */
  readonly scheduleFlush: (session: { flush(): void }) => void;
  /** Checks the timers of v1 sessions soon. */
  readonly scheduleFastSweep: () => void;
}

/** Frames in flight in each direction, for a worker of this tenant. */
export function windowSizesFor(
  { limits, tenants = {} }: Pick<SessionContext, "limits" | "tenants">,
  tenant: string,
  isWide: boolean,
): { readonly send: number; readonly recv: number } {
  const own = Object.hasOwn(tenants, tenant) ? tenants[tenant] : undefined;
  return {
    send: own?.sendWindow ?? (isWide ? limits.wideSendWindow : limits.sendWindow),
    recv: own?.recvWindow ?? (isWide ? limits.wideRecvWindow : limits.recvWindow),
  };
}

/** What of these sizes the dialect can use. */
export function clampWindows({ send, recv }: { readonly send: number; readonly recv: number }, dialect: Dialect) {
  const { framesMax } = dialectRules[dialect];
  return { send: Math.min(send, framesMax), recv: Math.min(recv, framesMax) };
}
