import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { checkWorkflow } from "@astraflow/graph";
import { readWorkflow, type Workflow } from "@astraflow/protocol";
import { expect, it, onTestFinished } from "vitest";
import { createCommandFixture } from "../testing/command-fixture.ts";
import { exampleNames } from "./example-workflows.ts";
import { createWorkflowFile } from "./new-command.ts";

function createFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "astra-new-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  return folder;
}

it.each(exampleNames)(
  "[L601] workflows new --example %s writes a workflow without problems and names the command that runs it",
  async (example) => {
    const file = join(createFolder(), "first.json");
    const { context, stdout, stderr } = createCommandFixture({});

    expect(await createWorkflowFile(context, { file, example })).toBe(0);

    const written = JSON.parse(readFileSync(file, "utf8")) as Workflow;
    expect(readWorkflow(written)).toEqual(written);
    expect(checkWorkflow(written)).toEqual([]);
    expect(stdout()).toBe(`${file}\n`);
    expect(stderr()).toContain(`next: astra run ${file}\n`);
  },
);

it("[L601] workflows new never replaces a file, gives every workflow ids of its own, and prints to stdout for -", async () => {
  const file = join(createFolder(), "first.json");
  writeFileSync(file, "mine");
  const { context, stdout } = createCommandFixture({});

  await expect(createWorkflowFile(context, { file, example: "hello" })).rejects.toMatchObject({
    exitCode: 2,
    message: expect.stringContaining("exists and is not replaced"),
  });
  expect(readFileSync(file, "utf8")).toBe("mine");
  await createWorkflowFile(context, { file: "-", example: "hello" });
  const first = stdout();
  await createWorkflowFile(context, { file: "-", example: "hello" });
  const ids = [first, stdout().slice(first.length)].map((text) => (JSON.parse(text) as Workflow).id);
  expect(new Set(ids).size).toBe(2);
});
