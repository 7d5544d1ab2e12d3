// The connection of a worker of the oldest dialect. It sends handshake and register without waiting for answers, acks by frame id before it
// handles anything, resends what was not acked up to six times, and starts anew on every socket: no accept, no numbers, no resume.

import { tokenOfTenant } from "../../network/simulated-authentication.ts";
import type { SimulatedConnection } from "../../network/simulated-connection.ts";
import { askedForAck, type LegacyFrame, LegacyLink, resendMs, type TaskFrameOptions } from "./legacy-link.ts";

/** What this dialect calls its task frames. */
const v1FrameNames: Readonly<Record<string, string>> = {
  "biz.exec.result": "result",
  "biz.exec.error": "command.error",
  "biz.exec.feedback": "feedback",
};

export class V1Link extends LegacyLink {
  override sendTaskFrame(type: string, payload: object, { isAsked, ...more }: TaskFrameOptions): boolean {
    // `corr` names the task, not the dispatch.
    const { task_id: task } = payload as { task_id?: string };
    const corr = task ?? more.corr?.split("#")[0];
    const rest = { ...more, ...(corr !== undefined && { corr }) };
    const name = v1FrameNames[type] ?? type;
    if (isAsked) this.sendUntilAcked(name, payload, { ...rest, ...askedForAck });
    else this.sendText(this.createFrame(name, payload, rest).text);
    return true;
  }

  protected override handleOpen(connection: SimulatedConnection): void {
    const { identity } = this.options;
    const worker = { id: identity.instance, version: "0.1.0", hostname: identity.worker };
    const handshake = { protocol: 1, auth: { mode: "token", token: tokenOfTenant(identity.tenant) }, worker };
    this.sendUntilAcked("handshake", handshake, askedForAck);
    this.sendUntilAcked("register", this.registerPayload(), askedForAck);
    this.#sendHeartbeats(connection);
    this.schedulePing(connection);
  }

  protected override resendDelayMs(sendCount: number): number | undefined {
    return resendMs[sendCount];
  }

  #sendHeartbeats(connection: SimulatedConnection): void {
    if (!this.isCurrent(connection)) return;
    const payload = { healthy: true, metrics: { inflight: this.options.countInFlight() } };
    this.sendText(this.createFrame("heartbeat", payload, {}).text);
    this.options.eventLoop.after(this.heartbeatDelayMs(), () => this.#sendHeartbeats(connection));
  }

  protected override handleText(text: string): void {
    const frame = JSON.parse(text) as LegacyFrame;
    if (frame.type === "ack") return void this.unacked.delete(frame.ack?.for ?? String(frame.payload["for"]));
    if (frame.ack?.request === true) this.sendText(this.createFrame("ack", { for: frame.id }, { ack: { for: frame.id } }).text);
    if (frame.type !== "cmd.dispatch") return;
    this.dialAttempts = 0;
    this.options.onDispatch(frame);
  }

  protected override handleDisconnect(): number {
    // Handshake frames die with their socket; task reports are resent on the next one.
    for (const id of this.unacked.keys()) if (/^(handshake|register)-/.test(id)) this.unacked.delete(id);
    return Math.min(5_000, 200 * 2 ** this.dialAttempts++) * (0.8 + 0.4 * this.options.random.random());
  }
}
