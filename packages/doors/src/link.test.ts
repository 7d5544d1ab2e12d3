import type { Command, Inbound, LeaveWorker } from "@astraflow/engine";
import { describe, expect, it } from "vitest";
import { createLink, type Link } from "./link.ts";

const leave = (session: string): LeaveWorker => ({ type: "worker.leave", tenant: "t", worker: "t/w", session, reason: "gone" });

function openLink(): { link: Link; pushed: (readonly Inbound[])[]; problems: unknown[] } {
  const pushed: (readonly Inbound[])[] = [];
  const problems: unknown[] = [];
  return {
    link: createLink((items) => void pushed.push(items), { report: (problem) => void problems.push(problem) }),
    pushed,
    problems,
  };
}

const tick = () => new Promise<void>((resolve) => setImmediate(resolve));

describe("link", () => {
  it("[D1] sends all commands of one tick as one batch, in order", async () => {
    const { link, pushed } = openLink();

    for (const session of ["a", "b", "c"]) link.post(leave(session), () => undefined);
    await tick();
    link.post(leave("d"), () => undefined);
    await tick();

    expect(pushed.map((batch) => batch.map(({ command }) => (command as LeaveWorker).session))).toEqual([["a", "b", "c"], ["d"]]);
  });

  it("[D1] gives each answer to whoever asked, in whatever order answers come", async () => {
    const { link, pushed } = openLink();
    const heard: string[] = [];
    link.post(leave("a"), (body) => void heard.push(`a ${body?.of}`));
    link.post(leave("b"), (_body, why) => void heard.push(`b ${why?.code}`));
    await tick();
    const [a, b] = pushed[0] ?? [];

    link.deliver([
      { type: "answer", ref: b?.ref ?? 0, body: null, fault: { code: "E.NOT_FOUND", message: "no" } },
      { type: "answer", ref: a?.ref ?? 0, body: { of: "word", applied: true }, fault: null },
      { type: "answer", ref: a?.ref ?? 0, body: { of: "word", applied: true }, fault: null },
    ]);

    expect(heard).toEqual(["b E.NOT_FOUND", "a word"]);
    expect(link.pending).toBe(0);
  });

  it("[D1] rejects a question with the fault it was answered with, and an unknown code with E.INTERNAL", async () => {
    const { link, pushed } = openLink();
    const known = link.ask(leave("a"));
    const strange = link.ask(leave("b"));
    await tick();
    const [a, b] = pushed[0] ?? [];

    link.deliver([
      { type: "answer", ref: a?.ref ?? 0, body: null, fault: { code: "E.RUN.TERMINAL", message: "over", details: { run: "r" } } },
      { type: "answer", ref: b?.ref ?? 0, body: null, fault: { code: "E.FROM.TOMORROW", message: "?" } },
    ]);

    await expect(known).rejects.toMatchObject({ code: "E.RUN.TERMINAL", message: "over", details: { run: "r" } });
    await expect(strange).rejects.toMatchObject({ code: "E.INTERNAL" });
  });

  it("[D2] answers everything pending and everything later with a fault once the engine is gone", async () => {
    const { link, pushed } = openLink();
    const early = link.ask(leave("a"));
    await tick();

    link.close({ code: "E.SHUTTING_DOWN", message: "going" });
    const late = link.ask(leave("b"));

    await expect(early).rejects.toMatchObject({ code: "E.SHUTTING_DOWN" });
    await expect(late).rejects.toMatchObject({ code: "E.SHUTTING_DOWN" });
    expect(pushed).toHaveLength(1);
  });

  it("[D2] answers a batch that could not be pushed", async () => {
    const problems: unknown[] = [];
    const broken = new Error("thread has ended");
    const link = createLink(
      () => {
        throw broken;
      },
      { report: (problem) => void problems.push(problem) },
    );

    await expect(link.ask(leave("a"))).rejects.toMatchObject({ code: "E.INTERNAL" });
    expect(problems).toEqual([broken]);
  });

  it("[D1] keeps telling the others when one listener throws, and reports it", () => {
    const { link, problems } = openLink();
    const heard: (number | null)[] = [];
    link.on("log", () => {
      throw new Error("a bug");
    });
    const stop = link.on("log", ({ head }) => void heard.push(head));

    link.deliver([{ type: "log", tenant: "t", head: 7 }]);
    stop();
    link.deliver([{ type: "log", tenant: "t", head: 8 }]);

    expect(heard).toEqual([7]);
    expect(problems).toHaveLength(2);
  });

  it("[D1] never calls back before post has returned", async () => {
    const { link } = openLink();
    let hasReturned = false;
    const order: boolean[] = [];
    link.close({ code: "E.SHUTTING_DOWN", message: "going" });

    link.post(leave("a") satisfies Command, () => void order.push(hasReturned));
    hasReturned = true;
    await tick();

    expect(order).toEqual([true]);
  });
});
