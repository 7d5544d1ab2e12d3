// The package `shell` in a real child host, with real programs.

import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { pollUntil } from "../system/harness/processes.ts";
import { ExamplePackage, makeFolder } from "./harness/example-package.ts";

const programs = [
  "/bin/cat",
  "/usr/bin/sort",
  "/usr/bin/head",
  "/usr/bin/yes",
  `node=${process.execPath}`,
  "gone=/no/such/program",
];

const openShell = (env: Record<string, string> = {}) =>
  ExamplePackage.open("shell", { SHELL_PACKAGE_PROGRAMS: programs.join(", "), ...env });

/** A program of these lines. */
const node = (source: string, ...args: string[]) => ({ program: "node", args: ["-e", source, ...args] });

const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
};

describe("shell.run", () => {
  it("[W1370] a program gets its arguments as they are and its input, runs in a folder of its task, and its output is streamed and returned", async () => {
    const shell = await openShell();
    const hostile = "$(touch /tmp/owned); `id` {{input.x}} ' \" *";
    const source = `console.log(JSON.stringify([process.argv.slice(1), process.cwd()]));
      console.error("a note");
      process.stdin.pipe(process.stdout)`;

    const task = shell.start("shell.run", { ...node(source, hostile, "two words"), stdin: "typed" });
    const { result } = await shell.end(task, "shell.run");

    const [line = "", rest] = String(result["stdout"]).split("\n");
    const [args, folder] = JSON.parse(line) as [string[], string];
    expect(args).toEqual([hostile, "two words"]);
    expect(rest).toBe("typed");
    expect(folder).toContain(task);
    expect(result).toMatchObject({ exitCode: 0, stderr: "a note\n", isTruncated: false });
    expect(shell.text(task, "stdout")).toBe(result["stdout"]);
    expect(shell.text(task, "stderr")).toBe("a note\n");
  });

  it("[W1371] only the programs of the worker's list are started, by their names there; without a list none", async () => {
    const [shell, bare] = [await openShell(), await ExamplePackage.open("shell")];
    const refused = (message: string) => ({ code: "E.RUNNER.REFUSED", message: expect.stringContaining(message) });

    for (const program of ["sh", "/bin/cat", "../bin/cat", "__proto__"])
      await expect(shell.run("shell.run", { program })).rejects.toMatchObject(
        refused("it allows cat, sort, head, yes, node, gone"),
      );
    await expect(bare.run("shell.run", { program: "cat" })).rejects.toMatchObject(
      refused('this worker does not allow the program "cat"; it allows none (SHELL_PACKAGE_PROGRAMS lists them)'),
    );
    const relative = await openShell({ SHELL_PACKAGE_PROGRAMS: "cat" });
    await expect(relative.run("shell.run", { program: "cat" })).rejects.toMatchObject(refused("each entry is an absolute path"));
  });

  it("[W1371] a program sees a plain environment, what the worker passes on, and of the task's variables only those that are allowed", async () => {
    const shell = await openShell({ SHELL_PACKAGE_ENV: "TEAM,COLOUR", TEAM: "blue", COLOUR: "red", HIDDEN: "yes" });
    const source = "console.log(JSON.stringify(process.env))";

    const { stdout } = await shell.result("shell.run", { ...node(source), env: { COLOUR: "green" } });

    const seen = JSON.parse(String(stdout)) as Record<string, string>;
    expect(seen).toMatchObject({ TEAM: "blue", COLOUR: "green", PATH: "/usr/local/bin:/usr/bin:/bin" });
    expect(seen).not.toHaveProperty("HIDDEN");
    await expect(shell.run("shell.run", { ...node(source), env: { LD_PRELOAD: "/tmp/x.so" } })).rejects.toMatchObject({
      code: "E.RUNNER.REFUSED",
      message: expect.stringContaining("does not let tasks set the variable LD_PRELOAD; it allows TEAM, COLOUR"),
    });
  });

  it("[W1372] another exit code, a signal and a program that is not there fail the task with E.RUNNER.FAILURE and the reason", async () => {
    const shell = await openShell();
    const fails = node("console.error('no such order'); process.exit(3)");
    const failure = (message: string) => ({ code: "E.RUNNER.FAILURE", message: expect.stringContaining(message) });

    await expect(shell.run("shell.run", fails)).rejects.toMatchObject(failure("node ended with exit code 3: no such order"));
    await expect(shell.run("shell.run", node("process.kill(process.pid, 'SIGTERM')"))).rejects.toMatchObject(
      failure("node was ended by SIGTERM"),
    );
    await expect(shell.run("shell.run", { program: "gone" })).rejects.toMatchObject(failure("gone cannot be started"));
    expect(await shell.result("shell.run", { ...fails, okExitCodes: [0, 3] })).toMatchObject({ exitCode: 3 });
  });

  it("[W1373] a program that takes too long ends with E.TIMEOUT, one that prints too much with E.RUNNER.OUTPUT, and both are gone then", async () => {
    const shell = await openShell();
    const note = join(makeFolder(), "pid");
    const announce = `require("fs").writeFileSync(${JSON.stringify(note)}, String(process.pid));`;
    const waits = node(`${announce} console.error("still at it"); setInterval(() => {}, 1000)`);
    const floods = node(`${announce} setInterval(() => console.log("x".repeat(1000)), 1)`);

    for (const [params, code, message] of [
      [{ ...waits, timeoutMs: 1_500 }, "E.TIMEOUT", "node took more than 1500 ms"],
      [{ ...floods, maxOutputBytes: 5_000 }, "E.RUNNER.OUTPUT", "the programs printed more than 5000 bytes"],
    ] as const) {
      await expect(shell.run("shell.run", params)).rejects.toMatchObject({ code, message: expect.stringContaining(message) });
      const pid = Number(readFileSync(note, "utf8"));
      await pollUntil("the end of the program", async () => !isAlive(pid));
    }
  });

  it("[W1373] a cancelled task ends its program and what that has started", async () => {
    const shell = await openShell();
    const source = `const child = require("child_process").spawn(process.execPath, ["-e", "setInterval(() => {}, 1000)"], { stdio: "ignore" });
      console.log(process.pid + " " + child.pid); setInterval(() => {}, 1000)`;
    const task = shell.start("shell.run", node(source));
    await shell.until(() => shell.text(task, "stdout").endsWith("\n"));
    const pids = shell.text(task, "stdout").trim().split(" ").map(Number);

    await shell.cancel(task);

    expect(pids).toHaveLength(2);
    for (const pid of pids) await pollUntil("the end of the programs", async () => !isAlive(pid));
  });

  it("[W1373] a result has the end of a long output, and says so", async () => {
    const shell = await openShell();

    const result = await shell.result("shell.run", node("process.stdout.write('a'.repeat(100000) + 'end')"));

    expect(String(result["stdout"])).toHaveLength(64 * 1024);
    expect(result).toMatchObject({ isTruncated: true, outputBytes: 100_003, stdout: expect.stringMatching(/aend$/) });
  });
});

