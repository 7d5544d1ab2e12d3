import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createSchemaReader, Fault, type FaultCode, faultCodes, type Route, type RouteName, routes } from "@astraflow/protocol";
import { afterAll, afterEach, beforeEach, describe, expect, it } from "vitest";
import { exitCodeForStatus } from "../output/cli-failure.ts";
import {
  type FakeApi,
  listLeafCommands,
  runCommandLine,
  sampleForSchema,
  sampleId,
  sampleWorkflow,
  startFakeApi,
} from "../testing/fake-api.ts";

const folder = mkdtempSync(join(tmpdir(), "astra-every-"));
const file = join(folder, "flow.json");
writeFileSync(file, JSON.stringify(sampleWorkflow));
afterAll(() => rmSync(folder, { recursive: true }));

let api: FakeApi;
beforeEach(async () => {
  api = await startFakeApi();
  // An end, where the sample would be a thing that goes on for ever.
  for (const name of ["changeRuns", "getBulk"] as const)
    api.setResponse(name, { ...(sampleForSchema(routes[name].response) as object), status: "done", refused: 0, refusals: [] });
  const { installPackage, getInstall, listRollouts } = routes;
  const noFailure = { status: "done", counts: { waiting: 0, done: 1, failed: 0 } };
  api.setResponse("installPackage", { ...(sampleForSchema(installPackage.response) as object), ...noFailure });
  api.setResponse("getInstall", { ...(sampleForSchema(getInstall.response) as object), ...noFailure });
  const rollouts = sampleForSchema(listRollouts.response) as { items: object[] };
  api.setResponse("listRollouts", { ...rollouts, items: rollouts.items.map((one) => ({ ...one, rolloutId: sampleId })) });
  api.setResponse("getRun", { ...(sampleForSchema(routes.getRun.response) as object), runId: sampleId, status: "running" });
});
afterEach(() => api.close());

/** What --json prints: the body of a route, or a document of our own with these keys. */
type Printed = RouteName | readonly string[] | { readonly stream: RouteName | null };
interface Example {
  readonly argv: readonly string[];
  readonly prints: Printed;
  /** Operations that change something and are asked for. */
  readonly changes?: readonly RouteName[];
}
const run = sampleId;
const own = {
  diff: ["runs", "status", "tookMs", "definition", "nodes"],
  why: ["runId", "items"],
  login: ["user", "expiresIn", "keptIn"],
} as const;

