// Settings that are valid one by one but not together, and those that would send secrets over a network unencrypted.

import { isLoopbackHost } from "@astraflow/settings";
import { publicDevToken } from "./setting-readers.ts";
import { variablePrefix, type WorkerSettingValues } from "./setting-table.ts";

type AuthMode = WorkerSettingValues["AUTH_MODE"];

export function findSettingConflicts(values: WorkerSettingValues, mode: AuthMode): string[] {
  const { AUTH_TOKEN, TLS_CERT, TLS_KEY, RECONNECT_BASE_DELAY_SECONDS: base, RECONNECT_MAX_DELAY_SECONDS: max } = values;
  const problems: string[] = [];
  if (mode === "token" && !AUTH_TOKEN) {
    problems.push(
      `no token is set: give --token @FILE or ${variablePrefix}AUTH_TOKEN (a scheduler started with --dev takes --token ${publicDevToken})`,
    );
  }
  if (mode === "mtls" && TLS_CERT === undefined) problems.push("mode mtls needs a certificate: give --tls-cert and --tls-key");
  if ((TLS_CERT === undefined) !== (TLS_KEY === undefined))
    problems.push("--tls-cert and --tls-key belong together; one is missing");
  problems.push(...findPlaintextUrls(values, mode), ...findExposedListener(values));
  if (base > max) problems.push(`--reconnect-base-delay-seconds (${base}) is larger than --reconnect-max-delay-seconds (${max})`);
  return problems;
}

/** A worker with a certificate and no token authenticates with the certificate, unless the mode is given. */
export function resolveAuthMode({ AUTH_MODE, TLS_CERT, AUTH_TOKEN }: WorkerSettingValues, isGiven: boolean): AuthMode {
  return !isGiven && TLS_CERT !== undefined && !AUTH_TOKEN ? "mtls" : AUTH_MODE;
}

/** Everybody on the way can read a token that is not encrypted. */
function findPlaintextUrls({ SCHEDULER_WS_URL, INSECURE_CONNECT }: WorkerSettingValues, mode: AuthMode): string[] {
  const plain = SCHEDULER_WS_URL.map((text) => new URL(text)).filter(({ protocol }) => protocol === "ws:");
  if (mode === "mtls") return plain.map(({ host }) => `ws://${host} cannot show a certificate; mode mtls needs wss://`);
  if (INSECURE_CONNECT) return [];
  return plain
    .filter(({ hostname }) => !isLoopbackHost(hostname))
    .map(
      ({ host }) =>
        `ws://${host} would carry the token over the network in the clear; use wss://, or add --insecure-connect if the network is trusted`,
    );
}

function findExposedListener({ METRICS_LISTEN: listen, INSECURE_LISTEN }: WorkerSettingValues): string[] {
  if (listen === undefined || isLoopbackHost(listen.host) || INSECURE_LISTEN) return [];
  return [
    `--metrics-listen ${listen.host} can be reached by other machines, unencrypted and without a token; use 127.0.0.1, or add --insecure-listen if the network is trusted`,
  ];
}
