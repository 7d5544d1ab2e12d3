import { describe, expect, it } from "vitest";
import { chainFlow } from "./testing/flows.ts";
import { caught, passed, Script } from "./testing/script.ts";

const begun = () => new Script().start("r1").created("r1");
const dead = (script: Script, task = "r1.0") => script.tells(task, "task.dead", { code: "E.X" });
const failed = (script: Script, task = "r1.0") => script.tells(task, "task.failed", { error: { code: "E.X" } });
const shows = (script: Script, ...tasks: string[]) =>
  script.read().exchange("listDeadLetters", {}, { status: 200, body: { items: tasks.map((taskId) => ({ taskId })) } });

describe("letters", () => {
  it("[X68] finds a task that failed for good and was not called dead, and one that somebody else answers for", () => {
    const chain = () => new Script().startFlow("r1", chainFlow()).created("r1");

    expect(passed(failed(dead(begun())).read(), "letters")).toBe(true);
    expect(caught(failed(begun()).read(), "letters")).toContain("was not called dead");
    expect(passed(failed(chain(), "r1.0~1").read(), "letters")).toBe(true);
    expect(caught(failed(dead(chain(), "r1.0~1"), "r1.0~1").read(), "letters")).toContain("was called dead");
    expect(caught(dead(dead(begun())).read(), "letters")).toContain("dead again");
  });

  it("[X68] finds a letter that is missing at the end, and one too many", () => {
    expect(passed(shows(failed(dead(begun())), "r1.0"), "letters")).toBe(true);
    expect(caught(shows(failed(dead(begun()))), "letters")).toContain("there is no letter of it");
    expect(caught(shows(begun(), "r1.0"), "letters")).toContain("which is not dead");
  });
});
