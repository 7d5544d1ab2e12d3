import { SseTestReader } from "@astraflow/protocol/testing";
import { afterEach, describe, expect, it } from "vitest";
import { type DoorsFixture, openDoorsFixture } from "../../testing/doors-fixture.ts";

const type = "ext.vendor.acme.ping";
const path = `/api/v1/extensions/${type}`;

describe("vendors' frames through both doors", () => {
  let fixture: DoorsFixture;
  afterEach(() => fixture.stop());
  const bearer = { authorization: "Bearer secret-a", "content-type": "application/json" };

  it("[A18] a vendor frame reaches the reader, who may answer; without a reader the worker gets a negative ack and stays connected", async () => {
    fixture = await openDoorsFixture();
    const worker = await fixture.openSession();
    const undelivered = worker.sendWorkFrame(type, { n: 0 });
    expect((await worker.nextFrame("control.ack")).payload).toMatchObject({ ok: false, for: undelivered });

    const reader = new SseTestReader((await fetch(`${fixture.http}${path}`, { headers: bearer })).body);
    await reader.readUntil(({ text }) => text.includes("id: "));
    const delivered = worker.sendWorkFrame(type, { n: 1 });
    await reader.readUntil(({ text }) => text.includes(`"id":"${delivered}"`));
    expect(reader.text).toMatch(/^event: ext\.vendor\.acme\.ping\ndata: \{.*"workerId":"w-1",.*"payload":\{"n":1\}\}$/m);

    const body = JSON.stringify({ workerId: "w-1", payload: { n: 2 }, corr: delivered });
    const response = await fetch(`${fixture.http}${path}`, { method: "POST", headers: bearer, body });
    const { id } = (await response.json()) as { id: string };
    const { frame } = await fixture.engine.nextCommand("worker.tell");
    const join = fixture.engine.commands.find((command) => command.type === "worker.join");
    fixture.engine.emitEffects({ type: "tell", session: join?.session ?? "", worker: "default/w-1", tenant: "default", frame });

    expect(await worker.nextFrame(type)).toMatchObject({ id, corr: delivered, payload: { n: 2 } });
    await reader.close();
  });
});
