import { type RouteName, routes } from "@astraflow/protocol";
import stringWidth from "string-width";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type FakeApi, listLeafCommands, sampleForSchema, sampleId, startFakeApi } from "../testing/fake-api.ts";

/** One list: the route that it reads, what its items have that is long, and the columns that stay on the narrowest screen. */
interface ListExample {
  readonly route: RouteName;
  readonly item: Readonly<Record<string, unknown>>;
  readonly kept: readonly string[];
  /** Values of the kept columns that must be readable in full at 40 columns. */
  readonly values: readonly string[];
  readonly argv?: readonly string[];
}

const long = "a name that is much longer than a narrow screen has room for";
const lists: Readonly<Record<string, ListExample>> = {
  "runs list": {
    route: "listRuns",
    item: { runId: sampleId, status: "succeeded", name: long, clientId: "a-client-with-a-long-name" },
    kept: ["RUN", "STATUS"],
    values: ["1aa3f763", "succeeded"],
  },
  "workflows list": {
    route: "listWorkflows",
    item: { id: sampleId, metadata: { name: long, ownerName: "somebody" } },
    kept: ["WORKFLOW", "NAME"],
    values: ["1aa3f763", "a name that is"],
  },
  "workers list": {
    route: "listWorkers",
    item: {
      id: "render-worker-07",
      instanceId: sampleId,
      connected: true,
      liveness: "fresh",
      heartbeat: { healthy: true },
      draining: true,
      drainedBy: ["operator"],
      saturated: false,
    },
    kept: ["WORKER", "STATE"],
    values: ["render-worker-07", "draining"],
  },
  "queues list": {
    route: "listQueues",
    item: {
      queue: long,
      waiting: 12,
      isPartial: false,
      needs: { package: "a.long.package.name", version: "1.0.0", nodeType: "demo.transform" },
      workers: { fitting: 3, blocked: { draining: 2, saturated: 11 } },
    },
    kept: ["NODE TYPE", "WAITING", "FIT"],
    values: ["demo.transform", "12", "3"],
  },
  "letters list": {
    route: "listDeadLetters",
    item: {
      taskId: `${sampleId}.4`,
      label: long,
      status: "requeued",
      workerName: "render-worker",
      code: "E.RUNNER.FAILURE",
      message: long,
    },
    kept: ["TASK", "STATUS", "WORKER"],
    values: ["requeued", "render-worker"],
  },
  "audit list": {
    route: "listAudit",
    item: {
      actorId: "user-1",
      action: "run.cancel",
      targetType: "run",
      targetId: sampleId,
      metadata: { outcome: "E.RUN.TERMINAL" },
    },
    kept: ["WHO", "ACTION", "OUTCOME"],
    values: ["user-1", "run.cancel", "E.RUN.TERMINAL"],
  },
  "nodes search": {
    route: "searchNodes",
    item: { type: "demo.transform", packageName: "demo", defaultVersion: "1.0.0", description: long },
    kept: ["TYPE", "PACKAGE"],
    values: ["demo.transform", "demo@1.0.0"],
  },
  "packages list": {
    route: "listPackages",
    item: {
      name: "acme.tools",
      versions: ["1.2.0", "1.1.0"],
      defaultVersion: "1.2.0",
      latestVersion: "1.2.0",
      description: `${long}, ${long}`,
    },
    kept: ["PACKAGE", "DEFAULT"],
    values: ["acme.tools", "1.2.0"],
  },
  "packages keys list": {
    route: "listPackageKeys",
    item: { keyId: "0123456789abcdef0123456789abcdef", name: "Release", packages: ["acme.*", "a.long.package.name"] },
    kept: ["KEY", "NAME"],
    values: ["89abcdef", "Release"],
  },
  "packages rollout list": {
    route: "listRollouts",
    item: { rolloutId: sampleId, status: "rolledBack", reason: { code: "E.PKG.INVALID", message: long } },
    kept: ["ROLLOUT", "STATUS"],
    values: ["1aa3f763", "rolledBack"],
    argv: ["acme.tools"],
  },
  "views list": {
    route: "listViews",
    item: {
      viewId: sampleId,
      name: "failed tonight",
      page: "runs",
      query: `status:failed ${long}`,
      shared: true,
      ownerId: sampleId,
    },
    kept: ["NAME", "PAGE"],
    values: ["failed tonight", "runs"],
  },
};

