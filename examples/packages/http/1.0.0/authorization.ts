// The secret that was granted to the package, as a header. It goes only to origins that the worker's operator lists: whoever writes a workflow
// chooses the address, and must not be able to send the secret to a server of their own.

import type { HandlerContext } from "@astraflow/sdk";
import { failure } from "./failure.ts";

const originsVariable = "HTTP_PACKAGE_SECRET_ORIGINS";

export function readAuthorization(
  { resourceBindings }: HandlerContext,
  auth: "none" | "bearer" | "basic" | "raw",
  url: URL,
): string | undefined {
  if (auth === "none") return undefined;
  const secret = resourceBindings["authorization"]?.value;
  if (secret === undefined)
    throw failure(
      "E.RUNNER.REFUSED",
      `auth is ${auth}, but no secret is granted to the package http under the key authorization`,
    );
  const origins = (process.env[originsVariable] ?? "").split(",").map((text) => text.trim());
  if (!origins.includes(url.origin))
    throw failure(
      "E.RUNNER.REFUSED",
      `the granted secret is not for ${url.origin}; the worker's ${originsVariable} lists the origins it is for`,
    );
  if (auth === "bearer") return `Bearer ${secret}`;
  return auth === "basic" ? `Basic ${Buffer.from(secret).toString("base64")}` : secret;
}
