// Follows a page block by block. A block whose language says nothing about how it is tried is a problem, so that a new one cannot be
// forgotten. No test lives here.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { findManifestFaults, isRecord } from "@astraflow/protocol";
import { pollUntil } from "../harness/processes.ts";
import { type CodeBlock, type HttpStep, readCommands, readConsole, readHttp } from "./code-blocks.ts";
import { PageSession } from "./page-session.ts";
import { compareJson, readShownJson } from "./shown-json.ts";
import { compareText, type KnownNames, learnName } from "./shown-output.ts";

/** Commands that may be repeated until what they show is there: a run takes its time. */
const readCommand =
  /^(?:npx )?astra (?:runs (?:show|list|logs|ledger|results)|why|queues|nodes|top|workers (?:list|show|diagnose)|letters list|packages (?:list|rollout (?:show|list)))\b|^curl (?!.*(?: -d| -X P))/s;

type BlockRunner = (session: PageSession, block: CodeBlock, isRun: (command: string) => boolean) => Promise<void>;

/** How a block is tried, by its language. */
const runners: Readonly<Record<string, BlockRunner>> = {
  mermaid: async () => undefined,
  sh: async (session, block, isRun) => {
    for (const command of readCommands(block.text).filter(isRun)) await runCommand(session, block, command, "");
  },
  console: async (session, block, isRun) => {
    for (const { command, output } of readConsole(block.text).filter((one) => isRun(one.command)))
      await runCommand(session, block, command, output);
  },
  http: async (session, block) => {
    for (const step of readHttp(block.text)) await sendRequest(session, step);
  },
  json: runJson,
  js: async (session, block) => session.writePageFile(fileOf(block), block.text),
  ts: async (session, block) => session.writePageFile(fileOf(block), block.text),
  // By what was left running.
  text: async (session, block) => expectPrinted(session, block.text),
};

/** Whether the language of a block says how it is tried; other texts are only shown. */
export const isTried = ({ language, options }: CodeBlock): boolean =>
  language === "text" ? options.has("printed") : language in runners;

export async function runBlock(session: PageSession, block: CodeBlock, isRun: (command: string) => boolean): Promise<void> {
  const run = runners[block.language];
  if (run === undefined)
    throw new Error(`nothing is known of blocks in ${block.language}; page-runner.ts has those that can be tried`);
  await run(session, block, isRun);
}

async function runCommand(session: PageSession, block: CodeBlock, command: string, output: string): Promise<void> {
  if (block.options.has("background")) {
    await session.leaveRunning(command);
    if (output !== "") await expectPrinted(session, output);
    return;
  }
  const codeExpected = Number(block.options.get("exit") ?? 0);
  await untilTrue(readCommand.test(command) && output !== "", command, async () => {
    const end = await session.runCommand(command);
    if (end.code !== codeExpected) return `${command} ended with ${end.code}, not ${codeExpected}:\n${end.output}`;
    return output === "" ? null : compareShown(session.fillInPorts(output), end.output, session.known);
  });
}

/** Tries it until there is no problem, or once where a second try would be a second effect. */
async function untilTrue(isRepeatable: boolean, what: string, attempt: () => Promise<string | null>): Promise<void> {
  let problem = await attempt();
  if (problem === null) return;
  const again = async (): Promise<boolean> => {
    problem = await attempt();
    return problem === null;
  };
  await (isRepeatable ? pollUntil(what, again) : Promise.reject(new Error(what))).catch((cause: unknown) => {
    throw new Error(`${what}\n${problem}`, { cause });
  });
}

/** Each shown line, or event of several lines, is among what the running programs have printed. */
async function expectPrinted(session: PageSession, shown: string): Promise<void> {
  // A long line goes on in indented ones.
  const lines = session
    .fillInPorts(shown)
    .replace(/\n {2,}/g, "")
    .split("\n");
  await session.waitForOutput(shown, (output) => {
    const printed = output.split("\n");
    return lines.every((line) => printed.some((other) => compareShown(line, other, session.known) === null)) || undefined;
  });
}