let api: FakeApi;
beforeAll(async () => {
  api = await startFakeApi();
  for (const { route, item } of Object.values(lists)) {
    const page = sampleForSchema(routes[route].response as object) as { items: object[] };
    api.setResponse(route, { ...page, items: [{ ...page.items[0], ...item }] });
  }
});
afterAll(() => api.close());

async function printList(name: string, columns: number): Promise<{ lines: string[]; err: string }> {
  let out = "";
  const stdout = { write: (text: string) => (out += text), isTTY: true, columns };
  const argv = [...name.split(" "), ...(lists[name]?.argv ?? []), "--no-color"];
  const { exitCode, err } = await api.run(argv, { stdout });
  expect({ exitCode, out }).toEqual({ exitCode: 0, out: expect.stringContaining("\n") });
  return { lines: out.trimEnd().split("\n"), err };
}

const headers = (line = ""): string[] => line.split(/ {2,}/);

describe("lists on screens of any width", () => {
  it("[L600] every command that prints a list is tried here", () => {
    expect(Object.keys(lists).sort()).toEqual(
      listLeafCommands()
        .filter(({ command }) => command.options.some(({ long: flag }) => flag === "--output"))
        .map(({ words }) => words)
        .sort(),
    );
  });

  it.each(Object.keys(lists))(
    "[L600] %s keeps id, status and worker on a screen of 40 columns, and names the columns that it leaves out",
    async (name) => {
      const { kept, values } = lists[name] as ListExample;

      const { lines, err } = await printList(name, 40);
      const wide = await printList(name, 400);

      expect(Math.max(...lines.map((line) => stringWidth(line)))).toBeLessThanOrEqual(40);
      expect(headers(lines[0])).toEqual(expect.arrayContaining([...kept]));
      for (const value of values) expect(lines[1]).toContain(value);
      const leftOut =
        /^Left out on this narrow screen: (.+)\. Show them with --output wide\.$/m.exec(err)?.[1]?.split(", ") ?? [];
      expect(headers(wide.lines[0])).toEqual(expect.arrayContaining([...headers(lines[0]), ...leftOut]));
      expect(leftOut.filter((header) => headers(lines[0]).includes(header))).toEqual([]);
    },
  );

  it("[L911] a list on a terminal of 0 columns fits 80, and COLUMNS=40 makes it and its notes fit 40", async () => {
    let written = "";
    const screen = { write: (text: string) => (written += text), isTTY: true, columns: 0 };
    const widest = async (env: Record<string, string>): Promise<number> => {
      written = "";
      await api.run(["runs", "list", "--no-color"], { stdout: screen, stderr: screen, env });
      return Math.max(...written.split("\n").map((line) => stringWidth(line)));
    };

    expect(await widest({})).toBeLessThanOrEqual(80);
    expect(written).toContain("STATUS");
    expect(await widest({ COLUMNS: "40" })).toBeLessThanOrEqual(40);
    expect(written).toContain("succeeded");
    expect(written).toContain("Left out");
  });

  it.each(Object.keys(lists))(
    "[L600] %s shows at least as many columns on a screen of 80 as on one of 40, more on one of 200, and never a longer line",
    async (name) => {
      const [narrow, usual, wide] = [await printList(name, 40), await printList(name, 80), await printList(name, 200)];

      const counts = [narrow, usual, wide].map(({ lines }) => headers(lines[0]).length);
      expect(counts).toEqual(counts.toSorted((a, b) => a - b));
      expect(counts[2]).toBeGreaterThan(counts[0] ?? 0);
      for (const [width, { lines }] of [[80, usual] as const, [200, wide] as const])
        expect(Math.max(...lines.map((line) => stringWidth(line)))).toBeLessThanOrEqual(width);
      expect(wide.err).not.toContain("Left out");
    },
  );
});