describe("shell.pipe", () => {
  it("[W1374] each program reads what the one before prints, and one that has read enough ends those before it", async () => {
    const shell = await openShell();
    const sorted = await shell.result("shell.pipe", {
      programs: [{ program: "cat" }, { program: "sort", args: ["-r"] }, { program: "head", args: ["-n", "2"] }],
      stdin: "b\na\nc\n",
    });
    const some = await shell.result("shell.pipe", { programs: [{ program: "yes" }, { program: "head", args: ["-n", "1"] }] });

    expect(sorted).toMatchObject({ exitCodes: [0, 0, 0], stdout: "c\nb\n" });
    // The first one ends by a signal or by an error of its own, as the system tells it of the closed pipe.
    expect(some).toMatchObject({ exitCodes: [expect.toSatisfy((code) => code !== 0), 0], stdout: "y\n" });
  });

  it("[W1374] a pipeline fails with the first program that failed, and one that is not allowed keeps all from being started", async () => {
    const shell = await openShell();
    const note = join(makeFolder(), "note");
    const writes = node(`require("fs").writeFileSync(${JSON.stringify(note)}, "")`);

    await expect(
      shell.run("shell.pipe", { programs: [node("console.error('bad input'); process.exit(2)"), { program: "cat" }] }),
    ).rejects.toMatchObject({ code: "E.RUNNER.FAILURE", message: "node ended with exit code 2: bad input" });
    await expect(shell.run("shell.pipe", { programs: [writes, { program: "sh" }] })).rejects.toMatchObject({
      code: "E.RUNNER.REFUSED",
    });
    expect(existsSync(note)).toBe(false);
  });
});
