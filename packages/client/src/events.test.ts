import type { ServerEvent } from "@astraflow/protocol";
import { describe, expect, it } from "vitest";
import { createSseParser } from "./events.ts";
import { type Client, createClient } from "./index.ts";

const event = (id: string, type = "run.status"): string =>
  `id: ${id}\nevent: ${type}\ndata: ${JSON.stringify({ version: "v1", id, type })}\n\n`;
const fault = (error: string, id = ""): string =>
  `${id === "" ? "" : `id: ${id}\n`}event: stream.error\ndata: ${JSON.stringify({ error, message: "m" })}\n\n`;

/** Connections that send these texts and break off. */
function clientWithStreams(...streams: (string | Response)[]): {
  client: Client;
  cursors: (string | undefined)[];
  urls: string[];
} {
  const cursors: (string | undefined)[] = [];
  const urls: string[] = [];
  const client = createClient({
    url: "http://s",
    environment: {
      fetch: async (url, init) => {
        urls.push(url);
        cursors.push((init.headers as Record<string, string>)["last-event-id"]);
        const stream = streams.shift();
        if (stream === undefined) throw new TypeError("nobody");
        return stream instanceof Response ? stream : new Response(stream, { headers: { "content-type": "text/event-stream" } });
      },
      pause: (ms, signal) =>
        ms >= 30_000
          ? new Promise((_, reject) => signal?.addEventListener("abort", () => reject(signal.reason)))
          : Promise.resolve(),
    },
  });
  return { client, cursors, urls };
}

async function takeIds(events: AsyncGenerator<ServerEvent>, count: number): Promise<string[]> {
  const ids: string[] = [];
  for await (const one of events) {
    ids.push(one.id ?? "-");
    if (ids.length === count) break;
  }
  return ids;
}