async function sendRequest(session: PageSession, step: HttpStep): Promise<void> {
  const path = session.fillIn(await session.nameNewestRun(step.path.startsWith("/api/") ? step.path : `/api/v1${step.path}`));
  await untilTrue(step.method === "GET", `${step.method} ${step.path}`, async () => {
    const response = await fetch(session.http + path, {
      method: step.method,
      headers: {
        authorization: `Bearer ${session.token}`,
        ...(step.body !== "" && { "content-type": "application/json" }),
        ...step.headers,
      },
      ...(step.body !== "" && { body: session.fillIn(step.body) }),
    });
    const text = await response.text();
    if (step.status === undefined ? !response.ok : response.status !== step.status)
      return `it was answered with ${response.status}: ${text}`;
    return step.answer === "" ? null : compareShown(session.fillInPorts(step.answer), text, session.known);
  });
}

async function runJson(session: PageSession, block: CodeBlock): Promise<void> {
  if (block.options.has("log")) return expectLogged(session, block);
  const value: unknown = JSON.parse(block.text);
  if (block.options.has("file")) session.writePageFile(fileOf(block), block.text);
  if (block.options.has("workflow")) await runWorkflow(session, block, value);
  else if (block.options.has("manifest")) {
    const faults = findManifestFaults(value, 20).map(({ message }) => message);
    if (faults.length > 0) throw new Error(faults.join("\n"));
  } else if (!block.options.has("config"))
    throw new Error("a block of JSON is a workflow, a manifest, a config or a log; in every other case show the request in http");
}

async function runWorkflow(session: PageSession, block: CodeBlock, value: unknown): Promise<void> {
  // Later blocks may name its nodes by the beginning of their ids.
  for (const [id] of block.text.matchAll(/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/g)) learnName(id, id, session.known);
  const answer = await session.post("/api/v1/workflows/validate", value);
  if (!isRecord(answer) || answer["isValid"] !== true) throw new Error(`the workflow is refused: ${JSON.stringify(answer)}`);
  if (!block.options.has("run")) return;
  const file = join(session.folder, "workflow-of-the-page.json");
  writeFileSync(file, block.text);
  const end = await session.runCommand(`astra run ${file}`);
  if (end.code !== 0) throw new Error(`the workflow does not succeed:\n${end.output}`);
}

/** Lines of a log, shortened to the fields that matter: each is part of a line that was logged. */
async function expectLogged(session: PageSession, block: CodeBlock): Promise<void> {
  for (const line of block.text.split(/\n(?=\{)/)) {
    const shown = line.replace(/\}\s*$/, ",…}");
    await session.waitForOutput(line, (output) =>
      output.split("\n").find((one) => compareShown(shown, one, session.known) === null),
    );
  }
}

/** As JSON where the page shows JSON, else as text. Names become known only if all of it agrees. */
function compareShown(shown: string, actual: string, known: KnownNames): string | null {
  // A line of an event stream.
  if (shown.startsWith("data: {") && actual.startsWith("data: {")) return compareShown(shown.slice(6), actual.slice(6), known);
  const learned = new Map(known);
  const shownJson = /^[[{]/.test(shown.trim()) ? readShownJson(shown) : undefined;
  const problem =
    shownJson === undefined ? compareText(shown, actual, learned) : compareJson(shownJson, parseJson(actual), learned);
  if (problem !== null) return `${problem}\nthe page shows\n${shown}\nbut it was\n${actual}`;
  for (const [name, value] of learned) known.set(name, value);
  return null;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (thrown) {
    if (thrown instanceof SyntaxError) return undefined; // and that is no JSON value, so the comparison fails
    throw thrown;
  }
}

function fileOf(block: CodeBlock): string {
  const file = block.options.get("file");
  if (file === undefined) throw new Error(`a block of ${block.language} needs file=NAME, under which later commands find it`);
  return file;
}
