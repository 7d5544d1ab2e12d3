import { mkdirSync, utimesSync, writeFileSync } from "node:fs";
import path from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { HostedPackages, type SamplePackage } from "../../test/host-harness.ts";

let packages: HostedPackages | undefined;
afterEach(async () => {
  await packages?.close();
  packages = undefined;
});

const samples: Readonly<Record<string, SamplePackage>> = {
  node: {
    runtime: "node",
    entrypoint: "main.mjs",
    handlers: ["tell"],
    files: {
      "main.mjs": 'import { text } from "./lib/text.mjs";\nexport const tell = () => ({ text, pid: process.pid });\n',
      "lib/text.mjs": 'export const text = "before";\n',
    },
  },
  python: {
    runtime: "python",
    entrypoint: "main",
    handlers: ["tell"],
    files: {
      "main.py": "import os\nfrom lib.text import text\ndef tell(ctx):\n    return {'text': text, 'pid': os.getpid()}\n",
      "lib/text.py": 'text = "before"\n',
    },
  },
};

async function tell(task: string): Promise<{ readonly text: string; readonly pid: number }> {
  const { payload } = (await packages?.run("sample.tell", task)) ?? {};
  return payload?.["result"] as { text: string; pid: number };
}

function change(file: string): void {
  const place = path.join(packages?.root ?? "", "sample/1.0.0", file);
  mkdirSync(path.dirname(place), { recursive: true });
  writeFileSync(place, file.endsWith(".py") ? 'text = "after!"\n' : 'export const text = "after!";\n');
  // As an editor would: the same second may have passed since it was written.
  utimesSync(place, new Date(), new Date(Date.now() + 60_000));
}

describe.each(["node", "python"])("a package for %s that its author works on", (runtime) => {
  const module = runtime === "node" ? "lib/text.mjs" : "lib/text.py";

  it("[W1107] a reload that is asked to notice every file replaces the process when any file changed, and leaves it alone when none did", async () => {
    packages = await HostedPackages.open([samples[runtime] as SamplePackage], { noticesEveryFile: true });
    const first = await tell("t1");
    await packages.runner.reloadPackages();
    const unchanged = await tell("t2");
    change(module);
    await packages.runner.reloadPackages();
    const changed = await tell("t3");
    change("__pycache__/x.py");
    change("node_modules/x.mjs");
    await packages.runner.reloadPackages();
    const last = await tell("t4");

    expect(first.text).toBe("before");
    expect(unchanged).toEqual(first);
    expect(changed.text).toBe("after!");
    expect(last).toEqual(changed);
  });

  it("[W1107] a reload that is not asked to looks at the manifest alone", async () => {
    packages = await HostedPackages.open([samples[runtime] as SamplePackage]);
    const first = await tell("t1");
    change(module);
    await packages.runner.reloadPackages();

    expect(await tell("t2")).toEqual(first);
  });
});
