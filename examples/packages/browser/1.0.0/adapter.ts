// Opens, uses and closes pages of a real Chromium. A page stays at its worker under a name; nodes that are given it run there.

import path from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import type { HandlerContext } from "@astraflow/sdk";
import type { Locator, Page } from "playwright-core";
import { type OpenPage, openBlankPage } from "./chromium.ts";

type Params = HandlerContext["params"];

const pageType = "playwright.page";
/** What a page counts against the worker's limit of memory: beyond it, the page that was idle longest is closed. */
const pageBytes = 64 * 1024 * 1024;
const timeoutMsDefault = 30_000;
/** What `extract` returns at most of a list of elements. */
const elementsMax = 1_000;

export async function open_page(ctx: HandlerContext) {
  const { params, resources, signal } = ctx;
  const url = readAddress(params);
  const waitUntil = readChoice(params, "waitFor", ["domcontentloaded", "load", "networkidle"]);
  const timeout = readCount(params, "timeoutMs", timeoutMsDefault);
  const opened = await openBlankPage();
  try {
    const response = await opened.page.goto(url, { waitUntil, timeout, signal });
    const about = { ...(await describePage(opened.page)), httpStatus: response?.status() ?? null };
    // The same name for every attempt of the task: another one replaces the page, which closes it.
    const id = `page ${ctx.taskId}`;
    resources.register({
      id,
      type: pageType,
      scope: ctx.runId,
      value: opened,
      metadata: about,
      sizeBytes: pageBytes,
      onDrop: () => void opened.close().catch(reportUnclosed),
    });
    const artifact = resources.artifact(id);
    const resourceRef = { resourceId: id, workerName: artifact.worker_name, type: pageType };
    return {
      outputs: { status: "SUCCEEDED", page: { resourceRef, ...about }, done: true },
      artifacts: [artifact],
    };
  } catch (failed) {
    await opened.close();
    throw failed;
  }
}

/** A page whose Chromium is gone is closed already. */
function reportUnclosed(problem: unknown): void {
  console.error(`a page could not be closed: ${problem instanceof Error ? problem.message : String(problem)}`);
}

export async function click(ctx: HandlerContext) {
  const { params, signal } = ctx;
  const page = findPage(ctx);
  const element = page.locator(readText(params, "selector"));
  const waitFor = readChoice(params, "waitFor", ["visible", "attached", "stable", "enabled"]);
  const button = readChoice(params, "button", ["left", "right", "middle"]);
  const delayMs = readCount(params, "delay", 0);
  const timeout = timeoutMsDefault;
  await element.waitFor({ state: waitFor === "attached" ? "attached" : "visible", timeout, signal });
  if (delayMs > 0) await pause(delayMs, undefined, { signal });
  // Playwright itself waits until the element is visible, stable and enabled, unless it is forced.
  await element.click({ button, force: waitFor === "attached", timeout, signal });
  return finish(page, { selector: readText(params, "selector") });
}

export async function input(ctx: HandlerContext) {
  const { params, signal } = ctx;
  const page = findPage(ctx);
  const element = page.locator(readText(params, "selector"));
  const value = readText(params, "value", "");
  const timeout = timeoutMsDefault;
  if (params["clear"] === false) await element.pressSequentially(value, { timeout, signal });
  else await element.fill(value, { timeout, signal });
  if (params["submit"] === true) await element.press("Enter", { timeout, signal });
  return finish(page, { selector: readText(params, "selector") });
}

export async function extract(ctx: HandlerContext) {
  const { params, signal } = ctx;
  const page = findPage(ctx);
  const elements = page.locator(readText(params, "selector"));
  const what = readChoice(params, "what", ["text", "html", "value", "attribute"]);
  const attribute = what === "attribute" ? readText(params, "attribute") : "";
  await elements.first().waitFor({ state: "attached", timeout: timeoutMsDefault, signal });
  const found = await elements.all();
  const wanted = params["all"] === true ? found.slice(0, elementsMax) : found.slice(0, 1);
  const values = await Promise.all(wanted.map((one) => readElement(one, what, attribute)));
  const outputs = { value: values[0] ?? null, values, count: found.length };
  return finish(page, { selector: readText(params, "selector") }, outputs);
}

