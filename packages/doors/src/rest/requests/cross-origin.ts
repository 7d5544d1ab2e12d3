// Pages of other origins: the headers that let a browser hand them our answers. Only configured origins get them, each by its own name:
// a wildcard together with credentials would open the API to every page.

type Headers = Readonly<Record<string, string>>;

/** A request as far as this needs to know it; names of headers are lowercase. */
export interface CrossOriginRequest {
  readonly method: string;
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
}

export interface CrossOriginPolicy {
  /** Headers of every answer, errors and event streams included. */
  responseHeaders(request: CrossOriginRequest): Headers;
  /** The headers of the answer to a preflight; null if the request is none, or of an origin that is not configured. */
  preflightHeaders(request: CrossOriginRequest): Headers | null;
}

const allowedMethods = "GET, HEAD, POST, PUT, PATCH, DELETE";
/** What an answer has beside its body that a page may want to read. */
const exposedHeaders = "content-disposition, etag, idempotent-replayed, location, retry-after, www-authenticate, x-request-id";
/** How long a browser may remember the answer to a preflight. Short, because an origin can be taken off the list. */
const preflightSeconds = 600;
/** A list of header names, as browsers send it. */
const headerNames = /^[a-z0-9-]+(, ?[a-z0-9-]+){0,63}$/i;

/** `origins`: as browsers send them, such as `https://dashboard.example`. Without any, every answer is as if there were no other origins. */
export function createCrossOriginPolicy(origins: readonly string[]): CrossOriginPolicy {
  const allowed = new Set(origins);
  const allowedOriginOf = ({ headers: { origin } }: CrossOriginRequest): string | null =>
    typeof origin === "string" && allowed.has(origin) ? origin : null;
  const responseHeaders = (request: CrossOriginRequest): Headers => {
    if (allowed.size === 0) return {};
    const origin = allowedOriginOf(request);
    // Also without a match: a cache must not give one origin's answer to another.
    if (origin === null) return { vary: "Origin" };
    return {
      vary: "Origin",
      "access-control-allow-origin": origin,
      "access-control-allow-credentials": "true",
      "access-control-expose-headers": exposedHeaders,
    };
  };
  return {
    responseHeaders,
    preflightHeaders(request) {
      const { method, headers } = request;
      if (method !== "OPTIONS" || headers["access-control-request-method"] === undefined || allowedOriginOf(request) === null)
        return null;
      const wanted = headers["access-control-request-headers"];
      return {
        ...responseHeaders(request),
        "access-control-allow-methods": allowedMethods,
        // The origin is trusted, so its pages may send any header; which ones count is the routes' business.
        ...(typeof wanted === "string" && headerNames.test(wanted) && { "access-control-allow-headers": wanted }),
        "access-control-max-age": String(preflightSeconds),
      };
    },
  };
}
