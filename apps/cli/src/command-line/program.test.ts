import { randomUUID } from "node:crypto";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { runProgram } from "./program.ts";

async function run(...argv: string[]) {
  const output = { out: "", err: "" };
  const never = new AbortController().signal;
  const exitCode = await runProgram(argv, {
    stdout: { write: (text) => (output.out += text) },
    stderr: { write: (text) => (output.err += text) },
    env: { ASTRA_URL: "http://127.0.0.1:1" },
    stopSignal: never,
    forceStopSignal: never,
  });
  return { exitCode, ...output };
}

describe("the command line", () => {
  it("[L4] an unknown command, an unknown flag or a bad flag value ends with exit code 2 and a hint at what is valid", async () => {
    expect(await run("rnu")).toMatchObject({ exitCode: 2, err: expect.stringContaining("Did you mean run") });
    expect(await run("runs", "list", "--jsno")).toMatchObject({ exitCode: 2, err: expect.stringContaining("--json") });
    expect(await run("runs", "list", "--limit", "0")).toMatchObject({
      exitCode: 2,
      err: expect.stringContaining("from 1 to 200"),
    });
    expect(await run("run")).toMatchObject({ exitCode: 2 });
    expect(await run("runs", "list", "--status", "bogus")).toMatchObject({
      exitCode: 2,
      err: expect.stringContaining("queued, running, succeeded, failed, cancelled"),
    });
  });

  it("[L4] a usage error is printed in the format of every other error, and with --json as the API's error body", async () => {
    expect((await run("runs", "lst")).err).toMatch(
      /^error E\.REQUEST\.INVALID: unknown command 'lst'\n\(Did you mean one of list, ls\?\)/,
    );
    for (const words of [
      ["rnu", "--json"],
      ["runs", "list", "--jsno", "--json"],
      ["runs", "list", "--limit", "x", "--json"],
    ]) {
      const { exitCode, err } = await run(...words);

      expect([exitCode, JSON.parse(err)]).toEqual([2, { error: "E.REQUEST.INVALID", message: expect.stringMatching(/\S/) }]);
    }
  });

  it("[L4] help ends with exit code 0 and shows examples", async () => {
    const help = await run("run", "--help");

    expect(help).toMatchObject({ exitCode: 0, err: "" });
    expect(help.out).toContain("astra run examples/workflows/welcome.json");
    expect(await run("help")).toMatchObject({ exitCode: 0, err: "", out: expect.stringContaining("Usage: astra") });
    expect(await run("help", "run")).toMatchObject({ exitCode: 0, err: "", out: expect.stringContaining("--detach") });
  });

  it("[L51] astra --version prints the version, and run --version still selects a workflow version", async () => {
    expect(await run("--version")).toMatchObject({ exitCode: 0, err: "", out: expect.stringMatching(/^\d+\.\d+\.\d+\n$/) });
    expect(await run("run", "Kept", "--version", "1")).toMatchObject({ exitCode: 5, out: "" });
  });

  it("[L54] a flag placed before its command is refused with an example of where it belongs", async () => {
    expect(await run("-v", "runs", "list")).toMatchObject({ exitCode: 2, err: expect.stringContaining("astra runs list -v\n") });
    expect((await run("runs", "--url", "http://s", "ls")).err).toContain("astra runs list --url\n");
    expect(JSON.parse((await run("--json", "top")).err).message).toContain("astra top --json");
    expect((await run("--nope", "top")).err).not.toContain("behind");
  });

  it("[L50] top and events, too, end with exit code 5 if the scheduler is unreachable", async () => {
    for (const words of [["top"], ["events"], ["events", "--since", "0"], ["events", "--follow"]])
      expect(await run(...words)).toMatchObject({
        exitCode: 5,
        out: "",
        err: expect.stringContaining("E.UNREACHABLE"),
      });
  });

  it("[L2] a command ends with exit code 5 if the scheduler is unreachable, and prints the error as text or as JSON", async () => {
    expect(await run("runs", "list")).toMatchObject({
      exitCode: 5,
      out: "",
      err: expect.stringMatching(/^error E\.UNREACHABLE: .*127\.0\.0\.1:1.*\ntry: astra up/),
    });
    expect(JSON.parse((await run("workers", "list", "--json")).err)).toMatchObject({ error: "E.UNREACHABLE" });
  });

  it("[L4] a workflow file that does not exist ends astra run with exit code 2 before anything is sent", async () => {
    expect(await run("run", "/nowhere/at/all.json")).toMatchObject({
      exitCode: 2,
      err: expect.stringContaining("cannot be read"),
    });
  });

  it("[L5] astra doctor checks node, sqlite, disk, port and files, and lists the failpoints", async () => {
    // A folder that is not there: what a store of this checkout holds is none of this test's business.
    const dataDir = join(tmpdir(), `astra-doctor-${randomUUID()}`);
    const doctor = JSON.parse((await run("doctor", "--json", "--listen", "127.0.0.1:0", "--data-dir", dataDir)).out);
    const points = JSON.parse((await run("doctor", "--failpoints", "--json")).out);

    expect(doctor).toMatchObject({
      ok: true,
      checks: [{ name: "node" }, { name: "sqlite" }, { name: "disk" }, { name: "port" }, { name: "files" }],
    });
    expect(points.failpoints).toContain("turn.committed");
    expect(Object.keys(points.actions)).toEqual(["kill", "exit", "throw", "pause"]);
  });
});

describe("every command", () => {
  const groups: Record<string, string[]> = {
    runs: ["list", "show", "ledger", "watch", "logs", "export", "diff", "cancel", "retry", "replay", "rebind", "skip"],
    workflows: ["list", "show", "pull", "push", "validate", "diff", "publish", "rollback"],
    workers: ["list", "show", "diagnose", "drain", "undrain", "kick", "enrol"],
    views: ["list", "show", "save", "remove"],
    letters: ["list", "requeue", "dismiss"],
    bulk: ["cancel", "retry", "replay", "dismiss"],
    audit: ["list"],
    queues: ["list", "show"],
  };
  const single = ["run", "why", "events", "top", "open", "login", "logout"].map((name) => [name]);
  const all = [...single, ...Object.entries(groups).flatMap(([noun, verbs]) => verbs.map((verb) => [noun, verb]))];

  it("[L14] every command exists and has --json, --quiet, --no-color, --url, --token and --verbose", async () => {
    for (const words of all) {
      const help = await run(...words, "--help");

      expect(help).toMatchObject({ exitCode: 0, err: "" });
      expect(help.out).toContain(`\n  astra ${words.join(" ")}`);
      for (const flag of ["--json", "--quiet", "--no-color", "--url", "--token", "--verbose"]) expect(help.out).toContain(flag);
    }
  });

  it("[L14] every list command can print a table, a wide table or ids", async () => {
    for (const words of all.filter(([, verb]) => verb === "list"))
      expect((await run(...words, "--help")).out).toContain('"table", "wide", "id"');
    expect(await run("runs", "list", "--output", "xml")).toMatchObject({ exitCode: 2 });
  });
});
