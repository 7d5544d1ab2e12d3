// The example exchange of the control plane's document, frame by frame, as the worker takes part in it; then the same worker through a
// cut, with its identity kept.
import { describe, expect, it } from "vitest";
import { LinkHarness } from "../../test/link-harness.ts";

/** `> type` is a frame that the worker sends, `< type` one that it receives. */
function transcript(harness: LinkHarness): string[] {
  const lines: string[] = [];
  const send = harness.sendToLink.bind(harness);
  harness.sendToLink = (type, payload, envelope) => {
    lines.push(`< ${type}`);
    send(type, payload, envelope);
  };
  const push = harness.sent.push.bind(harness.sent);
  harness.sent.push = (...frames) => {
    for (const { type, seq } of frames) lines.push(seq === undefined ? `> ${type}` : `> ${type} ${seq}`);
    return push(...frames);
  };
  return lines;
}

describe("the exchange of a session", () => {
  it("[W100] a session's exchange is as documented: handshake, ack, register, ack, accept, then numbered frames, their acks and heartbeats", () => {
    const harness = new LinkHarness();
    const lines = transcript(harness);

    harness.link.start();
    harness.openSession();
    harness.dispatch("a", { fence: 5 });
    harness.flush();
    harness.link.feedbackReceived(harness.attempt("a"), { progress: 0.5 });
    harness.flush();
    harness.finish("a");
    harness.ackUpTo(1);
    harness.advance(10_000);
    harness.ackById(harness.lastFrame("control.heartbeat").id);

    expect(lines).toEqual([
      "> control.handshake",
      "< control.ack",
      "> control.register",
      "< control.ack",
      "< control.session.accept",
      "< biz.exec.dispatch",
      "> control.ack",
      "> biz.exec.feedback 0",
      "> biz.exec.result 1",
      "< control.ack",
      "> control.heartbeat",
      "< control.ack",
    ]);
    expect(harness.payload("control.ack")).toEqual({ ok: true, for: "s-3", ack_seq: 0, ack_bitmap: 0, recv_window: 64 });
    expect(harness.lastFrame("control.ack").ack).toEqual({ for: "s-3" });
    for (const frame of harness.sent) {
      expect(frame).toMatchObject({ tenant: "default", sender: { role: "worker", id: "w-1" } });
      expect(frame.seq === undefined).toBe(frame.type.startsWith("control."));
    }
  });

  it("[W100] a session continues after a cut under the same instance id, by a resume, or by a handshake where the resume is refused", () => {
    const harness = new LinkHarness();
    harness.link.start();
    harness.openSession();
    harness.dispatch("a");
    harness.finish("a");
    harness.advance(2_000);
    const lines = transcript(harness);

    harness.link.connectionLost("cut");
    harness.advance(0);
    harness.resumeSession(-1);
    harness.advance(2_000);
    harness.link.connectionLost("cut");
    harness.advance(0);
    harness.openSession();
    harness.ackUpTo(0);

    expect(lines).toEqual([
      "> control.resume",
      "< control.ack",
      "< control.session.accept",
      "> biz.exec.result 0",
      "> control.ack",
      "> control.resume",
      "< control.reset",
      "> control.handshake",
      "< control.ack",
      "> control.register",
      "< control.ack",
      "< control.session.accept",
      "> biz.exec.result 0",
      "< control.ack",
    ]);
    expect(new Set(harness.sent.map(({ sender }) => sender.id))).toEqual(new Set(["w-1"]));
    expect(harness.link.status).toMatchObject({ phase: "READY", held: 0, unacked: 0 });
  });
});
