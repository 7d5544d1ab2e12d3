import { connect } from "node:net";
import { describe, expect, it } from "vitest";
import { bindServer } from "./http-server.ts";

describe("the socket of the scheduler", () => {
  it("[D95] the HTTP server ends connections that never finish a request soon after their timeout, not half a minute later", async () => {
    const bound = await bindServer({ host: "127.0.0.1", port: 0 }, null);
    bound.server.headersTimeout = 200;
    bound.server.requestTimeout = 400;
    const silent = connect(bound.port, "127.0.0.1");
    const slow = connect(bound.port, "127.0.0.1");
    slow.write("GET /ws/worker HTTP/1.1\r\nHost: a\r\n");

    const ended = [silent, slow].map(
      (socket) =>
        new Promise<string>((resolve) => {
          const received: string[] = [];
          socket.on("data", (data: Buffer) => received.push(String(data)));
          socket.on("close", () => resolve(received.join("")));
        }),
    );

    const answers = await Promise.all(ended);
    for (const answer of answers) expect(answer).toMatch(/^HTTP\/1.1 408 /);
    await bound.close();
  }, 10_000);

  it("[O114] a scheduler that is starting answers every request with 503 and E.STARTING, not as one that shuts down", async () => {
    const bound = await bindServer({ host: "127.0.0.1", port: 0 }, null);

    const answer = await fetch(`http://127.0.0.1:${bound.port}/readyz`);
    const body = await answer.json();
    await bound.close();

    expect([answer.status, answer.headers.get("retry-after")]).toEqual([503, "1"]);
    expect(body).toEqual({ error: "E.STARTING", message: "the scheduler is starting; try again in a moment" });
  });
});
