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

const afterwards = (file: string): string => (file.endsWith(".py") ? 'text = "after!"\n' : 'export const text = "after!";\n');

function change(file: string, text = afterwards(file)): void {
  const place = path.join(packages?.root ?? "", "sample/1.0.0", file);
  mkdirSync(path.dirname(place), { recursive: true });
  writeFileSync(place, text);
  // As an editor would: the same second may have passed since it was written.
  utimesSync(place, new Date(), new Date(Date.now() + 60_000));
}

type SampleManifest = { readonly nodes: readonly object[] };

function rewriteManifest({ loaded }: HostedPackages, edit: (manifest: SampleManifest) => object): void {
  change("manifest.json", JSON.stringify(edit(loaded.packages[0]?.manifestJson as unknown as SampleManifest)));
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

  it("[W1250] a reload that notices every file keeps the code before where the new one is broken, and takes the next that works", async () => {
    packages = await HostedPackages.open([samples[runtime] as SamplePackage], { noticesEveryFile: true });
    const first = await tell("t1");
    change(module, "=");
    await packages.runner.reloadPackages();
    const { problems } = packages.runner.loadedPackages;
    const broken = [problems.length, await tell("t2")];
    change("manifest.json", "{");
    await packages.runner.reloadPackages();
    const unreadable = [packages.runner.loadedPackages.problems[0]?.code, await tell("t3")];
    rewriteManifest(packages, (manifest) => ({ ...manifest, description: "mended" }));
    change(module);
    await packages.runner.reloadPackages();

    expect(broken).toEqual([1, first]);
    expect(unreadable).toEqual(["E.MANIFEST.INVALID", first]);
    expect((await tell("t4")).text).toBe("after!");
    expect(packages.runner.loadedPackages.problems).toEqual([]);
  });

  it("[W1250] a whole package is not replaced by one in which a node has no handler yet", async () => {
    packages = await HostedPackages.open([samples[runtime] as SamplePackage], { noticesEveryFile: true });
    const first = await tell("t1");
    rewriteManifest(packages, (manifest) => ({
      ...manifest,
      nodes: [...manifest.nodes, { ...manifest.nodes[0], type: "sample.more", handler: "more" }],
    }));
    await packages.runner.reloadPackages();

    expect(packages.runner.loadedPackages).toMatchObject({
      packages: [{ nodeTypes: ["sample.tell"] }],
      problems: [{ message: expect.stringContaining("more") }],
    });
    expect(await tell("t2")).toEqual(first);
  });
});
