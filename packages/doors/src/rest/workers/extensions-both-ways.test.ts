import { afterEach, describe, expect, it } from "vitest";
import { type House, openHouse } from "../../testing/house.ts";

const type = "ext.vendor.acme.ping";
const path = `/api/v1/extensions/${type}`;

describe("vendors' frames through both doors", () => {
  let house: House;
  afterEach(() => house.stop());
  const bearer = { authorization: "Bearer secret-a", "content-type": "application/json" };

  it("[A18] go from a worker's session to the reader, who may answer; where nobody reads, the worker is told and stays", async () => {
    house = await openHouse();
    const worker = await house.worker();
    const unheard = worker.work(type, { n: 0 });
    expect((await worker.next("control.ack")).payload).toMatchObject({ ok: false, for: unheard });

    const reading = await fetch(`${house.http}${path}`, { headers: bearer });
    const texts = reading.body?.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    const read = async (words: string): Promise<void> => {
      while (!text.includes(words)) text += (await texts?.read())?.value ?? "";
    };
    await read("id: ");
    const heard = worker.work(type, { n: 1 });
    await read(`"id":"${heard}"`);
    expect(text).toMatch(/^event: ext\.vendor\.acme\.ping\ndata: \{.*"workerId":"w-1",.*"payload":\{"n":1\}\}$/m);

    const body = JSON.stringify({ workerId: "w-1", payload: { n: 2 }, corr: heard });
    const told = await fetch(`${house.http}${path}`, { method: "POST", headers: bearer, body });
    const { id } = (await told.json()) as { id: string };
    const { frame } = await house.engine.next("worker.tell");
    const join = house.engine.commands.find((command) => command.type === "worker.join");
    house.engine.say({ type: "tell", session: join?.session ?? "", worker: "default/w-1", tenant: "default", frame });

    expect(await worker.next(type)).toMatchObject({ id, corr: heard, payload: { n: 2 } });
    await texts?.cancel();
  });
});
