// What the parts of one link share, the writer of its frames among them.

import type { Envelope } from "@astraflow/protocol";
import { createEnvelopeTemplate, type EnvelopeTemplate, encodeFrame, type FrameType } from "@astraflow/protocol";
import type { SentFrame } from "@astraflow/session";
import type { DurableOutbox } from "../outbox/journaled-outbox.ts";
import type { OutboxMessage } from "../outbox/outbox.ts";
import type { LinkLogEvent, LinkPorts, LinkSettings, WorkerCapabilities, WorkerIdentity } from "./link-ports.ts";

export interface LinkContext {
  readonly ports: LinkPorts;
  readonly settings: LinkSettings;
  readonly identity: WorkerIdentity;
  readonly capabilities: () => WorkerCapabilities;
  readonly slotsMax: number;
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

export class FrameWriter {
  readonly #ports: Pick<LinkPorts, "send" | "timestamp">;
  readonly #boot: string;
  readonly #sender: EnvelopeTemplate;
  #frameCount = 0;

  constructor(ports: Pick<LinkPorts, "send" | "timestamp">, { boot, tenant, instance }: WorkerIdentity) {
    this.#ports = ports;
    this.#boot = boot;
    this.#sender = createEnvelopeTemplate({ dialect: "v2", tenant, sender: { role: "worker", id: instance } });
  }

  nextId(): string {
    return `${this.#boot}-${this.#frameCount++}`;
  }

  /** Control frames carry no number. Gives the id, by which an answer will name it. */
  sendControl(type: FrameType, payload: object, ask: { ackRequest?: boolean; ackFor?: string | undefined }): string {
    const id = this.nextId();
    this.#ports.send(encodeFrame(this.#sender, { type, id, ts: this.#ports.timestamp(), payload, ...ask }));
    return id;
  }

  /** A repeat is the same text. */
  sendWork(sent: SentFrame<OutboxMessage>): void {
    sent.text ??= this.#encodeWork(sent);
    this.#ports.send(sent.text);
  }

  /** Several results share a frame with an id of its own; a message that travels alone keeps its id through every session. */
  #encodeWork({ items, id, number }: SentFrame<OutboxMessage>): string {
    const ts = this.#ports.timestamp();
    const [only] = items;
    if (only !== undefined && items.length === 1) {
      const { type, corr, payload, kind } = only;
      return encodeFrame(this.#sender, { type, id, corr, payload, number, ackRequest: kind !== "feedback", ts });
    }
    const payload = `{"items":[${items.map((message) => message.payload).join(",")}]}`;
    return encodeFrame(this.#sender, { type: "biz.exec.result.batch", id, payload, number, ackRequest: true, ts });
  }
}
