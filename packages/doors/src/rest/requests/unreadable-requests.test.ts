import { connect } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { type DoorsFixture, openDoorsFixture } from "../../testing/doors-fixture.ts";

let fixture: DoorsFixture;
afterEach(() => fixture.stop());

/** Sends bytes as they are and reads until the server closes. */
function exchange(sent: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(fixture.port, "127.0.0.1");
    let received = "";
    socket.setEncoding("utf8");
    socket.on("data", (text: string) => {
      received += text;
    });
    socket.on("end", () => socket.end());
    socket.on("close", () => resolve(received));
    socket.on("error", reject);
    socket.write(sent);
  });
}

const bodyOf = (answer: string) => JSON.parse(answer.slice(answer.indexOf("\r\n\r\n") + 4));
const allowOf = (answer: string) => /^allow: (.*)$/im.exec(answer)?.[1]?.trim();

describe("requests that no route sees", () => {
  it("[A620] a request whose address and headers are too large is answered 431 with the one error body, and its connection is not reset", async () => {
    fixture = await openDoorsFixture();

    for (const head of [
      `GET /api/v1/runs?q=${"a".repeat(200_000)} HTTP/1.1\r\nhost: x\r\n\r\n`,
      `GET / HTTP/1.1\r\nx: ${"a".repeat(200_000)}\r\n\r\n`,
    ]) {
      const answer = await exchange(head);

      expect(answer).toMatch(/^HTTP\/1\.1 431 /);
      expect(bodyOf(answer)).toMatchObject({
        error: "E.REQUEST.HEAD_TOO_LARGE",
        message: expect.any(String),
        requestId: expect.any(String),
      });
    }
  });

  it("[A620] input that is not HTTP, and a method that HTTP does not know, are answered 400 with the one error body", async () => {
    fixture = await openDoorsFixture();

    for (const sent of [
      "hello\r\n\r\n",
      "FETCH /healthz HTTP/1.1\r\nhost: x\r\n\r\n",
      "GET /healthz HTTP/1.1\r\nbad header\r\n\r\n",
    ]) {
      const answer = await exchange(sent);

      expect(answer).toMatch(/^HTTP\/1\.1 400 /);
      expect(bodyOf(answer)).toMatchObject({ error: "E.REQUEST.INVALID", requestId: expect.any(String) });
    }
  });

  it("[A621] a method that a path does not have is answered 405 with what the path answers in Allow, whatever method and body it is", async () => {
    fixture = await openDoorsFixture();
    const body = "content-type: text/plain\r\ncontent-length: 2\r\n\r\n{}";

    for (const method of ["QUERY", "PUT", "TRACE", "OPTIONS", "PROPFIND"])
      for (const rest of ["\r\n", body]) {
        const answer = await exchange(`${method} /api/v1/runs/r1 HTTP/1.1\r\nhost: x\r\nconnection: close\r\n${rest}`);

        expect(answer).toMatch(/^HTTP\/1\.1 405 /);
        expect(allowOf(answer)).toBe("GET, HEAD");
        expect(bodyOf(answer)).toMatchObject({ error: "E.ROUTE.METHOD" });
      }
  });

  it("[A621] a path that is written out answers its own methods only, not those of a path with a parameter in its place", async () => {
    fixture = await openDoorsFixture();
    const headers = { authorization: "Bearer secret-a" };
    const ask = async (method: string, path: string) => {
      const answer = await fetch(fixture.http + path, { method, headers });
      await answer.text();
      return [answer.status, answer.headers.get("allow")];
    };

    expect(await ask("GET", "/api/v1/runs/bulk")).toEqual([405, "POST"]);
    expect(await ask("DELETE", "/api/v1/workflows/import?ids=keep")).toEqual([405, "POST"]);
    expect(await ask("DELETE", "/api/v1/resources/uploads")).toEqual([405, "POST"]);
    expect(await ask("DELETE", "/api/v1/users/me")).toEqual([405, "GET, HEAD, PATCH"]);
    expect(await ask("PATCH", "/api/v1/resources/uploads/u1")).toEqual([405, "GET, HEAD, DELETE"]);
  });
});