/** Every command with words that make it do something; a command that is missing here fails below. */
const examples: Readonly<Record<string, Example>> = {
  run: { argv: [file, "--detach"], prints: "startRun", changes: ["startRun"] },
  "runs list": { argv: ["--filter", "status:failed worker:sample since:1h"], prints: "listRuns" },
  "runs show": { argv: [run], prints: "getRun" },
  "runs ledger": { argv: [run], prints: "getRunLedger" },
  "runs watch": { argv: [run], prints: { stream: null } },
  "runs export": { argv: [run], prints: { stream: null } },
  "runs logs": { argv: [run], prints: { stream: "getRunLogs" } },
  "runs results": { argv: [run], prints: ["runId", "status", "items"] },
  "runs diff": { argv: [run, run], prints: own.diff },
  "runs cancel": { argv: [run, "--yes"], prints: "cancelRun", changes: ["cancelRun"] },
  "runs retry": { argv: [run], prints: "retryRun", changes: ["retryRun"] },
  "runs replay": { argv: [run, "--from", "sample"], prints: "replayRun", changes: ["replayRun"] },
  "runs rebind": { argv: [run, "--worker", "w"], prints: "rebindRun", changes: ["rebindRun"] },
  "runs skip": { argv: [run, "sample"], prints: "skipNode", changes: ["skipNode"] },
  why: { argv: [run], prints: own.why },
  "bulk cancel": { argv: ["--status", "failed", "--yes"], prints: "changeRuns", changes: ["changeRuns"] },
  "bulk retry": { argv: ["--filter", "status:failed", "--yes"], prints: "changeRuns", changes: ["changeRuns"] },
  "bulk replay": { argv: ["--status", "failed", "--version", "latest", "--yes"], prints: "changeRuns", changes: ["changeRuns"] },
  "bulk dismiss": { argv: ["--filter", "worker:sample", "--yes"], prints: "changeRuns", changes: ["changeRuns"] },
  "workflows list": { argv: ["--filter", "sample"], prints: "listWorkflows" },
  "workflows show": { argv: ["sample"], prints: "getDraft" },
  "workflows new": { argv: [join(folder, "new.json")], prints: ["file", "example", "workflowId"] },
  "workflows pull": { argv: [run], prints: ["id", "schemaVersion", "metadata", "nodes", "edges"] },
  "workflows push": { argv: [file], prints: "saveWorkflow", changes: ["validateWorkflow", "saveWorkflow"] },
  "workflows validate": { argv: [file], prints: "validateWorkflow", changes: ["validateWorkflow"] },
  "workflows diff": { argv: [run], prints: "diffWorkflow" },
  "workflows publish": { argv: [run], prints: "publishVersion", changes: ["publishVersion"] },
  "workflows rollback": { argv: [run, "1"], prints: "rollbackWorkflow", changes: ["rollbackWorkflow"] },
  "nodes search": { argv: ["sample"], prints: "searchNodes" },
  "nodes show": { argv: ["sample"], prints: ["type", "packageName", "version", "template", "workers", "example"] },
  "workers list": { argv: ["--filter", "package:demo"], prints: "listWorkers" },
  "workers show": { argv: ["sample"], prints: "getWorker" },
  "workers diagnose": { argv: ["sample"], prints: "getWorkerDiagnostics" },
  "workers drain": { argv: ["sample"], prints: "drainWorker", changes: ["drainWorker"] },
  "workers undrain": { argv: ["sample"], prints: "undrainWorker", changes: ["undrainWorker"] },
  "workers kick": { argv: ["sample", "--yes"], prints: "kickWorker", changes: ["kickWorker"] },
  "workers enrol": { argv: ["w-9", "--tag", "site=berlin"], prints: "enrolWorker", changes: ["enrolWorker"] },
  "packages publish": { argv: [file], prints: "publishPackage", changes: ["publishPackage"] },
  "packages list": { argv: [], prints: "listPackages" },
  "packages keys list": { argv: [], prints: "listPackageKeys" },
  "packages keys add": { argv: [file, "--name", "Release"], prints: "addPackageKey", changes: ["addPackageKey"] },
  "packages keys remove": { argv: ["sample", "--yes"], prints: ["keyId", "removed"], changes: ["deletePackageKey"] },
  "packages install": { argv: ["demo@1.0.0", "--all", "--wait"], prints: "installPackage", changes: ["installPackage"] },
  "packages uninstall": { argv: ["demo", "--worker", "w", "--yes"], prints: "installPackage", changes: ["installPackage"] },
  "packages rollout start": { argv: ["demo@1.0.0"], prints: "startRollout", changes: ["startRollout"] },
  "packages rollout show": { argv: ["demo"], prints: "getRollout" },
  "packages rollout list": { argv: ["demo"], prints: "listRollouts" },
  "packages rollout stop": { argv: ["demo", sampleId, "--yes"], prints: "stopRollout", changes: ["stopRollout"] },
  "packages rollback": { argv: ["demo", "--to", "1.0.0", "--yes"], prints: "rollbackPackage", changes: ["rollbackPackage"] },
  "queues list": { argv: [], prints: "listQueues" },
  "queues show": { argv: ["sample"], prints: ["queue", "waiting", "isPartial", "oldestWaitMs", "needs", "workers", "asOf"] },
  "letters list": { argv: ["--filter", "status:open text"], prints: "listDeadLetters" },
  "letters requeue": { argv: ["sample"], prints: "requeueDeadLetter", changes: ["requeueDeadLetter"] },
  "letters dismiss": { argv: ["sample", "--yes"], prints: "dismissDeadLetter", changes: ["dismissDeadLetter"] },
  "audit list": { argv: ["--filter", "since:1d"], prints: "listAudit" },
  events: { argv: ["--since", "0"], prints: { stream: "streamEvents" } },
  "views list": { argv: [], prints: "listViews" },
  "views show": { argv: ["sample"], prints: "getView" },
  "views save": { argv: ["new", "--filter", "status:failed"], prints: "createView", changes: ["createView"] },
  "views remove": { argv: ["sample", "--yes"], prints: ["viewId", "removed"], changes: ["deleteView"] },
  top: { argv: ["--once"], prints: ["cursor", "at", "scaling", "workers", "runs", "queues"] },
  open: { argv: [], prints: ["url", "opened"] },
  login: { argv: ["ada"], prints: own.login, changes: ["login"] },
  logout: { argv: [], prints: ["ok"], changes: ["logout"] },
  doctor: { argv: ["--listen", "127.0.0.1:0", "--data-dir", folder], prints: ["ok", "checks"] },
  completion: { argv: ["bash"], prints: ["shell", "script"] },
  "complete-words": { argv: ["--", "runs", "li"], prints: ["words"] },
};
/** They start programs, or take minutes; their --json is held by tests of their own. */
const elsewhere = [
  "up",
  "sim",
  "bench",
  "backup",
  "restore",
  "packages new",
  "packages dev",
  "packages build",
  "packages sign",
  "packages verify",
];
const env = { HOME: folder, ASTRA_PASSWORD: "correct horse" };
const all = listLeafCommands();

