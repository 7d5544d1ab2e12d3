import { join } from "node:path";
import { expect, it } from "vitest";
import { startScheduler, startWorker } from "../harness/installation.ts";
import { repositoryRoot, runAstra } from "../harness/processes.ts";
import { failingWorkflow } from "../harness/workflows.ts";

it("[L37] filters, saved views, older run states, the ledger and the live view of the CLI work against a real scheduler", async () => {
  const { http, ws } = await startScheduler();
  await startWorker(ws);
  const ask = async (args: readonly string[], stdin?: string) => runAstra([...args], { ASTRA_URL: http }, stdin);
  const read = async (args: readonly string[]) => JSON.parse((await ask([...args, "--json"])).stdout) as Record<string, never>;
  expect(await ask(["run", join(repositoryRoot, "examples", "workflows", "hello-chain.json")])).toMatchObject({ code: 0 });
  expect(await ask(["run", "-"], JSON.stringify(failingWorkflow()))).toMatchObject({ code: 1 });

  const failed = (await ask(["runs", "list", "--filter", "status:failed worker:w-1 since:1h", "--output", "id"])).stdout.trim();
  expect(failed).toMatch(/^[0-9a-f-]{36}$/);
  expect(await ask(["views", "save", "bad ones", "--filter", "status:failed"])).toMatchObject({ code: 0 });
  expect((await ask(["runs", "list", "--view", "bad ones", "--output", "id"])).stdout.trim()).toBe(failed);

  const [born] = (await ask(["runs", "export", failed.slice(-12)])).stdout
    .trim()
    .split("\n")
    .slice(1)
    .map((line) => JSON.parse(line) as { cursor: string });
  expect(await read(["runs", "show", failed, "--at", born?.cursor ?? ""])).toMatchObject({ status: "queued" });
  expect(await read(["runs", "show", failed])).toMatchObject({ status: "failed" });
  expect(await read(["runs", "ledger", failed])).toMatchObject({ figures: { accepted: 1, finished: 1, lost: 0, twice: 0 } });
  expect(await read(["top", "--once"])).toMatchObject({ workers: [{ id: "w-1", connected: true }], scaling: { running: 0 } });

  expect(await ask(["views", "rm", "bad", "--yes"])).toMatchObject({ code: 0 });
  expect((await read(["views", "list"]))["items"]).toEqual([]);
});
