// The messages between the link's thread and the handler thread: plain data, many in one post, an attempt named by task and fence.

import type { DispatchPayload, FaultCode } from "@astraflow/protocol";
import type { IncomingVendorFrame, StoredFile } from "@astraflow/sdk";
import type { EncodedOutcome } from "../attempts/outcome.ts";
import type { HandlerHostSettings } from "../handlers/handler-host.ts";
import type { MiddlewareCallAnswer, MiddlewareCallDraft } from "../handlers/middleware-call.ts";
import type { LoadedPackagesSummary } from "../handlers/package-loader.ts";
import type { OutgoingVendorFrame } from "../handlers/vendor-frames.ts";
import type { HostingSettings } from "../hosts/host-set.ts";
import type { FileTransfer } from "../resources/file-transfer.ts";
import type { ResourceRemovedReason, ResourceReport } from "../resources/resource.ts";

export interface AttemptKey {
  readonly task: string;
  readonly fence: number;
}

export type FileTransferAnswer =
  | { readonly stored: StoredFile }
  | { readonly error: { readonly code: FaultCode; readonly message: string } };

export type ToHandlerThread =
  | { readonly type: "start"; readonly fence: number; readonly dispatch: DispatchPayload }
  | ({ readonly type: "stop"; readonly reason: string } & AttemptKey)
  | { readonly type: "ext"; readonly frame: IncomingVendorFrame }
  | { readonly type: "ext-answer"; readonly ticket: number; readonly isTaken: boolean }
  | { readonly type: "next-answer"; readonly ticket: number; readonly answer: MiddlewareCallAnswer }
  | ({ readonly type: "transfer-answer"; readonly ticket: number } & FileTransferAnswer)
  /** Answered with the same number as soon as the thread gets to it. */
  | { readonly type: "ping"; readonly ping: number }
  /** Packages were installed or removed; answered with `reloaded`. */
  | { readonly type: "reload" }
  /** The thread may end once its handlers have returned. */
  | { readonly type: "end" };

export type FromHandlerThread =
  /** `referencedResources`: those that results have named and that outlived an earlier thread. */
  | { readonly type: "loaded"; readonly packages: LoadedPackagesSummary; readonly referencedResources: readonly string[] }
  | { readonly type: "reloaded"; readonly packages: LoadedPackagesSummary; readonly problem?: string }
  /** `isSettled`: its handler has returned too, as most do. */
  | ({ readonly type: "finished"; readonly outcome: EncodedOutcome; readonly isSettled: boolean } & AttemptKey)
  | ({ readonly type: "settled" } & AttemptKey)
  | ({ readonly type: "feedback"; readonly input: string } & AttemptKey)
  | { readonly type: "listening"; readonly types: readonly string[] }
  | { readonly type: "ext"; readonly ticket: number; readonly draft: OutgoingVendorFrame }
  | ({ readonly type: "next"; readonly ticket: number; readonly draft: MiddlewareCallDraft } & AttemptKey)
  | { readonly type: "next-forget"; readonly ticket: number }
  /** The token for the scheduler's files stays out of the thread in which packages run. */
  | { readonly type: "transfer"; readonly ticket: number; readonly transfer: FileTransfer }
  /** Groups of processes that must not outlive the thread. */
  | { readonly type: "spawned"; readonly pid: number }
  | { readonly type: "reaped"; readonly pid: number }
  /** A resource of the thread is named in a result; one of those is gone. */
  | { readonly type: "announced"; readonly resource: string }
  | { readonly type: "removed"; readonly resource: string; readonly reason: ResourceRemovedReason }
  | {
      readonly type: "pong";
      readonly ping: number;
      readonly resources: Readonly<Record<string, number>>;
      readonly report?: ResourceReport;
    }
  | { readonly type: "report"; readonly message: string; readonly cause: string };

export interface HandlerThreadSettings extends HandlerHostSettings {
  readonly packagesDir: string;
  /** Heap limit of the thread; absent: Node's own. A thread that exceeds it ends, not the process. */
  readonly heapMbMax?: number;
  /** How packages run that have processes of their own; absent: there are none. */
  readonly hosting?: HostingSettings;
}

export const attemptKeyText = ({ task, fence }: AttemptKey): string => `${fence} ${task}`;
