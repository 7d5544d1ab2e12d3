// What an attack is, what it is sent to, and how its outcome is judged. The attacks themselves are in the files beside this one.

import { randomUUID } from "node:crypto";
import type { Run, Workflow } from "@astraflow/protocol";

/** A scheduler that is up, with a worker that offers the demo package. */
export interface AttackTarget {
  readonly http: string;
  readonly ws: string;
  readonly pid: number;
  readonly dataDir: string;
  /** Secrets of tokens by what they may do. */
  readonly tokens: {
    readonly admin: string;
    readonly read: string;
    readonly metrics: string;
    readonly operate: string;
    readonly worker: string;
  };
  /** Of the user `admin` of tenant default. */
  readonly password: string;
}

export interface AttackOutcome {
  /** What was seen, with its figures, in one line. */
  readonly seen: string;
  /** Why the scheduler did not withstand it; null: it did. */
  readonly problem: string | null;
}

export interface Attack {
  readonly name: string;
  /** Runs with the tests; the others take minutes or gigabytes and run with the ledger. */
  readonly isQuick: boolean;
  send(target: AttackTarget): Promise<AttackOutcome>;
}

/** `problems`: sentences that must not be true, by the condition under which they are. */
export function judge(seen: string, problems: Readonly<Record<string, boolean>>): AttackOutcome {
  const found = Object.entries(problems).flatMap(([problem, isTrue]) => (isTrue ? [problem] : []));
  return { seen, problem: found.length === 0 ? null : found.join("; ") };
}

const requestMs = 60_000;

export interface Answer {
  readonly status: number;
  /** The code of an error body; empty where there is none. */
  readonly code: string;
  readonly text: string;
  readonly ms: number;
}

export interface RequestOptions {
  readonly token?: string;
  readonly method?: string;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

export async function request(target: Pick<AttackTarget, "http">, path: string, options: RequestOptions = {}): Promise<Answer> {
  const { token, body, method = body === undefined ? "GET" : "POST", headers } = options;
  const begin = performance.now();
  const response = await fetch(target.http + path, {
    method,
    headers: {
      ...(token !== undefined && { authorization: `Bearer ${token}` }),
      ...(body !== undefined && { "content-type": "application/json" }),
      ...headers,
    },
    signal: AbortSignal.timeout(requestMs),
    ...(body !== undefined && { body: typeof body === "string" ? body : JSON.stringify(body) }),
  });
  const text = await response.text();
  return { status: response.status, code: readCode(text), text, ms: performance.now() - begin };
}

function readCode(text: string): string {
  return /"error":"([A-Z][A-Z0-9._]+)"/.exec(text)?.[1] ?? "";
}

/** How often each answer came, as text: `3 x 401 E.AUTH.INVALID_TOKEN`. */
export function countAnswers(answers: readonly Pick<Answer, "status" | "code">[]): string {
  const counts = new Map<string, number>();
  for (const { status, code } of answers) {
    const name = code === "" ? String(status) : `${status} ${code}`;
    counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  return [...counts].map(([name, count]) => `${count} x ${name}`).join(", ");
}

/** One node of the demo package. */
export function demoWorkflow(type = "demo.text", parameters: object = { text: "abc" }): Workflow {
  return {
    id: randomUUID(),
    schemaVersion: "2025-10",
    metadata: { name: "Attack" },
    nodes: [
      {
        id: randomUUID(),
        type,
        label: "only",
        package: { name: "demo", version: "1.0.0" },
        position: { x: 0, y: 0 },
        parameters,
      },
    ],
    edges: [],
  } as unknown as Workflow;
}

export async function startRun(target: AttackTarget, workflow: Workflow): Promise<string> {
  const answer = await request(target, "/api/v1/runs", {
    token: target.tokens.operate,
    body: { workflow, clientId: "attack" },
    headers: { "idempotency-key": randomUUID() },
  });
  if (answer.status !== 202) throw new Error(`the start of a run was answered ${answer.status}: ${answer.text}`);
  return (JSON.parse(answer.text) as { runId: string }).runId;
}

/** The run once it has ended, or as it is after a minute. */
export async function waitForRunEnd(target: AttackTarget, runId: string): Promise<Run> {
  const until = performance.now() + requestMs;
  for (;;) {
    const run = JSON.parse((await request(target, `/api/v1/runs/${runId}`, { token: target.tokens.operate })).text) as Run;
    if ((run.status !== "queued" && run.status !== "running") || performance.now() > until) return run;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** Ordinary work still goes through: a run succeeds. */
export async function runOrdinaryWork(target: AttackTarget): Promise<boolean> {
  return (await waitForRunEnd(target, await startRun(target, demoWorkflow()))).status === "succeeded";
}