/** What is wrong with a document, or null. */
function findMismatch(document: unknown, prints: Printed): string | null {
  if (typeof prints !== "string") {
    const keys = [
      Object.keys(document as object)
        .sort()
        .join(" "),
      [...(prints as readonly string[])].sort().join(" "),
    ];
    return keys[0] === keys[1] ? null : `it has ${keys[0]}; promised is ${keys[1]}`;
  }
  const { response } = routes[prints] as Route;
  if (response === undefined) return `${prints} answers with no JSON`;
  const read = createSchemaReader(response, { code: "E.INTERNAL", subject: prints, unknownKeys: "refuse" }).read(document);
  return read instanceof Fault ? read.message : null;
}

describe("every command", () => {
  it("[L23] every command has an example in this file or a test of its own", () => {
    expect(all.map(({ words }) => words).sort()).toEqual([...Object.keys(examples), ...elsewhere].sort());
  });

  it.each(all.map(({ words, command }) => [words, command] as const))(
    "[L24] the help of %s is one line, three examples, then flags",
    async (words, command) => {
      const help = await runCommandLine([...words.split(" "), "--help"], {});
      const lines = help.out.split("\n");

      expect(help).toMatchObject({ exitCode: 0, err: "" });
      expect(lines[0]).toBe(command.description());
      expect(lines[0]?.length).toBeGreaterThan(5);
      expect(lines.slice(1, 3)).toEqual(["", "Examples:"]);
      const shown = lines.slice(3, lines.indexOf("", 3));
      expect(shown).toHaveLength(3);
      for (const line of shown) expect(line).toMatch(/^ {2}(.*[^\w./-])?astra /);
      expect(lines.findIndex((line) => /^(Flags|Common flags):$/.test(line))).toBeGreaterThan(6);
      for (const flag of ["--json", "--quiet", "--no-color"]) expect(help.out).toContain(flag);
      for (const line of lines.filter((one) => one.startsWith("  astra"))) expect(line.length).toBeLessThanOrEqual(80);
    },
  );

  it.each(all.map(({ words }) => [words]))("[L912] the help of %s names units and defaults in words", async (words) => {
    const help = (await runCommandLine([...words.split(" "), "--help"], {})).out;

    expect(help).not.toMatch(/default: \[\]|\bdoors?\b/);
    for (const [, description] of help.matchAll(/--\w+ <ms>\s+(.*(?:\n {10,}.*)*)/g))
      expect(description).toContain("milliseconds");
  });

  it("[L912] help fits the terminal, also one that reports 0 columns", async () => {
    let out = "";
    const widest = async (columns: number, env: Record<string, string> = {}): Promise<number> => {
      out = "";
      await runCommandLine(["run", "--help"], env, { stdout: { write: (text) => (out += text), isTTY: true, columns } });
      const flags = out.split("\n").filter((line) => /^ {4,}|^ {2}-/.test(line));
      return Math.max(...flags.map((line) => line.length));
    };

    expect(await widest(0)).toBeLessThanOrEqual(80);
    expect(out.split("\n").length).toBeLessThan(70);
    expect(await widest(200)).toBeGreaterThan(80);
    expect(await widest(200, { COLUMNS: "60" })).toBeLessThanOrEqual(60);
  });

  const streams = Object.entries(examples).filter(([, { prints }]) => !Array.isArray(prints) && typeof prints === "object");
  const documents = Object.entries(examples).filter(([words]) => !streams.some(([one]) => one === words));

  it.each(documents)("[L23] %s --json prints one document with the API's keys", async (words, { argv, prints, changes = [] }) => {
    const end = await api.run([...words.split(" "), "--json", ...argv], { env });

    expect(end).toMatchObject({ exitCode: 0 });
    const document: unknown = JSON.parse(end.out);
    expect(findMismatch(document, prints)).toBeNull();
    const asked = api.requests.map(({ name }) => name).filter((name) => (routes[name] as Route).method !== "GET");
    expect(asked).toEqual(changes);
  });

  const rehearsed = Object.entries(examples).filter(([words]) =>
    all.find((one) => one.words === words)?.command.options.some(({ long }) => long === "--dry-run"),
  );

  it("[L25] every command that changes something on the scheduler has --dry-run, except login and logout", () => {
    const exempt = ["workflows validate", "login", "logout"];
    const changing = Object.entries(examples).filter(([words, { changes }]) => changes !== undefined && !exempt.includes(words));

    expect(rehearsed.map(([words]) => words).sort()).toEqual(changing.map(([words]) => words).sort());
  });

  it.each(rehearsed)("[L25] %s --dry-run changes nothing and prints one JSON document", async (words, { argv }) => {
    const end = await api.run(
      [...words.split(" "), "--json", "--dry-run", ...argv.filter((word) => word !== "--yes" && word !== "--detach")],
      { env },
    );

    expect(end).toMatchObject({ exitCode: 0 });
    expect(JSON.parse(end.out)).toBeTypeOf("object");
    const isHarmless = ({ name, body }: FakeApi["requests"][number]): boolean =>
      (routes[name] as Route).method === "GET" || name === "validateWorkflow" || (body as { dryRun?: boolean }).dryRun === true;
    expect(api.requests.filter((one) => !isHarmless(one))).toEqual([]);
  });

  const deeds = Object.entries(examples).filter(([, { argv }]) => argv.includes("--yes"));

  it.each(deeds)(
    "[L26] %s asks for confirmation, changes nothing if the answer is no, and needs --yes where it cannot ask",
    async (words, { argv, changes = [] }) => {
      const bare = [...words.split(" "), ...argv.filter((word) => word !== "--yes")];
      const isChange = ({ name, body }: FakeApi["requests"][number]): boolean =>
        (routes[name] as Route).method !== "GET" && (body as { dryRun?: boolean } | undefined)?.dryRun !== true;
      const questions: string[] = [];
      const ask = (answer: string) => async (question: string) => (questions.push(question), answer);

      expect(await api.run(bare)).toMatchObject({ exitCode: 2, err: expect.stringMatching(/This would .*\. Repeat with --yes/) });
      expect(await api.run(bare, { promptUser: ask("no") })).toMatchObject({
        exitCode: 1,
        err: expect.stringContaining("Cancelled; nothing was changed."),
      });
      expect(api.requests.filter(isChange)).toEqual([]);
      expect(await api.run(bare, { promptUser: ask("y") })).toMatchObject({ exitCode: 0 });
      expect(api.requests.filter(isChange).map(({ name }) => name)).toEqual(changes);
      expect(questions).toEqual(Array.from({ length: 2 }, () => expect.stringMatching(/^This will .*\. Continue\? \[y\/N\] $/)));
    },
  );
});

