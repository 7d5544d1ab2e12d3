// Frames as they leave: ids that are unique in this boot, the time of day, one envelope around a payload that is text already or becomes it.

import { createEnvelopeTemplate, type EnvelopeTemplate, encodeFrame, type FrameType } from "@astraflow/protocol";
import type { Sent } from "@astraflow/session";
import type { LinkIdentity, LinkPorts } from "./link-ports.ts";
import type { Word } from "./outbox.ts";

export class FrameWriter {
  readonly #ports: Pick<LinkPorts, "send" | "stamp">;
  readonly #boot: string;
  readonly #end: EnvelopeTemplate;
  #count = 0;

  constructor(ports: Pick<LinkPorts, "send" | "stamp">, { boot, tenant, instance }: LinkIdentity) {
    this.#ports = ports;
    this.#boot = boot;
    this.#end = createEnvelopeTemplate({ dialect: "v2", tenant, sender: { role: "worker", id: instance } });
  }

  nextId(): string {
    return `${this.#boot}-${this.#count++}`;
  }

  /** Control frames carry no number. Gives the id, by which an answer will name it. */
  control(type: FrameType, payload: object, ask: { ackRequest?: boolean; ackFor?: string | undefined }): string {
    const id = this.nextId();
    this.#ports.send(encodeFrame(this.#end, { type, id, ts: this.#ports.stamp(), payload, ...ask }));
    return id;
  }

  /** A frame of work. Sent again it is the same to the letter. */
  words(sent: Sent<Word>): void {
    sent.text ??= this.#encode(sent);
    this.#ports.send(sent.text);
  }

  /** Several results share a frame with an id of its own; a word that travels alone keeps its id through every session. */
  #encode({ items, id, number }: Sent<Word>): string {
    const ts = this.#ports.stamp();
    const [only] = items;
    if (only !== undefined && items.length === 1) {
      const { type, corr, payload, kind } = only;
      return encodeFrame(this.#end, { type, id, corr, payload, number, ackRequest: kind !== "feedback", ts });
    }
    const payload = `{"items":[${items.map((word) => word.payload).join(",")}]}`;
    return encodeFrame(this.#end, { type: "biz.exec.result.batch", id, payload, number, ackRequest: true, ts });
  }
}
