// Settings that are fine one by one and not together: who proves what to whom, and what would cross a network in the clear.
// Reading them one by one is config.ts.

import { envPrefix, type WorkerSettingName } from "./setting-table.ts";

export type WorkerSettingValues = ReadonlyMap<WorkerSettingName, unknown>;

export const defaultUrl = "ws://127.0.0.1:8080/ws/worker";
/** A published word, not a secret: it opens only a scheduler that was started with --dev. */
export const publicDevToken = "dev-token";

export function findSettingConflicts(values: WorkerSettingValues): string[] {
  const problems: string[] = [];
  const mode = resolveAuthMode(values);
  if (mode === "token" && !values.get("AUTH_TOKEN")) {
    problems.push(
      `no token is set: give --token @FILE or ${envPrefix}AUTH_TOKEN (a scheduler started with --dev takes --token ${publicDevToken})`,
    );
  }
  if (mode === "mtls" && !values.has("TLS_CERT")) problems.push("mode mtls needs a certificate: give --tls-cert and --tls-key");
  if (values.has("TLS_CERT") !== values.has("TLS_KEY")) problems.push("--tls-cert and --tls-key belong together; one is missing");
  problems.push(...findPlaintextUrls(values, mode), ...findExposedListener(values));
  const base = Number(values.get("RECONNECT_BASE_DELAY_SECONDS") ?? 1);
  const max = Number(values.get("RECONNECT_MAX_DELAY_SECONDS") ?? 30);
  if (base > max) problems.push(`the first pause between connections (${base} s) is longer than the longest (${max} s)`);
  return problems;
}

/** Whoever brings a certificate and no token wants to be known by it. */
export function resolveAuthMode(values: WorkerSettingValues): "token" | "mtls" {
  const said = values.get("AUTH_MODE") as "token" | "mtls" | undefined;
  return said ?? (values.has("TLS_CERT") && !values.get("AUTH_TOKEN") ? "mtls" : "token");
}

/** A token that crosses a network in the clear belongs to everybody on the way. */
function findPlaintextUrls(values: WorkerSettingValues, mode: "token" | "mtls"): string[] {
  const urls = (values.get("SCHEDULER_WS_URL") ?? [defaultUrl]) as readonly string[];
  const plain = urls.map((text) => new URL(text)).filter(({ protocol }) => protocol === "ws:");
  const problems: string[] = [];
  if (mode === "mtls")
    problems.push(...plain.map(({ host }) => `ws://${host} cannot show a certificate; mode mtls needs wss://`));
  else if (values.get("INSECURE_CONNECT") !== true)
    problems.push(
      ...plain
        .filter(({ hostname }) => !isLoopback(hostname))
        .map(
          ({ host }) =>
            `ws://${host} would carry the token over the network in the clear; use wss://, or add --insecure-connect if the network is trusted`,
        ),
    );
  return problems;
}

function findExposedListener(values: WorkerSettingValues): string[] {
  const listen = values.get("METRICS_LISTEN") as { host: string; port: number } | undefined;
  if (listen === undefined || isLoopback(listen.host) || values.get("INSECURE_LISTEN") === true) return [];
  return [
    `--metrics-listen ${listen.host} can be reached by other machines, unencrypted and without a token; use 127.0.0.1, or add --insecure-listen if the network is trusted`,
  ];
}

const isLoopback = (host: string): boolean =>
  host === "localhost" || host === "::1" || host === "[::1]" || /^127(\.\d{1,3}){3}$/.test(host);
