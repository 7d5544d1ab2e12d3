// Starting runs: of a definition that is sent or stored, whole or in part, fresh or with results of another run. All of it is decided
// before the engine is asked: the engine only gets a definition and the results that some of its nodes start with.

import {
  type AnswerBody,
  type PresetResult,
  type RunDetail,
  type RunRow,
  readRunOrigin,
  resultBytesMax,
} from "@astraflow/engine";
import {
  canonicalJson,
  compilePlan,
  type PackageCatalogue,
  type Plan,
  planStart,
  type ReusedResult,
  type StartOptions,
  type StartPlan,
  type StartProblem,
} from "@astraflow/graph";
import {
  type Fault,
  fault,
  omitUndefined,
  type RunPlan,
  type RunStartRequest,
  runLabelLimits,
  type Workflow,
} from "@astraflow/protocol";
import { idempotencyKeyFor, isNotFound, notFound } from "../documents/documents.ts";
import { expectAnswer } from "../environment/engine-client.ts";
import type { Caller } from "../identity/identity.ts";
import { cachedPlanOf } from "../presentation/plan-cache.ts";
import { fittingWorkerCounter } from "../workers/worker-reader.ts";
import { invalidWorkflowFault, warningsField } from "../workflows/workflow-checks.ts";
import type { WorkflowServices } from "../workflows/workflow-services.ts";
import { type CheckedDefinition, createDefinitionCache } from "./run-definitions.ts";

/** A start with everything filled in. */
export interface ResolvedRunStart {
  readonly workflow: Workflow;
  readonly client: string;
  readonly priority: number;
  readonly timeoutMs: number | null;
  readonly labels: Readonly<Record<string, string>>;
  readonly version: number | "draft" | null;
  /** Digest of that version as it was published. */
  readonly versionHash?: string;
  readonly pins?: RunStartRequest["pins"];
  readonly from?: string;
  readonly to?: string;
  /** The run whose results are taken over. */
  readonly reuse?: RunDetail;
  /** Why it was requested, if that was given. */
  readonly reason?: string;
  /** The run that this one repeats, if it does more than reuse results. */
  readonly replayOf?: string;
  /** Unknown packages are no error: it was requested so, or this definition has run before. */
  readonly allowUnknown: boolean;
  readonly key: string | null;
  /** The request, if it did not contain the definition: with its key it stays the same request, whatever the newest version is. */
  readonly asked: object | null;
}

export type StartedRun = Extract<AnswerBody, { of: "run" }>;
/** A started run with the warnings of its definition. */
export type StartedDefinition = StartedRun & ReturnType<typeof warningsField>;

const defaultPriority = 5;
/** Tasks of another run that are read for their results. */
const reuseTasksMax = 20_000;

export class RunStarter {
  readonly #workflows: WorkflowServices;
  readonly #define: ReturnType<typeof createDefinitionCache>;

  constructor(workflows: WorkflowServices) {
    this.#workflows = workflows;
    this.#define = createDefinitionCache(workflows.digest);
  }

  async readRunDetail(tenant: string, run: string): Promise<RunDetail> {
    const { detail } = await this.#workflows.reader.page({ page: "run", tenant, run, tasksMax: reuseTasksMax });
    if (detail === null) throw notFound("run", run);
    return detail;
  }

  /** A stored workflow in one of its versions. */
  async readWorkflowVersion(
    { identity }: Caller,
    id: string,
    version: RunStartRequest["version"] = "latest",
  ): Promise<{ workflow: Workflow; version: number | "draft"; versionHash?: string }> {
    const { store, versions } = this.#workflows;
    const { document } = await store.find(identity, id);
    const number = version === "latest" ? document.version : version;
    // Before the first version is published, the newest is the draft.
    if (number === "draft" || number === 0) return { workflow: document.workflow, version: "draft" };
    const found = await versions.get(identity.tenant, id, number);
    return { workflow: found.version.workflow, version: number, versionHash: found.version.digest };
  }

