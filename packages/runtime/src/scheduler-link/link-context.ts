// What the parts of one link share.

import type { Envelope } from "@astraflow/protocol";
import type { DurableOutbox } from "../outbox/journaled-outbox.ts";
import type { FrameWriter } from "./frame-writer.ts";
import type { LinkLogEvent, LinkPorts, LinkSettings, WorkerCapabilities, WorkerIdentity } from "./link-ports.ts";

export interface LinkContext {
  readonly ports: LinkPorts;
  readonly settings: LinkSettings;
  readonly identity: WorkerIdentity;
  readonly capabilities: () => WorkerCapabilities;
  /** The outbox on disk; null where results are kept in memory only. */
  readonly durableOutbox: DurableOutbox | null;
  readonly writer: FrameWriter;
  /** Something new may be sent. */
  requestFlush(): void;
  log(level: LinkLogEvent["level"], event: LinkLogEvent["event"], message: string, details?: LinkLogEvent["details"]): void;
}

export function logIgnoredFrame({ log }: LinkContext, { type, id, corr, seq }: Envelope, message: string): void {
  log("warn", "frame-ignored", message, { type, id, corr, seq });
}