describe("streams", () => {
  it("[L23] each fact and log line of runs watch, export and logs --json has a cursor", async () => {
    const fact = (position: number, type: string) => ({ position, type, at: "2026-01-31T12:00:00Z", runId: run, data: {} });
    api.setResponse("listRunEvents", { items: [fact(3, "run.created"), fact(9, "run.succeeded")], nextCursor: null, asOf: 9 });
    const lines = async (...argv: string[]): Promise<Record<string, unknown>[]> =>
      (await api.run([...argv, "--json"])).out
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line) as Record<string, unknown>);

    expect((await lines("runs", "watch", run)).map(({ cursor }) => cursor)).toEqual(["3", "9", undefined]);
    expect((await lines("runs", "export", run)).map(({ kind, cursor }) => [kind, cursor])).toEqual([
      ["definition", undefined],
      ["fact", "3"],
      ["fact", "9"],
      ["run", undefined],
    ]);
    expect((await lines("runs", "logs", run))[0]).toMatchObject({ cursor: expect.stringMatching(/^\d+$/), text: "sample" });
  });
});

describe("exit codes", () => {
  const promised: Readonly<Record<number, number>> = {
    400: 1,
    401: 4,
    403: 4,
    404: 3,
    408: 7,
    409: 6,
    410: 3,
    412: 6,
    413: 1,
    422: 1,
    500: 1,
    502: 5,
    504: 7,
  };

  it.each(Object.entries(promised))(
    "[L27] a response with HTTP status %s ends the command with exit code %s",
    async (status, exitCode) => {
      api.setResponse("getRun", { error: "E.NOT_FOUND", message: "There is no run." }, Number(status));

      expect(await api.run(["runs", "show", run])).toMatchObject({
        exitCode,
        out: "",
        err: expect.stringMatching(/^error E\.NOT_FOUND: There is no run\./),
      });
    },
  );

  it("[L27] every fault code of the API maps to exit code 1 or 3 to 7, never to 0, 2 or 130", () => {
    for (const code of Object.keys(faultCodes) as FaultCode[])
      expect([1, 3, 4, 5, 6, 7]).toContain(exitCodeForStatus(faultCodes[code].http));
  });

  it("[L27] the exit code is 2 for wrong usage, 5 for an unreachable scheduler, 1 for a failed run and 130 for an interrupt", async () => {
    expect(await api.run(["runs", "list", "--filter", "stauts:failed"])).toMatchObject({
      exitCode: 2,
      err: expect.stringContaining("Did you mean status?"),
    });
    expect(await runCommandLine(["runs", "list"], { ASTRA_URL: "http://127.0.0.1:1" })).toMatchObject({ exitCode: 5 });

    api.setResponse("getRun", {
      ...(sampleForSchema(routes.getRun.response) as object),
      runId: run,
      status: "failed",
      nodes: [],
    });
    expect(await api.run(["runs", "watch", run])).toMatchObject({ exitCode: 1, out: `${run} failed\n` });

    api.setResponse("getRun", {
      ...(sampleForSchema(routes.getRun.response) as object),
      runId: run,
      status: "running",
      nodes: [],
    });
    const stopping = AbortSignal.abort();
    const left = await api.run(["runs", "watch", run], { stopSignal: stopping });
    expect(left).toMatchObject({
      exitCode: 130,
      err: expect.stringContaining(`Stopped watching; the run continues. Cancel it with: astra runs cancel ${run}`),
    });
  });
});

it("[L28] -v prints every request with its duration to stderr, and never the token", async () => {
  const end = await api.run(["runs", "show", run, "-v", "--json"], { env: { ASTRA_TOKEN: "s3cret" } });

  expect(end.err).toMatch(new RegExp(`^GET /api/v1/runs/${run} 200 in \\d+ ms\\n$`));
  expect(JSON.parse(end.out)).toMatchObject({ runId: run });
  const away = await runCommandLine(["runs", "list", "-v"], { ASTRA_URL: "http://127.0.0.1:1" });
  expect(away.err).toMatch(/^GET \/api\/v1\/runs\?limit=50 had no answer in \d+ ms\nerror E\.UNREACHABLE/);
});