  /** The version that an earlier run was of, if the caller may read that workflow: grants of the workflow follow from it. */
  async readVersionOfRun({ identity }: Caller, run: RunRow): Promise<Pick<ResolvedRunStart, "version" | "versionHash">> {
    const { version, versionHash } = readRunOrigin(run);
    if (typeof version !== "number" && version !== "draft") return { version: null };
    const found = await this.#workflows.store.find(identity, run.source).catch((why: unknown) => {
      if (isNotFound(why)) return null;
      throw why;
    });
    if (found === null) return { version: null };
    return { version, ...(versionHash !== undefined && { versionHash }) };
  }

  async resolveStart(caller: Caller, request: RunStartRequest, key: string | null): Promise<ResolvedRunStart> {
    const { workflow: sent, workflowId, version, pins, from, to, reuse } = request;
    checkLabels(request.labels ?? {});
    checkPins(pins ?? {});
    const chosen =
      sent === undefined ? await this.readWorkflowVersion(caller, workflowId ?? "", version) : { workflow: sent, version: null };
    return {
      ...chosen,
      asked: sent === undefined ? { workflowId, version: version ?? null } : null,
      client: request.clientId,
      priority: request.priority ?? defaultPriority,
      timeoutMs: request.timeoutMs ?? null,
      labels: request.labels ?? {},
      ...omitUndefined({ pins, from, to }),
      ...(reuse !== undefined && { reuse: await this.readRunDetail(caller.identity.tenant, reuse) }),
      allowUnknown: request.allowUnknown ?? false,
      key,
    };
  }

  async start(caller: Caller, order: ResolvedRunStart): Promise<StartedDefinition> {
    const definition = await this.#checkDefinition(caller.identity.tenant, order);
    const refusal = invalidWorkflowFault(definition.problems);
    // With a key it may have been started when the catalogue was another, and only the engine knows.
    if (refusal !== null && order.key === null) throw refusal;
    const presetResults = refusal === null ? presetResultsOf(definition, order) : null;
    const { tenant, user } = caller.identity;
    const { client, priority, timeoutMs, key } = order;
    const answer = await this.#workflows.engineClient.request({
      type: "run.start",
      tenant,
      by: user,
      digest: definition.digest,
      body: definition.body,
      client,
      priority,
      timeoutMs,
      label: definition.workflow.metadata.name,
      source: definition.workflow.id,
      about: JSON.stringify(runOriginOf(order, user, caller.requestId)),
      ...(presetResults !== null && { presetResults }),
      ...(refusal !== null && { refusal: { code: refusal.code, message: refusal.message, details: refusal.details ?? {} } }),
      ask: key === null ? null : idempotencyKeyFor(this.#workflows.digest, key, requestOf(order, definition)),
    });
    return { ...expectAnswer(answer, "run"), ...warningsField(repeatableProblems(definition, order)) };
  }

  /** What a start would do, without doing it. */
  async previewStart({ identity: { tenant } }: Caller, order: ResolvedRunStart): Promise<RunPlan> {
    const definition = await this.#checkDefinition(tenant, order);
    const plan = compilePlan(definition.workflow);
    const start = planStart(plan, toStartOptions(plan, order));
    const fitting = await fittingWorkerCounter(this.#workflows.reader, tenant);
    return {
      dryRun: true,
      ...(definition.digest !== "" && { definitionHash: definition.digest }),
      nodes: plan.nodes
        .filter((node) => node.host === null)
        .map((node) => ({
          nodeId: node.id,
          label: node.label,
          action: start.given[node.ordinal]?.why ?? "run",
          // The scheduler runs containers itself.
          ...(node.container === null && { workers: fitting(node) }),
        })),
      problems: [
        ...definition.problems.map((problem) => ({ ...problem })),
        ...start.problems.map((problem) => toRunPlanProblem(problem, "error")),
        ...start.warnings.map((problem) => toRunPlanProblem(problem, "warning")),
      ],
    };
  }

  #checkDefinition(tenant: string, { workflow, allowUnknown }: ResolvedRunStart): Promise<CheckedDefinition> {
    const define = (catalogue: PackageCatalogue, stepsMax?: number) =>
      this.#define(workflow, catalogue, { allowUnknown, stepsMax });
    return this.#workflows.catalogues.check(tenant, define);
  }
}

/** Problems that the answer may name. With a key it must be the same when it is repeated, whatever catalogue and newest version are by then. */
function repeatableProblems(definition: CheckedDefinition, { key, asked }: ResolvedRunStart): CheckedDefinition["problems"] {
  if (key === null) return definition.problems;
  return asked === null ? definition.unknownFields() : [];
}

const toRunPlanProblem = ({ field, node, message }: StartProblem, severity: "error" | "warning") => ({
  path: `/${field}`,
  code: "E.REQUEST.INVALID",
  message,
  node,
  severity,
});

/** Results that nodes are given instead of running; null if every node runs. */
function presetResultsOf({ workflow }: CheckedDefinition, order: ResolvedRunStart) {
  if (startsWholeWorkflow(order)) return null;
  const plan = compilePlan(workflow);
  const start = planStart(plan, toStartOptions(plan, order));
  checkStart(start);
  return Object.keys(start.given).length === 0 ? null : (start.given as Readonly<Record<number, PresetResult>>);
}

