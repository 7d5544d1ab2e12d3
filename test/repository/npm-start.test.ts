import { describe, expect, it, onTestFinished } from "vitest";
import { readText, repositoryRoot } from "../../scripts/repository-files.ts";
import { createCheckout, startScript, waitForEnd, waitForOutput } from "./miniature-checkout.ts";

/** Prints that it is up, then counts signals to stop: a moment after the first it ends with their number. */
const programThatWaits = `
  let wishes = 0;
  const count = () => { if (wishes++ === 0) setTimeout(() => process.exit(40 + wishes), 300); };
  process.on("SIGTERM", count).on("SIGINT", count);
  process.on("exit", () => console.log("stopped"));
  setInterval(() => 0, 1000);
  console.log("the program is up");
  await new Promise(() => {});
`;

/** Stands where npm stands: it starts the script, shares its output with it, and hands no signal on. */
const wrapperScript = `
  import { spawn } from "node:child_process";
  const child = spawn(process.execPath, [new URL("start.mjs", import.meta.url).pathname], { stdio: "inherit" });
  console.log("script " + child.pid + ".");
`;

/** A script that outlives its wrapper is nobody's child any more; a failed test must not leave it behind. */
function endIfAlive(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== "ESRCH") throw cause;
  }
}

/** The real executable, which keeps the tether, in front of commands that do only what the test wants. */
function createCheckoutWithCommands(
  body: string,
  { isReady = true, files = {} }: { isReady?: boolean; files?: Record<string, string> } = {},
) {
  const program = {
    "package.json": '{ "type": "module" }',
    "apps/cli/bin/astra.mjs": readText(repositoryRoot, "apps/cli/bin/astra.mjs"),
    "apps/cli/src/index.ts": `export async function runCli(words: string[]): Promise<number> { ${body}; return 0; }`,
  };
  return createCheckout({ isReady, files: { ...program, ...files } });
}

describe("npm start", () => {
  it("[H8] npm start runs astra up with the arguments it was given and exits with its code", async () => {
    const checkout = createCheckoutWithCommands("console.log(words.join(' ')); return 7");

    const ended = await waitForEnd(startScript(checkout, "start.mjs", ["--listen", "127.0.0.1:0"]));

    expect(ended.output).toContain("up --listen 127.0.0.1:0");
    expect(ended.code).toBe(7);
  });

  it("[H8] npm start forwards a stop request to the program only once, even if two signals arrive", async () => {
    const child = startScript(createCheckoutWithCommands(programThatWaits), "start.mjs");
    const end = waitForEnd(child);
    await waitForOutput(child, "the program is up");

    child.kill("SIGINT"); // two different ones: equal signals that wait are one already for the system
    child.kill("SIGTERM");

    expect(await end).toMatchObject({ code: 41 });
  });

  it("[H8] the program stops when the npm start script is killed", async () => {
    const child = startScript(createCheckoutWithCommands(programThatWaits), "start.mjs");
    const end = waitForEnd(child);
    await waitForOutput(child, "the program is up");

    child.kill("SIGKILL");

    expect(await end).toMatchObject({ signal: "SIGKILL", output: expect.stringContaining("stopped") });
  });

  it("[H8] the program stops when the parent of the npm start script, as npm is, is killed and passes no signal on", async () => {
    const checkout = createCheckoutWithCommands(programThatWaits, { files: { "scripts/wrapper.mjs": wrapperScript } });
    const child = startScript(checkout, "wrapper.mjs");
    child.stdout?.on("data", (bytes: Buffer) => {
      const script = Number(/script (\d+)\./.exec(bytes.toString())?.[1]);
      if (script) onTestFinished(() => endIfAlive(script));
    });
    const end = waitForEnd(child);
    await waitForOutput(child, "the program is up");

    child.kill("SIGKILL");

    expect(await end).toMatchObject({ signal: "SIGKILL", output: expect.stringContaining("stopped") });
  });

  it("[H1] npm start installs the dependencies of a fresh clone first and reports it", async () => {
    const checkout = createCheckoutWithCommands("console.log('the program ran')", { isReady: false });

    const ended = await waitForEnd(startScript(checkout, "start.mjs"));

    expect(ended.output).toMatch(/set-up: npm ci .*\nnpm was called with: ci --ignore-scripts[^]*the program ran/);
    expect(ended.code).toBe(0);
  });

  it("[H910] the set-up prints how long each step took, and how long it took as a whole", async () => {
    const checkout = createCheckoutWithCommands("console.log('the program ran')", { isReady: false });

    const { output } = await waitForEnd(startScript(checkout, "start.mjs"));

    expect(output).toMatch(/set-up: npm ci took \d+\.\d s\n/);
    expect(output).toMatch(/set-up: ready after \d+\.\d s, running on Node v/);
  });

  it("[H1] npm start does not install again while the lockfile is unchanged", async () => {
    const checkout = createCheckoutWithCommands("console.log('the program ran')", { isReady: false });
    await waitForEnd(startScript(checkout, "start.mjs"));

    const again = await waitForEnd(startScript(checkout, "start.mjs"));

    expect(again.output).not.toContain("npm ci");
    expect(again.output).toContain("the program ran");
  });

  it("[H3] npm start shows the output of a failed install, explains it and exits with 2 without starting the program", async () => {
    const checkout = createCheckoutWithCommands("console.log('the program ran')", { isReady: false, files: { "npm-code": "1" } });

    const ended = await waitForEnd(startScript(checkout, "start.mjs"));

    expect(ended.code).toBe(2);
    expect(ended.output).toContain("npm was called with");
    expect(ended.output).toContain("did not succeed (it ended with code 1). Check the network");
    expect(ended.output).not.toContain("the program ran");
  });

  it("[H3] npm start repeats an install that failed, although it left node_modules behind", async () => {
    const checkout = createCheckout({ isReady: false, files: { "npm-code": "1" } });
    await waitForEnd(startScript(checkout, "start.mjs"));

    const again = await waitForEnd(startScript(checkout, "start.mjs"));

    expect(again.output).toContain("set-up: npm ci");
  });
});
