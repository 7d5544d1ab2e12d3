import { readdirSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { CheckerRunner } from "./checker-runner.ts";
import { checkers } from "./checker-table.ts";
import { ObservationScript, violationOf } from "./testing/observation-script.ts";

describe("the checker", () => {
  it("[X39] the checker runner merges the log pages of several readers, each fact once and in the order of commits", () => {
    const fact = (position: number, type: string, data: object = {}) => ({
      position,
      at: position,
      subject: "run/r1",
      type,
      data: { ...data },
    });
    const first = {
      items: [
        fact(1, "run.created", { client: "r1" }),
        fact(2, "task.granted", { task: "r1.0", fence: 5, worker: "t1/w1", attempt: 1 }),
      ],
      next: 2,
      head: 3,
      floor: 0,
    };
    const second = {
      items: [...first.items, fact(3, "task.requeued", { task: "r1.0", fence: 5, from: "t1/w1" })],
      next: 3,
      head: 3,
      floor: 0,
    };
    const script = new ObservationScript().start("r1").tail(0, first).tail(0, second, "s2");

    expect(violationOf(script, "single-lease")).toContain("did not rise with task.requeued at position 3");
  });

  it("[X39] the checker runner keeps the first violation of each checker, with its time and what it is about", () => {
    const script = new ObservationScript().start("r1").start("r2").wait(70).read();

    expect(script.runChecker("durable").violations).toEqual([
      { checker: "durable", message: "the start of run r1 was answered and is not in the log", at: 70, n: 10, about: ["r1"] },
    ]);
  });

  it("[X39] the checker runner reports how much each checker saw, so that one that saw nothing is noticed", () => {
    expect(new CheckerRunner().finish().saw).toEqual(Object.fromEntries(Object.keys(checkers).map((name) => [name, 0])));
  });

  it("[X39] every registered checker has a test of its own", () => {
    const folders = ["runs", "tasks", "sessions", "workflows", "log"];
    const files = folders.flatMap((folder) => readdirSync(join(import.meta.dirname, folder)).map((file) => `${folder}/${file}`));
    const sources = files.filter((file) => !file.endsWith(".test.ts"));

    expect(sources.length).toBe(Object.keys(checkers).length);
    expect(files).toEqual(expect.arrayContaining(sources.map((file) => file.replace(/\.ts$/, ".test.ts"))));
  });
});