/** What makes two starts with one key the same request. */
function requestOf(order: ResolvedRunStart, definition: CheckedDefinition): object {
  const { client, priority, timeoutMs, labels, asked, pins = null, from = null, to = null, reuse, reason = null } = order;
  return {
    workflow: asked ?? definition.sentDigest(),
    client,
    priority,
    timeoutMs,
    labels,
    pins,
    from,
    to,
    reuse: reuse?.run.id ?? null,
    reason,
    // A replay does not ask for it, or it is a part of `asked`.
    ...(order.allowUnknown && order.replayOf === undefined && { allowUnknown: true }),
  };
}

function checkLabels(labels: Readonly<Record<string, string>>): void {
  const { countMax, keyCharsMax } = runLabelLimits;
  const keys = Object.keys(labels);
  if (keys.length > countMax) throw invalidLabels(`body.labels may have ${countMax} labels, and has ${keys.length}`);
  const isInvalid = (key: string) => key === "" || key.length > keyCharsMax || /[\u0000-\u001f\u007f]/.test(key);
  if (keys.some(isInvalid))
    throw invalidLabels(`the names in body.labels must have 1 to ${keyCharsMax} characters, none of them a control character`);
}

const invalidLabels = (why: string): Fault => fault("E.REQUEST.INVALID", why, { path: "body.labels" });

/** A pin takes the place of a result, so it may be as large as one. */
function checkPins(pins: NonNullable<RunStartRequest["pins"]>): void {
  for (const [node, result] of Object.entries(pins)) {
    const bytes = Buffer.byteLength(JSON.stringify(result));
    if (bytes <= resultBytesMax) continue;
    throw fault(
      "E.REQUEST.TOO_LARGE",
      `the pin of node ${node.slice(0, 100)} has ${bytes} bytes, and a result may have ${resultBytesMax}; refer to a resource instead`,
      { path: "body.pins", limit: resultBytesMax },
    );
  }
}

const startsWholeWorkflow = ({ pins, from, to, reuse }: ResolvedRunStart): boolean =>
  pins === undefined && from === undefined && to === undefined && reuse === undefined;

const toStartOptions = (plan: Plan, { pins, from, to, reuse }: ResolvedRunStart): StartOptions => ({
  ...omitUndefined({ pins, from, to }),
  ...(reuse !== undefined && { reuse: reusableResultsOf(plan, reuse) }),
});

/** Results of an earlier run by node. A node that has changed since (type, package, parameters) has none. */
function reusableResultsOf(plan: Plan, detail: RunDetail): (node: string) => ReusedResult | null {
  const before = cachedPlanOf(detail.workflow);
  const tasks = new Map(detail.tasks.map((task) => [task.id, task]));
  const now = new Map(plan.nodes.map((node) => [node.id, node]));
  const was = new Map(before.nodes.map((node) => [node.id, node]));
  return (id) => {
    const node = was.get(id);
    const same = now.get(id);
    const task = node === undefined ? undefined : tasks.get(`${detail.run.id}.${node.ordinal}`);
    if (node === undefined || same === undefined || task === undefined || nodeFingerprint(node) !== nodeFingerprint(same))
      return null;
    if (task.phase !== "succeeded" && task.phase !== "skipped") return null;
    return { status: task.phase, result: task.result ?? "{}", ...(task.params !== null && { params: task.params }) };
  };
}

const nodeFingerprint = (node: Plan["nodes"][number]): string =>
  canonicalJson({ type: node.type, package: node.packageName, params: node.params, chain: node.chain.length });

function checkStart(start: StartPlan): void {
  const [first] = start.problems;
  if (first === undefined) return;
  const problems = start.problems.slice(0, 100);
  throw fault("E.REQUEST.INVALID", first.message, { path: `body.${first.field}`, node: first.node, problems });
}

function runOriginOf(order: ResolvedRunStart, by: string, corr: string): Readonly<Record<string, unknown>> {
  const { version, versionHash, labels, from, to, pins, reuse, replayOf, reason, allowUnknown } = order;
  return {
    by,
    corr,
    ...(version !== null && { version }),
    ...omitUndefined({ versionHash }),
    ...(Object.keys(labels).length > 0 && { labels }),
    ...omitUndefined({ from, to, pins: pins && Object.keys(pins), replayOf: replayOf ?? reuse?.run.id, reason }),
    ...(allowUnknown && { allowUnknown }),
  };
}
