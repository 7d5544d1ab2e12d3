import { EventEmitter, once } from "node:events";
import type { ServerResponse } from "node:http";
import { connect, type Socket } from "node:net";
import { createFakeEnvironment } from "@astraflow/services/testing";
import { afterEach, describe, expect, it } from "vitest";
import { createMetricsRegistry } from "../../environment/metrics-registry.ts";
import { type DoorsFixture, openDoorsFixture } from "../../testing/doors-fixture.ts";
import { openSlowSender } from "../../testing/slow-sender.ts";
import { type AnswerLimits, UnreadAnswers } from "./unread-answers.ts";

const KiB = 1024;

/** A response whose caller takes what a test says. */
class HeldResponse extends EventEmitter {
  writableLength = 0;
  written = 0;
  isEnded = false;
  destroyed = false;
  readonly socket = { bytesWritten: 0 };

  write(piece: Buffer): boolean {
    this.written += piece.length;
    this.socket.bytesWritten += piece.length;
    this.writableLength += piece.length;
    return false;
  }
  take(): void {
    this.writableLength = 0;
    this.emit("drain");
  }
  end(): void {
    this.isEnded = true;
  }
  destroy(): void {
    this.destroyed = true;
    this.emit("close");
  }
}

function openAnswers(limits: Partial<AnswerLimits> = {}) {
  const environment = createFakeEnvironment();
  const metrics = createMetricsRegistry();
  const answers = new UnreadAnswers(environment, metrics, { checkBytes: 1, ...limits });
  const write = (user: string, bytes: number) => {
    const response = new HeldResponse();
    answers.writeBody(response as unknown as ServerResponse, Buffer.alloc(bytes), { tenant: "default", user });
    return response;
  };
  return { environment, metrics, answers, write };
}

describe("answers that nobody takes", () => {
  it("[A1450] a large answer is written in pieces, each when the one before has left", () => {
    const response = openAnswers().write("ann", 200 * KiB);

    expect([response.written, response.isEnded]).toEqual([64 * KiB, false]);
    response.take();
    expect(response.written).toBe(128 * KiB);
    response.take();
    response.take();
    expect([response.written, response.isEnded]).toEqual([200 * KiB, true]);
  });

  it("[A1451] when too much waits in all answers, those are cut off that nobody has taken anything of for longest, and it is counted", () => {
    const { environment, metrics, write } = openAnswers({
      waitingBytesTotalMax: 1_000 * KiB,
      waitingBytesPerUserMax: 1_000 * KiB,
    });
    const silent = write("ann", 300 * KiB);
    const reading = write("ann", 400 * KiB);
    environment.advance(2_000);
    reading.take();
    environment.advance(1_000);
    const fresh = write("bob", 380 * KiB);

    expect([silent, reading, fresh].map(({ destroyed }) => destroyed)).toEqual([true, false, false]);
    const page = metrics.render();
    expect(page).toContain('http_answers_cut_total{tenant="default",reason="total"} 1');
    expect(page).toContain("http_answers_unread 2");
  });

  it("[A1452] an answer that nobody takes anything of for --answer-timeout ends, one that is taken slowly does not", () => {
    const { environment, metrics, write } = openAnswers({ stalledMs: 30_000 });
    const silent = write("ann", 500 * KiB);
    const slow = write("ann", 500 * KiB);

    for (let second = 0; second < 33; second += 1) {
      if (second % 6 === 0) slow.take();
      environment.advance(1_000);
    }

    expect([silent.destroyed, slow.destroyed]).toEqual([true, false]);
    expect(metrics.render()).toContain('http_answers_cut_total{tenant="default",reason="stalled"} 1');
  });

  it("[A1456] an answer for a caller that has gone is neither written nor counted", () => {
    const { answers, metrics } = openAnswers();
    const gone = new HeldResponse();
    gone.destroy();
    const caller = { tenant: "default", user: "ann" };

    answers.writeBody(gone as unknown as ServerResponse, Buffer.alloc(200 * KiB), caller);
    answers.watch(gone as unknown as ServerResponse, caller, true);

    expect(gone.written).toBe(0);
    expect(metrics.render()).toMatch(/http_answers_unread 0\n/);
    expect(metrics.render()).toMatch(/http_answer_waiting_bytes 0\n/);
  });

  it("[A1453] a user whose answers wait unread gets no further large one, another user does, and reading makes room", () => {
    const { answers, write } = openAnswers({ waitingBytesPerUserMax: 300 * KiB });
    const ann = { tenant: "default", user: "ann" };
    expect(answers.capacityFault(ann, 400 * KiB)).toBeNull();
    const first = write("ann", 200 * KiB);

    expect(answers.capacityFault(ann, 200 * KiB)).toMatchObject({
      code: "E.OVERLOADED",
      message: expect.stringContaining("ann left 204800 bytes of answers unread"),
    });
    expect(answers.capacityFault({ ...ann, user: "bob" }, 200 * KiB)).toBeNull();
    expect(answers.capacityFault({ ...ann, tenant: "other" }, 200 * KiB)).toBeNull();
    first.emit("close");
    expect(answers.capacityFault(ann, 200 * KiB)).toBeNull();
  });
});

