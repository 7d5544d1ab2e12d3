// Frames as they leave: ids that are unique in this boot, the time of day, one envelope around a payload that is text already or becomes it.

import { encodeEnvelope, type FrameType, type WireEnd, wireEnd } from "@astraflow/protocol";
import type { LinkIdentity, LinkPorts } from "./link-ports.ts";
import type { Word } from "./outbox.ts";

export class FrameWriter {
  readonly #ports: Pick<LinkPorts, "send" | "stamp">;
  readonly #boot: string;
  readonly #end: WireEnd;
  #count = 0;

  constructor(ports: Pick<LinkPorts, "send" | "stamp">, { boot, tenant, instance }: LinkIdentity) {
    this.#ports = ports;
    this.#boot = boot;
    this.#end = wireEnd({ dialect: "v2", tenant, sender: { role: "worker", id: instance } });
  }

  nextId(): string {
    return `${this.#boot}-${this.#count++}`;
  }

  /** Control frames carry no number. Gives the id, by which an answer will name it. */
  control(type: FrameType, payload: object, ask: { ackRequest?: boolean; ackFor?: string | undefined }): string {
    const id = this.nextId();
    this.#ports.send(encodeEnvelope(this.#end, { type, id, ts: this.#ports.stamp(), payload, ...ask }));
    return id;
  }

  /** Several results share a frame, whose id is new each time: what is in it is known by task and fence. */
  words(words: readonly Word[], number: number): void {
    const [only] = words;
    if (only !== undefined && words.length === 1) return this.#word(only, number);
    const payload = `{"items":[${words.map((word) => word.payload).join(",")}]}`;
    const type = "biz.exec.result.batch";
    const ts = this.#ports.stamp();
    this.#ports.send(encodeEnvelope(this.#end, { type, id: this.nextId(), payload, number, ackRequest: true, ts }));
  }

  /** A word keeps its id and text however often it is sent; only its number belongs to the session. */
  #word({ type, id, corr, payload, lane }: Word, number: number): void {
    const ackRequest = lane === "result";
    this.#ports.send(encodeEnvelope(this.#end, { type, id, corr, payload, number, ackRequest, ts: this.#ports.stamp() }));
  }
}
