import type { Command, CommandRequest, LeaveWorkerCommand } from "@astraflow/engine";
import { describe, expect, it } from "vitest";
import { EngineClient } from "./engine-client.ts";

const leave = (session: string): LeaveWorkerCommand => ({
  type: "worker.leave",
  tenant: "t",
  worker: "t/w",
  session,
  reason: "gone",
});

function openClient(): { engineClient: EngineClient; pushed: (readonly CommandRequest[])[]; problems: unknown[] } {
  const pushed: (readonly CommandRequest[])[] = [];
  const problems: unknown[] = [];
  return {
    engineClient: new EngineClient((items) => void pushed.push(items), { report: (problem) => void problems.push(problem) }),
    pushed,
    problems,
  };
}

const tick = () => new Promise<void>((resolve) => setImmediate(resolve));

describe("link", () => {
  it("[D1] the engine client sends all commands of one tick as one batch, in order", async () => {
    const { engineClient, pushed } = openClient();

    for (const session of ["a", "b", "c"]) engineClient.send(leave(session), () => undefined);
    await tick();
    engineClient.send(leave("d"), () => undefined);
    await tick();

    expect(pushed.map((batch) => batch.map(({ command }) => (command as LeaveWorkerCommand).session))).toEqual([
      ["a", "b", "c"],
      ["d"],
    ]);
  });

  it("[D1] the engine client gives each answer to its caller, in whatever order answers arrive", async () => {
    const { engineClient, pushed } = openClient();
    const answers: string[] = [];
    engineClient.send(leave("a"), (body) => void answers.push(`a ${body?.of}`));
    engineClient.send(leave("b"), (_body, why) => void answers.push(`b ${why?.code}`));
    await tick();
    const [a, b] = pushed[0] ?? [];

    engineClient.handleEffects([
      { type: "answer", ref: b?.ref ?? 0, body: null, fault: { code: "E.NOT_FOUND", message: "no" } },
      { type: "answer", ref: a?.ref ?? 0, body: { of: "word", applied: true }, fault: null },
      { type: "answer", ref: a?.ref ?? 0, body: { of: "word", applied: true }, fault: null },
    ]);

    expect(answers).toEqual(["b E.NOT_FOUND", "a word"]);
    expect(engineClient.pendingCount).toBe(0);
  });

  it("[D1] the engine client rejects a request with the fault it was answered with, and with E.INTERNAL for an unknown code", async () => {
    const { engineClient, pushed } = openClient();
    const known = engineClient.request(leave("a"));
    const strange = engineClient.request(leave("b"));
    await tick();
    const [a, b] = pushed[0] ?? [];

    engineClient.handleEffects([
      { type: "answer", ref: a?.ref ?? 0, body: null, fault: { code: "E.RUN.TERMINAL", message: "over", details: { run: "r" } } },
      { type: "answer", ref: b?.ref ?? 0, body: null, fault: { code: "E.FROM.TOMORROW", message: "?" } },
    ]);

    await expect(known).rejects.toMatchObject({ code: "E.RUN.TERMINAL", message: "over", details: { run: "r" } });
    await expect(strange).rejects.toMatchObject({ code: "E.INTERNAL" });
  });

  it("[D2] the engine client answers everything pending and everything later with a fault once it is closed", async () => {
    const { engineClient, pushed } = openClient();
    const early = engineClient.request(leave("a"));
    await tick();

    engineClient.close({ code: "E.SHUTTING_DOWN", message: "going" });
    const late = engineClient.request(leave("b"));

    await expect(early).rejects.toMatchObject({ code: "E.SHUTTING_DOWN" });
    await expect(late).rejects.toMatchObject({ code: "E.SHUTTING_DOWN" });
    expect(pushed).toHaveLength(1);
  });

  it("[D2] the engine client answers a batch that could not be pushed with a fault", async () => {
    const problems: unknown[] = [];
    const broken = new Error("thread has ended");
    const engineClient = new EngineClient(
      () => {
        throw broken;
      },
      { report: (problem) => void problems.push(problem) },
    );

    await expect(engineClient.request(leave("a"))).rejects.toMatchObject({ code: "E.INTERNAL" });
    expect(problems).toEqual([broken]);
  });

  it("[D1] the engine client still notifies the other listeners when one throws, and reports the error", () => {
    const { engineClient, problems } = openClient();
    const received: (number | null)[] = [];
    engineClient.on("log", () => {
      throw new Error("a bug");
    });
    const stop = engineClient.on("log", ({ head }) => void received.push(head));

    engineClient.handleEffects([{ type: "log", tenant: "t", head: 7 }]);
    stop();
    engineClient.handleEffects([{ type: "log", tenant: "t", head: 8 }]);

    expect(received).toEqual([7]);
    expect(problems).toHaveLength(2);
  });

  it("[D1] the engine client never calls back before send has returned", async () => {
    const { engineClient } = openClient();
    let hasReturned = false;
    const order: boolean[] = [];
    engineClient.close({ code: "E.SHUTTING_DOWN", message: "going" });

    engineClient.send(leave("a") satisfies Command, () => void order.push(hasReturned));
    hasReturned = true;
    await tick();

    expect(order).toEqual([true]);
  });
});
