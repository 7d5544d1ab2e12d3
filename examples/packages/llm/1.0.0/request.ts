// One request to the server: where it goes, with which key, for how long, and what its refusals mean. The key comes from a granted resource and
// goes nowhere but into the header of this request.

import type { HandlerContext } from "@astraflow/sdk";
import { LlmFailure, refusalOf } from "./failure.ts";

type Params = HandlerContext["params"];

export interface Endpoint {
  readonly url: string;
  readonly key: string | undefined;
  readonly timeoutMs: number;
  /** Ends the request: the task was stopped, or its time is over. */
  readonly signal: AbortSignal;
  /** The task itself was stopped: that is no failure of the server. */
  readonly stopped: AbortSignal;
}

const defaultBaseUrl = "https://api.openai.com/v1";
const openAiHost = "api.openai.com";
const errorBytesMax = 64 * 1024;
const saidCharsMax = 1_000;

/** Names under which people put keys into parameters, where they would be stored and shown. */
const keyNames = ["apiKey", "api_key", "key", "token", "authorization"];

export function readEndpoint(ctx: HandlerContext, path: string): Endpoint {
  const { params } = ctx;
  const wrong = keyNames.find((name) => params[name] !== undefined);
  if (wrong !== undefined)
    throw new LlmFailure(
      "E.PARAMS.INVALID",
      `${wrong} is a parameter, which everybody can read; remove it and grant the key as the resource openai_compatible_api_key`,
    );
  const base = readBaseUrl(ctx);
  const timeoutMs = Number(params["timeoutMs"] ?? 120_000);
  if (!Number.isSafeInteger(timeoutMs) || timeoutMs < 1)
    throw new LlmFailure("E.PARAMS.INVALID", "timeoutMs must be a whole number above 0");
  return {
    url: `${base.href.replace(/\/+$/, "")}/${path}`,
    key: findKey(ctx, base),
    timeoutMs,
    signal: AbortSignal.any([ctx.signal, AbortSignal.timeout(timeoutMs)]),
    stopped: ctx.signal,
  };
}

/** An operator who grants a `base_url` beside the key decides where the key goes; workflows cannot send it elsewhere. */
function readBaseUrl({ params, resourceBindings }: HandlerContext): URL {
  const asked = typeof params["baseUrl"] === "string" && params["baseUrl"] !== "" ? parseUrl(params["baseUrl"]) : undefined;
  const granted = resourceBindings["base_url"]?.value?.trim();
  if (granted === undefined || granted === "") return asked ?? new URL(defaultBaseUrl);
  const only = parseUrl(granted);
  if (asked !== undefined && asked.href.replace(/\/+$/, "") !== only.href.replace(/\/+$/, ""))
    throw new LlmFailure(
      "E.PARAMS.INVALID",
      `baseUrl is ${asked.href}, but this package may only ask ${only.href}; leave baseUrl out`,
    );
  return only;
}

function parseUrl(text: string): URL {
  const url = URL.parse(text);
  if (
    url === null ||
    !["http:", "https:"].includes(url.protocol) ||
    url.username !== "" ||
    url.password !== "" ||
    url.search !== ""
  )
    throw new LlmFailure(
      "E.PARAMS.INVALID",
      "baseUrl must be an address that begins with http:// or https://, without user, password or ?",
    );
  return url;
}

/** The key of OpenAI goes to OpenAI alone. A server of one's own may need none. */
function findKey({ resourceBindings }: HandlerContext, { hostname, protocol }: URL): string | undefined {
  const { openai_api_key, openai_compatible_api_key } = resourceBindings;
  if (hostname === openAiHost && protocol === "https:" && openai_api_key?.value !== undefined) return openai_api_key.value;
  return openai_compatible_api_key?.value;
}

/** The answer of the server, once its head says that there is one. */
export async function postJson(endpoint: Endpoint, body: Params | object): Promise<Response> {
  const { url, key, signal } = endpoint;
  let response: Response;
  try {
    response = await fetch(url, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        accept: "text/event-stream, application/json",
        ...(key !== undefined && { authorization: `Bearer ${key}` }),
      },
      body: JSON.stringify(body),
      // A key must not follow a redirect to somewhere else.
      redirect: "manual",
      signal,
    });
  } catch (problem) {
    throw brokenRequest(endpoint, problem);
  }
  if (response.ok) return response;
  if (response.status >= 300 && response.status < 400) {
    const to = response.headers.get("location") ?? "elsewhere";
    throw new LlmFailure("E.LLM.REFUSED", `${url} redirects to ${to}, which is not followed; correct baseUrl`, {
      httpStatus: response.status,
    });
  }
  throw refusalOf(response.status, await readRefusal(response, endpoint), readRetryAfter(response));
}

/** What it means that a request broke off: the task was stopped, the time is over, or the server is not there. */
export function brokenRequest({ url, timeoutMs, signal, stopped }: Endpoint, problem: unknown): unknown {
  if (stopped.aborted) return stopped.reason;
  if (signal.aborted) return new LlmFailure("E.TIMEOUT", `${url} did not answer completely within ${timeoutMs} ms`, {}, problem);
  if (problem instanceof LlmFailure) return problem;
  const { cause, message } = problem as { cause?: { message?: string; code?: string }; message?: string };
  const why = cause?.message || cause?.code || message || String(problem);
  return new LlmFailure("E.LLM.UNAVAILABLE", `the connection to ${url} failed: ${why}`, {}, problem);
}

/** The server's own words: `error.message` as OpenAI has it, or the beginning of the text. */
async function readRefusal(response: Response, endpoint: Endpoint): Promise<string> {
  const text = await readLimitedText(response, endpoint);
  try {
    const { error } = JSON.parse(text) as { error?: { message?: unknown } | string };
    const said = typeof error === "string" ? error : error?.message;
    return (typeof said === "string" ? said : text).slice(0, saidCharsMax);
  } catch (notJson) {
    if (!(notJson instanceof SyntaxError)) throw notJson;
    return text.slice(0, saidCharsMax).trim();
  }
}

async function readLimitedText(response: Response, endpoint: Endpoint): Promise<string> {
  const parts: Uint8Array[] = [];
  let bytes = 0;
  try {
    for await (const part of response.body ?? []) {
      parts.push(part);
      bytes += part.length;
      if (bytes > errorBytesMax) break;
    }
  } catch (problem) {
    throw brokenRequest(endpoint, problem);
  }
  return Buffer.concat(parts).toString("utf8");
}

function readRetryAfter({ headers }: Response): number | undefined {
  const value = headers.get("retry-after");
  if (value === null) return undefined;
  const seconds = Number(value);
  const ms = Number.isFinite(seconds) ? seconds * 1_000 : Date.parse(value) - Date.now();
  return Number.isFinite(ms) ? Math.max(0, Math.round(ms)) : undefined;
}
