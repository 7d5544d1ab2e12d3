import { describe, expect, it } from "vitest";
import { caught, passed, Script } from "./testing/script.ts";

const ask = (script: Script, commandId = "c1", key: string | null = null) =>
  script.exchange("kickWorker", { params: { workerId: "w1" }, key }, { status: 202, body: { commandId } });
const ended = (script: Script, type = "command.acked", id = "c1") => script.commit(["worker/t1/w1", type, { id }]).read();
const show = (script: Script, status: string, asOf: number) =>
  script.exchange("getCommand", { params: { commandId: "c1" } }, { status: 200, body: { commandId: "c1", status, asOf } });
const over = (script: Script) => script.phase("converged", true).phase("end");

describe("commands", () => {
  it("[X75] finds an order that never ends, also where its answer was lost, and one that ends twice", () => {
    const unheard = () =>
      new Script()
        .joined("w1")
        .commit(["worker/t1/w1", "audit.worker.kick", { target: "w1", command: "c1", outcome: "ok", by: "ada" }]);

    expect(passed(over(ended(ask(new Script()))), "commands")).toBe(true);
    expect(caught(over(ask(new Script()).read()), "commands")).toContain(
      "kickWorker of t1 was accepted, and command t1 c1 never",
    );
    expect(caught(over(unheard().read()), "commands")).toContain("audit.worker.kick stands in the log of t1");
    expect(over(unheard().commit(["worker/t1/w1", "worker.left"]).read()).judge("commands").violations).toEqual([]);
    expect(caught(ended(ended(ask(new Script())), "command.failed"), "commands")).toContain(
      "is acked at position 1 and ends again",
    );
  });

  it("[X75] finds a document that says otherwise than the log as of its position", () => {
    expect(passed(show(ended(show(ask(new Script()), "sent", 0)), "acked", 1), "commands")).toBe(true);
    expect(caught(show(ended(ask(new Script())), "sent", 1), "commands")).toContain("is sent, true at 1; the log says acked");
    expect(caught(show(ended(ask(new Script()), "command.failed"), "acked", 1), "commands")).toContain("the log says failed");
  });

  it("[X75] finds two orders under one key", () => {
    expect(passed(ask(ask(new Script(), "c1", "k"), "c1", "k"), "commands")).toBe(true);
    expect(caught(ask(ask(new Script(), "c1", "k"), "c2", "k"), "commands")).toContain("stands for command t1 c1 and for t1 c2");
  });
});