describe("connections that do not read", () => {
  let fixture: DoorsFixture;
  const sockets: Socket[] = [];
  afterEach(async () => {
    for (const socket of sockets.splice(0)) socket.destroy();
    await fixture.stop();
  });

  /** Far more than the kernel takes for a peer that does not read. */
  const largePage = "x".repeat(40 * 1024 * KiB);
  const get = (path: string) => `GET ${path} HTTP/1.1\r\nhost: x\r\n\r\n`;
  async function openSilent(text: string): Promise<Socket> {
    const socket = connect(fixture.port, "127.0.0.1").pause();
    sockets.push(socket);
    await once(socket, "connect");
    socket.write(text);
    return socket;
  }
  const metric = (name: string): number => Number(new RegExp(`^${name} (\\d+)$`, "m").exec(fixture.metrics.render())?.[1] ?? 0);

  it("[A1454] of the requests that a connection sends at once, one is answered at a time: what waits is one answer", async () => {
    fixture = await openDoorsFixture({ page: largePage });
    await openSilent(get("/").repeat(50));

    await expect.poll(() => metric("http_answer_waiting_bytes")).toBeGreaterThan(0);
    // A request on another connection, answered after the first chunk was read.
    expect((await fetch(`${fixture.http}/healthz`)).status).toBe(200);
    expect(metric("http_answers_unread")).toBe(1);
    expect(metric("http_answer_waiting_bytes")).toBeLessThan(largePage.length + 1024 * KiB);
  });

  it("[A1454] requests that are sent at once are answered in order, and all of them", async () => {
    fixture = await openDoorsFixture();
    const sender = await openSlowSender(fixture.port);
    const paths = Array.from({ length: 40 }, (_, at) => (at % 2 === 0 ? "/healthz" : `/nothing-${at}`));
    sender.send(paths.map(get).join(""));
    sender.send("GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");

    const text = await sender.closed;

    const statuses = [...text.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => status);
    expect(statuses).toEqual([...paths.map((path) => (path === "/healthz" ? "200" : "404")), "200"]);
  });

  it("[A1455] a connection with more than 100 requests waiting is closed and counted, others are answered", async () => {
    fixture = await openDoorsFixture({ page: largePage });
    const socket = await openSilent(get("/").repeat(150));

    // The close shows only to one who reads.
    await expect.poll(() => metric("http_pipelines_cut_total")).toBe(1);
    const closed = once(socket, "close");
    socket.on("error", () => socket.destroy()).resume();
    await closed;
    expect((await fetch(`${fixture.http}/healthz`)).status).toBe(200);
  });

  it("[A1452] a connection that takes nothing of its answer is closed after the time for that", async () => {
    fixture = await openDoorsFixture({ page: largePage, answerLimits: { stalledMs: 5_000 } });
    await openSilent(get("/"));
    await expect.poll(() => metric("http_answers_unread")).toBe(1);

    fixture.environment.advance(1_000);
    fixture.environment.advance(6_000);

    await expect.poll(() => metric("http_answers_unread")).toBe(0);
    expect(fixture.metrics.render()).toContain('http_answers_cut_total{tenant="",reason="stalled"} 1');
  });
});
