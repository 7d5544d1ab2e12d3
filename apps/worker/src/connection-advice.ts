// Advice for the operator when a session does not come up: one sentence for the log, from the link's event and the worker's settings.

import type { LinkLogEvent, WorkerLogEvent } from "@astraflow/runtime";
import type { WorkerConfig } from "./settings/config.ts";

type AdviceContext = Pick<WorkerConfig, "urls" | "tenant" | "tokenFile">;

/** Reasons as Node, OpenSSL and ws word them. */
const adviceByReason: readonly { readonly when: RegExp; readonly advice: (context: AdviceContext) => string | undefined }[] = [
  { when: /altname|does not match/i, advice: () => "use a name in --url that the scheduler's certificate holds" },
  { when: /key values mismatch/, advice: () => "--tls-cert and --tls-key are not a pair; give a certificate and its own key" },
  {
    when: /certificate has expired|certificate is not yet valid/,
    advice: () => "the scheduler's certificate is out of date: renew it there, and look at this machine's clock",
  },
  {
    when: /self-signed certificate|unable to (get|verify)|certificate/i,
    advice: () => "name the authority that signed the scheduler's certificate with --ca FILE",
  },
  {
    when: /wrong version number|packet length too long/,
    advice: () => "the scheduler does not speak TLS there: dial ws://, or start it with --tls-cert and --tls-key",
  },
  {
    when: /socket hang up/,
    advice: ({ urls }) => (urls.some((url) => url.startsWith("ws:")) ? "if the scheduler has TLS, dial wss://" : undefined),
  },
  { when: /Unexpected server response: 404/, advice: () => "the address for workers ends with /ws/worker" },
];

/** Undefined where the reason needs no advice. */
export function adviseOnConnectionFailure(event: LinkLogEvent | WorkerLogEvent, context: AdviceContext): string | undefined {
  if (event.event === "lost") return adviceByReason.find(({ when }) => when.test(event.message))?.advice(context);
  if (event.event !== "refused") return undefined;
  switch (event.details?.["code"]) {
    case "E.AUTH.INVALID_TOKEN":
      return context.tokenFile === undefined
        ? `start it with the token that the scheduler knows for tenant "${context.tenant}"`
        : `put the token that the scheduler knows for tenant "${context.tenant}" into ${context.tokenFile}, which is read again at each handshake`;
    case "E.AUTH.MTLS_REQUIRED":
      return `show a certificate for spiffe://TRUST-DOMAIN/tenant/${context.tenant} of an authority that the scheduler trusts, with --tls-cert and --tls-key`;
    default:
      return undefined;
  }
}
