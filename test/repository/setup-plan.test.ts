import { describe, expect, it } from "vitest";
import { agreeModules, chooseNode, type MachineFacts, planSetUp, systemPackages } from "../../scripts/setup-plan.mjs";

const readyFacts: MachineFacts = {
  command: "test",
  lockHash: "aa",
  stampHash: "aa",
  hasModules: true,
  installedAgrees: true,
  isRoot: true,
  hasApt: true,
  missing: [],
  python: "3.11.7",
  toolsHash: "cc",
  toolsStampHash: "cc",
};
const plannedStepTypes = (change: Partial<MachineFacts>) => planSetUp({ ...readyFacts, ...change }).map((step) => step.type);

describe("the plan of the set-up", () => {
  it("[H1] the set-up plan is empty for a checkout that is ready", () => {
    expect(plannedStepTypes({})).toEqual([]);
  });

  it("[H1] the set-up plan installs the dependencies if there are none or the lockfile has changed since", () => {
    expect(plannedStepTypes({ hasModules: false, stampHash: null, installedAgrees: false })).toEqual(["install-modules"]);
    expect(plannedStepTypes({ stampHash: "bb" })).toEqual(["install-modules"]);
    expect(plannedStepTypes({ stampHash: null, installedAgrees: false })).toEqual(["install-modules"]);
  });

  it("[H1] the set-up plan adopts dependencies that were installed by hand if they match the lockfile", () => {
    expect(plannedStepTypes({ stampHash: null, installedAgrees: true })).toEqual(["adopt-modules"]);
  });

  it("[H2] the set-up plan installs missing system packages if it is permitted to, only for the command that needs them", () => {
    expect(plannedStepTypes({ missing: systemPackages })).toEqual(["install-packages", "install-packages"]);
    expect(plannedStepTypes({ missing: systemPackages, command: "start" })).toEqual([]);
    expect(plannedStepTypes({ missing: systemPackages, command: "check" })).toEqual([]);
  });

  it("[H2] the set-up plan lists what to install if it is not permitted to: a test run stops there, a start continues", () => {
    const needed = [{ name: "thing", probe: "/opt/thing", neededBy: ["start", "test"] as const, why: "it is needed" }];

    const [asUser] = planSetUp({ ...readyFacts, isRoot: false, missing: needed });
    const [withoutApt] = planSetUp({ ...readyFacts, hasApt: false, missing: needed });
    const [starting] = planSetUp({ ...readyFacts, isRoot: false, command: "start", missing: needed });

    expect(asUser).toMatchObject({
      type: "refuse",
      why: expect.stringContaining("apt-get install -y --no-install-recommends thing"),
    });
    expect(withoutApt).toMatchObject({ type: "refuse", why: expect.stringContaining("/opt/thing") });
    expect(starting).toMatchObject({ type: "tell", why: expect.stringContaining("thing: it is needed") });
  });

  it("[H2] the set-up plan requires PostgreSQL, its pooler, openssl and curl for the tests, in one step, and none of them for a start", () => {
    const names = (command: MachineFacts["command"]) =>
      planSetUp({ ...readyFacts, command, missing: systemPackages }).flatMap((step) => ("names" in step ? step.names : []));

    expect(names("test")).toEqual(["postgresql", "pgbouncer", "openssl", "curl", "chromium"]);
    expect(names("start")).toEqual([]);
  });

  it("[H1040] the set-up plan installs Chromium for the tests if it is permitted to, in a step that may fail, and otherwise tells how and goes on", () => {
    const missing = systemPackages.filter(({ name }) => name === "chromium");

    expect(planSetUp({ ...readyFacts, missing })).toMatchObject([
      { type: "install-packages", names: ["chromium"], isOptional: true },
    ]);
    expect(planSetUp({ ...readyFacts, missing, isRoot: false })).toMatchObject([
      { type: "tell", why: expect.stringContaining("apt-get install -y --no-install-recommends chromium") },
    ]);
    expect(planSetUp({ ...readyFacts, missing, command: "start" })).toEqual([]);
  });

  it("[H620] the set-up plan installs the Python tools for conform alone, if they are missing or their list has changed", () => {
    expect(plannedStepTypes({ command: "conform" })).toEqual([]);
    expect(plannedStepTypes({ command: "conform", toolsStampHash: null })).toEqual(["install-python-tools"]);
    expect(plannedStepTypes({ command: "conform", toolsStampHash: "dd" })).toEqual(["install-python-tools"]);
    expect(plannedStepTypes({ command: "test", toolsStampHash: null })).toEqual([]);
  });

  it("[H620] the set-up plan of conform installs Python if it is permitted to and there is none, and otherwise refuses and names it", () => {
    const conform = { command: "conform", toolsStampHash: null } as const;
    const refusal = { type: "refuse", why: expect.stringContaining("Python 3.11 or newer") };

    expect(plannedStepTypes({ ...conform, python: null })).toEqual(["install-packages", "install-python-tools"]);
    expect(planSetUp({ ...readyFacts, ...conform, python: null, isRoot: false })).toMatchObject([refusal]);
    expect(planSetUp({ ...readyFacts, ...conform, python: "3.9.2" })).toMatchObject([refusal]);
  });

  it("[H770] the set-up plan of the tests installs Python with venv if there is none, and otherwise refuses one below 3.10 and says what to install", () => {
    const test = { ...readyFacts, command: "test", python: null } as const;
    const refusal = {
      type: "refuse",
      why: expect.stringMatching(
        /Python 3\.10 or newer with venv .* apt-get install -y --no-install-recommends python3 python3-venv/,
      ),
    };

    expect(planSetUp(test)).toMatchObject([{ type: "install-packages", names: ["python3", "python3-venv"] }]);
    expect(planSetUp({ ...test, isRoot: false })).toMatchObject([refusal]);
    expect(planSetUp({ ...test, python: "3.9.2" })).toMatchObject([refusal]);
    expect(planSetUp({ ...test, python: "3.10.0" })).toEqual([]);
    expect(planSetUp({ ...test, command: "start" })).toEqual([]);
  });

  it("[H3] the set-up prefers the bundled Node, then the Node it runs on, and refuses with an explanation if both are too old", () => {
    expect(chooseNode({ bundled: "v24.21.0", own: "v20.20.2" })).toBe("bundled");
    expect(chooseNode({ bundled: null, own: "v22.19.0" })).toBe("own");
    expect(chooseNode({ bundled: "v18.0.0", own: "v26.1.0" })).toBe("own");
    expect(chooseNode({ bundled: null, own: "v22.18.9" })).toEqual({ refusal: expect.stringContaining("22.19 or newer") });
    expect(chooseNode({ bundled: null, own: "v20.20.2" })).toEqual({ refusal: expect.stringContaining("v20.20.2") });
  });

  it("[H1] the set-up compares the lockfile with npm's record of the installed packages", () => {
    const lock = {
      packages: {
        "": { version: "1.0.0" },
        "packages/a": { version: "1.0.0" },
        "node_modules/a": { link: true },
        "node_modules/b": { version: "2.0.0", integrity: "x" },
        "node_modules/c-darwin": { version: "3.0.0", optional: true },
      },
    };

    expect(agreeModules(lock, { packages: { "node_modules/b": { version: "2.0.0", integrity: "x" } } })).toBe(true);
    expect(agreeModules(lock, { packages: { "node_modules/b": { version: "2.0.1", integrity: "y" } } })).toBe(false);
    expect(agreeModules(lock, { packages: {} })).toBe(false);
    expect(agreeModules(lock, null)).toBe(false);
  });
});
