// The example exchange of the control plane's document, frame by frame, as the worker takes part in it; then the same worker through a
// cut, with its identity kept.
import { describe, expect, it } from "vitest";
import { Rig } from "../test/link-rig.ts";

/** `> type` is what the worker says, `< type` what it hears. */
function transcript(rig: Rig): string[] {
  const lines: string[] = [];
  const say = rig.say.bind(rig);
  rig.say = (type, payload, envelope) => {
    lines.push(`< ${type}`);
    say(type, payload, envelope);
  };
  const push = rig.sent.push.bind(rig.sent);
  rig.sent.push = (...frames) => {
    for (const { type, seq } of frames) lines.push(seq === undefined ? `> ${type}` : `> ${type} ${seq}`);
    return push(...frames);
  };
  return lines;
}

describe("the exchange of a session", () => {
  it("[W100] is the documented one: handshake, ack, register, ack, accept, heartbeats, then numbered frames and their acks", () => {
    const rig = new Rig();
    const lines = transcript(rig);

    rig.link.begin();
    rig.connect();
    rig.dispatch("a", { fence: 5 });
    rig.flush();
    rig.link.feedback(rig.attempt("a"), { progress: 0.5 });
    rig.flush();
    rig.finish("a");
    rig.ackWords(1);
    rig.advance(10_000);
    rig.ackNamed(rig.last("control.heartbeat").id);

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
    expect(rig.payload("control.ack")).toEqual({ ok: true, for: "s-3", ack_seq: 0, ack_bitmap: 0, recv_window: 64 });
    expect(rig.last("control.ack").ack).toEqual({ for: "s-3" });
    for (const frame of rig.sent) {
      expect(frame).toMatchObject({ tenant: "default", sender: { role: "worker", id: "w-1" } });
      expect(frame.seq === undefined).toBe(frame.type.startsWith("control."));
    }
  });

  it("[W100] goes on after a cut under the same instance id, by a resume, and by a handshake where that is refused", () => {
    const rig = new Rig();
    rig.link.begin();
    rig.connect();
    rig.dispatch("a");
    rig.finish("a");
    rig.advance(2_000);
    const lines = transcript(rig);

    rig.link.lost("cut");
    rig.advance(0);
    rig.resume(-1);
    rig.advance(2_000);
    rig.link.lost("cut");
    rig.advance(0);
    rig.connect();
    rig.ackWords(0);

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
    expect(new Set(rig.sent.map(({ sender }) => sender.id))).toEqual(new Set(["w-1"]));
    expect(rig.link.view).toMatchObject({ phase: "READY", held: 0, unacked: 0 });
  });
});
