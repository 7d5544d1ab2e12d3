// The one Chromium of this process: started with the first page, ended with the last. Every page has a context, and so cookies, of its own.

import { accessSync, constants } from "node:fs";
import type * as Playwright from "playwright-core";
import type { Browser, BrowserContext, Page } from "playwright-core";

/** Where Debian, Ubuntu, Fedora and Google put it. */
const usualPlaces = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome-stable", "/usr/bin/google-chrome"];

/** The size of a page where nobody sets one: what screenshots are as large as. */
export const viewport = { width: 1280, height: 720 } as const;

export interface OpenPage {
  readonly page: Page;
  /** Ends the page and what belongs to it, and Chromium with the last page. */
  close(): Promise<void>;
}

/** A started Chromium and its pages, those that are being opened included. */
interface SharedBrowser {
  readonly browser: Promise<Browser>;
  pageCount: number;
}

let current: SharedBrowser | undefined;

export async function openBlankPage(): Promise<OpenPage> {
  const shared = current ?? startShared();
  shared.pageCount++;
  let context: BrowserContext | undefined;
  try {
    context = await (await shared.browser).newContext({ viewport });
    const own = context;
    return { page: await context.newPage(), close: () => closePage(shared, own) };
  } catch (failed) {
    if (context === undefined) shared.pageCount--;
    else await closePage(shared, context);
    throw failed;
  }
}

function startShared(): SharedBrowser {
  const shared: SharedBrowser = { browser: startChromium(), pageCount: 0 };
  current = shared;
  // It crashed or was killed: its pages are gone, and the next page starts another. A failed start is told to whoever waits for it.
  shared.browser.then(
    (browser) => browser.on("disconnected", () => forget(shared)),
    () => forget(shared),
  );
  return shared;
}

async function closePage(shared: SharedBrowser, context: BrowserContext): Promise<void> {
  shared.pageCount--;
  const isLast = shared.pageCount === 0;
  // Before anything is awaited: the next page must not be opened in a browser that is being closed.
  if (isLast) forget(shared);
  await context.close();
  if (isLast) await (await shared.browser).close();
}

function forget(shared: SharedBrowser): void {
  if (current === shared) current = undefined;
}

async function startChromium(): Promise<Browser> {
  const executablePath = findChromium();
  // Loaded when it is needed: a worker that opens no page does not pay for it.
  const { chromium } = await loadPlaywright();
  try {
    // Its sandbox cannot be had as root.
    const chromiumSandbox = process.getuid?.() !== 0 && process.env["BROWSER_SANDBOX"] !== "off";
    return await chromium.launch({ executablePath, chromiumSandbox, headless: true });
  } catch (cause) {
    const hint = "BROWSER_SANDBOX=off starts it without its sandbox where the system does not permit one";
    throw new Error(`Chromium at ${executablePath} did not start (${hint}): ${firstLine(cause)}`, { cause });
  }
}

async function loadPlaywright(): Promise<typeof Playwright> {
  try {
    return await import("playwright-core");
  } catch (cause) {
    throw new Error(
      `playwright-core cannot be loaded (${firstLine(cause)}); it is in the package's package-lock.json: run npm ci in the package's folder`,
      { cause },
    );
  }
}

export function findChromium(env: Readonly<Record<string, string | undefined>> = process.env): string {
  const chosen = env["BROWSER_EXECUTABLE"];
  const candidates = chosen === undefined ? usualPlaces : [chosen];
  const found = candidates.find(isExecutable);
  if (found !== undefined) return found;
  throw new Error(
    `this worker has no Chromium: ${candidates.join(", ")} cannot be executed; install it (Debian: apt-get install chromium) or set BROWSER_EXECUTABLE`,
  );
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    // Not there, or not a program: the next place is tried.
    return false;
  }
}

const firstLine = (thrown: unknown): string => (thrown instanceof Error ? thrown.message : String(thrown)).split("\n")[0] ?? "";