/** The picture stays at this worker as a file, and is stored with the scheduler, where people and other workers find it. */
export async function screenshot(ctx: HandlerContext) {
  const { params, resources, signal, workDir } = ctx;
  const page = findPage(ctx);
  const selector = readText(params, "selector", "");
  const filename = path.basename(readText(params, "filename", "screenshot.png"));
  const file = path.join(workDir, "screenshot.png");
  const shared = { path: file, type: "png", timeout: timeoutMsDefault, signal } as const;
  const bytes =
    selector === ""
      ? await page.screenshot({ ...shared, fullPage: params["fullPage"] === true })
      : await page.locator(selector).screenshot(shared);
  // The size is in the first chunk of every PNG.
  const size = { width: bytes.readUInt32BE(16), height: bytes.readUInt32BE(20) };
  const id = `screenshot ${ctx.taskId}`;
  resources.registerFile(id, file, { scope: ctx.runId, metadata: size });
  const stored = await resources.upload(id, { filename, mimeType: "image/png" });
  return {
    outputs: { status: "SUCCEEDED", screenshot: { ...stored, ...size }, done: true, metadata: await describePage(page) },
    artifacts: [resources.artifact(id)],
  };
}

export function close_page({ leased, resources }: HandlerContext) {
  const pages = leased.filter(({ type }) => type === pageType);
  for (const { id } of pages) resources.drop(id, "closed by a node");
  return { outputs: { status: "SUCCEEDED", done: true, closed: pages.length } };
}

async function finish(page: Page, about: Record<string, string>, outputs: object = {}) {
  return { outputs: { status: "SUCCEEDED", ...outputs, done: true, metadata: { ...about, ...(await describePage(page)) } } };
}

async function readElement(element: Locator, what: string, attribute: string): Promise<string | null> {
  const options = { timeout: timeoutMsDefault };
  if (what === "html") return element.innerHTML(options);
  if (what === "value") return element.inputValue(options);
  return what === "attribute" ? element.getAttribute(attribute, options) : element.innerText(options);
}

const describePage = async (page: Page) => ({ url: page.url(), title: await page.title() });

/** The page that the task was given; a page that its own Chromium has lost is not found any more. */
function findPage({ leased, resources, params }: HandlerContext): Page {
  const kept = leased.find(({ type }) => type === pageType);
  if (kept === undefined) {
    const hint = "connect the port page of an Open Page node to its port page";
    throw failure(
      "E.PARAMS.INVALID",
      params["page"] === undefined ? `no page was given; ${hint}` : `page is no open page; ${hint}`,
    );
  }
  const opened = kept.value as OpenPage | undefined;
  if (opened !== undefined && !opened.page.isClosed()) return opened.page;
  resources.drop(kept.id, "lost");
  throw failure("E.RESOURCE.MISSING", `${kept.id} was closed: its Chromium has ended; open the page again`);
}

/** Pages of the web only: `file:` would let whoever writes a workflow read this worker's files. */
function readAddress(params: Params): string {
  const text = readText(params, "url");
  const url = URL.parse(text);
  if (url === null) throw failure("E.PARAMS.INVALID", `url is not an address: ${text.slice(0, 200)}`);
  if (url.protocol !== "http:" && url.protocol !== "https:")
    throw failure("E.PARAMS.INVALID", `url must begin with http: or https:, not ${url.protocol}`);
  return url.href;
}

function readText(params: Params, name: string, fallback?: string): string {
  const value = params[name] ?? fallback;
  if (typeof value !== "string") throw failure("E.PARAMS.INVALID", `${name} must be a text`);
  if (value === "" && fallback === undefined) throw failure("E.PARAMS.INVALID", `${name} must not be empty`);
  return value;
}

function readCount(params: Params, name: string, fallback: number): number {
  const value = params[name] ?? fallback;
  if (typeof value === "number" && Number.isSafeInteger(value) && value >= 0) return value;
  throw failure("E.PARAMS.INVALID", `${name} must be a whole number from 0 on`);
}

/** The first choice where none is made. */
function readChoice<const T extends string>(params: Params, name: string, choices: readonly [T, ...T[]]): T {
  const value = params[name] ?? choices[0];
  const found = choices.find((one) => one === value);
  if (found === undefined) throw failure("E.PARAMS.INVALID", `${name} must be one of ${choices.join(", ")}`);
  return found;
}

const failure = (code: string, message: string): Error => Object.assign(new Error(message), { code });