describe("the stream of events", () => {
  it("[L56] the client's event stream treats an HTML page from another server as a lost connection that never opened", async () => {
    const page = new Response("<html>", { headers: { "content-type": "text/html" } });
    const { client } = clientWithStreams(page, event("7"));
    const states: string[] = [];

    expect(await takeIds(client.events({ onState: (state) => states.push(state) }), 1)).toEqual(["7"]);

    expect(states).toEqual(["lost", "open"]);
  });

  it("[C24] the client's event stream resumes after the last event when a connection breaks, without a gap or a repeat", async () => {
    const { client, cursors, urls } = clientWithStreams(
      `id: 4\n\n${event("5.0")}${event("6")}id: 7`,
      new Response(JSON.stringify({ error: "E.SHUTTING_DOWN", message: "m" }), { status: 503 }),
      event("7"),
    );
    const states: string[] = [];

    const ids = await takeIds(
      client.events({ after: "3", runId: "r", topics: "run,node", onState: (state) => states.push(state) }),
      3,
    );

    expect(ids).toEqual(["5.0", "6", "7"]);
    expect(cursors).toEqual(["3", "6", "6"]);
    expect(urls[0]).toBe("http://s/api/v1/events?runId=r&topics=run%2Cnode");
    expect(states).toEqual(["open", "lost", "lost", "open"]);
  });

  it("[A303] the client's event stream delivers volatile events without moving the cursor", async () => {
    const beat = `event: worker.heartbeat\ndata: ${JSON.stringify({ version: "v1", type: "worker.heartbeat", meta: { volatile: true } })}\n\n`;
    const { client, cursors } = clientWithStreams(beat + event("5") + beat + beat, beat + event("6"));
    const moves: string[] = [];

    const ids = await takeIds(client.events({ after: "3", onCursor: (cursor) => moves.push(cursor) }), 6);

    expect(ids).toEqual(["-", "5", "-", "-", "-", "6"]);
    expect(cursors).toEqual(["3", "5"]);
    expect(moves).toEqual(["5"]);
  });

  it("[C24] the client's event stream resumes from a cursor that moved without events", async () => {
    const { client, cursors } = clientWithStreams("id: 900\n\n", event("901"));

    expect(await takeIds(client.events(), 1)).toEqual(["901"]);
    expect(cursors).toEqual([undefined, "900"]);
  });

  it("[C24] the client's event stream reports events that are no longer stored as a gap, or fails without a gap handler", async () => {
    const words = fault("E.CURSOR.EXPIRED", "50") + event("51");
    const gaps: string[] = [];

    expect(
      await takeIds(clientWithStreams(words).client.events({ after: "1", onGap: ({ code }) => gaps.push(code) }), 1),
    ).toEqual(["51"]);
    expect(gaps).toEqual(["E.CURSOR.EXPIRED"]);
    await expect(takeIds(clientWithStreams(words).client.events({ after: "1" }), 1)).rejects.toMatchObject({
      code: "E.CURSOR.EXPIRED",
    });
  });

  it("[C24] a permanent refusal ends the client's event stream, and after a temporary one it reconnects", async () => {
    await expect(takeIds(clientWithStreams(event("1") + fault("E.AUTH.INVALID_TOKEN")).client.events(), 2)).rejects.toMatchObject(
      {
        code: "E.AUTH.INVALID_TOKEN",
      },
    );
    const denied = new Response(JSON.stringify({ error: "E.AUTH.FORBIDDEN", message: "m" }), { status: 403 });
    await expect(takeIds(clientWithStreams(denied).client.events(), 1)).rejects.toMatchObject({ status: 403 });
    expect(await takeIds(clientWithStreams(event("1") + fault("E.OVERLOADED"), event("2")).client.events(), 2)).toEqual([
      "1",
      "2",
    ]);
  });

  it("[C24] the client's event stream pauses twice as long after every loss in a row, up to five seconds, and begins anew once something arrived", async () => {
    const pauses: number[] = [];
    let connections = 0;
    const client = createClient({
      url: "http://s",
      environment: {
        fetch: async () => {
          connections += 1;
          if (connections !== 8) throw new TypeError("nobody");
          return new Response(event("1"), { headers: { "content-type": "text/event-stream" } });
        },
        pause: (ms, signal) => {
          if (ms >= 30_000) return new Promise((_, reject) => signal?.addEventListener("abort", () => reject(signal.reason)));
          pauses.push(ms);
          return pauses.length < 10 ? Promise.resolve() : Promise.reject(new Error("enough"));
        },
        random: () => 1 - Number.EPSILON,
      },
    });

    await expect(takeIds(client.events(), 2)).rejects.toThrow("enough");

    expect(pauses.map(Math.round)).toEqual([200, 400, 800, 1_600, 3_200, 5_000, 5_000, 200, 400, 800]);
  });

  it("[C24] the client's event stream reads characters that the network cut in two", async () => {
    const bytes = new TextEncoder().encode(`id: 1\ndata: ${JSON.stringify({ id: "gr\u00fcn \u{1f30a}" })}\n\n`);
    const body = new ReadableStream({
      start(controller) {
        for (const byte of bytes) controller.enqueue(Uint8Array.of(byte));
        controller.close();
      },
    });
    const { client } = clientWithStreams(new Response(body, { headers: { "content-type": "text/event-stream" } }));

    expect(await takeIds(client.events(), 1)).toEqual(["gr\u00fcn \u{1f30a}"]);
  });

  it("[C24] the client's event stream reconnects behind the cursor that came with a refusal", async () => {
    const { client, cursors } = clientWithStreams(event("1") + fault("E.OVERLOADED", "60"), event("61"));

    expect(await takeIds(client.events(), 2)).toEqual(["1", "61"]);
    expect(cursors).toEqual([undefined, "60"]);
  });

  it("[C24] the client's event stream gives up a connection that was silent for a whole watch", async () => {
    const { promise: watchedTooOften, reject } = Promise.withResolvers<never>();
    let watches = 0;
    let connections = 0;
    const client = createClient({
      url: "http://s",
      environment: {
        fetch: async (_, { signal }) => {
          connections += 1;
          const body =
            connections > 1
              ? event("7")
              : new ReadableStream({ start: (c) => signal?.addEventListener("abort", () => c.error(signal.reason)) });
          return new Response(body, { headers: { "content-type": "text/event-stream" } });
        },
        pause: (ms) => {
          if (ms < 45_000) return ms < 30_000 ? Promise.resolve() : new Promise(() => undefined);
          watches += 1;
          if (watches <= 2) return Promise.resolve();
          if (connections === 1) reject(new Error("a silent connection is watched for ever"));
          return new Promise(() => undefined);
        },
      },
    });

    expect(await Promise.race([takeIds(client.events(), 1), watchedTooOften])).toEqual(["7"]);
  });

  it("[C24] the client's event stream ends with the caller's own reason when it is aborted", async () => {
    const stopping = new AbortController();
    const { client } = clientWithStreams(event("1"));

    const reading = (async () => {
      for await (const _ of client.events({ signal: stopping.signal })) stopping.abort("enough");
    })();

    await expect(reading).rejects.toBe("enough");
  });
});

describe("the text of events", () => {
  it("[C24] the SSE parser reads events whatever the chunk size, line endings and comments", () => {
    const text = ": alive\r\n\r\nid: 1\r\nevent: a\r\ndata: x\r\ndata: y\r\n\r\nretry: 5\n\nid: 2\rdata:z\r\rdata: cut off";
    for (let size = 1; size <= text.length; size += 1) {
      const parser = createSseParser();
      const found = [];
      for (let at = 0; at < text.length; at += size) found.push(...parser.push(text.slice(at, at + size)));

      expect(found).toEqual([
        { id: "1", type: "a", data: "x\ny" },
        { id: "2", type: "message", data: "z" },
      ]);
    }
  });
});
