// Frames as they leave: ids that are unique in this boot, the time of day, one envelope around a payload that is text already or becomes it.

import { createEnvelopeTemplate, type EnvelopeTemplate, encodeFrame, type FrameType } from "@astraflow/protocol";
import type { SentFrame } from "@astraflow/session";
import type { OutboxMessage } from "../outbox/outbox.ts";
import type { LinkPorts, WorkerIdentity } from "./link-ports.ts";

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
