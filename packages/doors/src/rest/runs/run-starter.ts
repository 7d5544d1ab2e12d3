// Starting runs: of a definition that is sent or kept, whole or in part, anew or with results of another run. Everything that is decided
// before the engine hears of it; the engine only sees a definition, and which of its nodes are given.

import {
  type AnswerBody,
  type PresetResult,
  type RunDetail,
  type RunRow,
  readRunOrigin,
  resultBytesMax,
  type StoreReader,
} from "@astraflow/engine";
import { canonicalJson, compilePlan, type Plan, planStart, type ReusedResult, type StartPlan } from "@astraflow/graph";
import { Fault, fault, type RunPlan, type RunStartRequest, type Workflow } from "@astraflow/protocol";
import {
  type Caller,
  type CatalogueCache,
  type CheckedDefinition,
  cachedPlanOf,
  checkWithFreshCatalogue,
  createDefinitionCache,
  createWorkflowStore,
  createWorkflowVersionStore,
  type EngineClient,
  invalidWorkflowFault,
} from "@astraflow/services";
import type { DoorEnvironment } from "../../environment/door-environment.ts";
import { fittingWorkerCounter } from "./worker-matching.ts";

export interface RunStarterOptions {
  readonly engineClient: EngineClient;
  readonly reader: StoreReader;
  readonly environment: DoorEnvironment;
  readonly catalogues: CatalogueCache;
  /** Collision-resistant digest of a text, short enough to be a key. */
  readonly digest: (text: string) => string;
}

/** A start that is told in full. */
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
  /** Why it was asked for, where that was said. */
  readonly reason?: string;
  /** Recorded as what this run repeats, where that is more than taking results over. */
  readonly replayOf?: string;
  /** A package that nobody has brought refuses nothing: so it was asked for, or this very definition has run before. */
  readonly allowUnknown: boolean;
  readonly key: string | null;
  /**
   * What was asked for, where that is not the definition that was sent: under its key it stays the same request, though what it leads to (the
   * newest version, the results of a run that goes on) may be another by then.
   */
  readonly asked: object | null;
}

export type StartedRun = Extract<AnswerBody, { of: "run" }>;

const defaultPriority = 5;
/** Tasks of another run that are looked at for their results. */
const reuseTasksMax = 20_000;

/** Labels are shown with every run of a list, and searched. */
const labelLimits = { countMax: 64, keyCharsMax: 128 } as const;

export type RunStarter = ReturnType<typeof createRunStarter>;

export function createRunStarter(options: RunStarterOptions) {
  const { engineClient, reader, digest, catalogues, environment } = options;
  const define = createDefinitionCache(digest);
  const heads = createWorkflowStore(options);
  const versions = createWorkflowVersionStore(options);

  const detailOf = async (tenant: string, run: string): Promise<RunDetail> => {
    const { detail } = await reader.page({ page: "run", tenant, run, tasksMax: reuseTasksMax });
    if (detail === null) throw runNotFound(run);
    return detail;
  };

  /** A kept workflow in one of its versions. */
  const workflowOf = async (
    caller: Caller,
    id: string,
    version: RunStartRequest["version"] = "latest",
  ): Promise<{ workflow: Workflow; version: number | "draft"; versionHash?: string }> => {
    const { document: head } = await heads.find(caller.identity, id);
    const number = version === "latest" ? head.version : version;
    // Before the first version is published, the newest is the draft.
    if (number === "draft" || number === 0) return { workflow: head.workflow, version: "draft" };
    const found = await versions.get(caller.identity.tenant, id, number);
    return { workflow: found.version.workflow, version: number, versionHash: found.version.digest };
  };

  /** The version that an earlier run was of; only for whoever may read that workflow, since grants of the workflow follow from it. */
  const versionOf = async (caller: Caller, run: RunRow): Promise<Pick<ResolvedRunStart, "version" | "versionHash">> => {
    const { version, versionHash } = readRunOrigin(run);
    if (typeof version !== "number" && version !== "draft") return { version: null };
    const found = await heads.find(caller.identity, run.source).catch((why: unknown) => {
      if (why instanceof Fault && why.code === "E.NOT_FOUND") return null;
      throw why;
    });
    if (found === null) return { version: null };
    return { version, ...(versionHash !== undefined && { versionHash }) };
  };

  const readOrder = async (caller: Caller, request: RunStartRequest, key: string | null): Promise<ResolvedRunStart> => {
    const { workflow: sent, workflowId, version, pins, from, to, reuse } = request;
    checkLabels(request.labels ?? {});
    checkPins(pins ?? {});
    const chosen = sent === undefined ? await workflowOf(caller, workflowId ?? "", version) : { workflow: sent, version: null };
    return {
      ...chosen,
      asked: sent === undefined ? { workflowId, version: version ?? null } : null,
      client: request.clientId,
      priority: request.priority ?? defaultPriority,
      timeoutMs: request.timeoutMs ?? null,
      labels: request.labels ?? {},
      ...(pins !== undefined && { pins }),
      ...(from !== undefined && { from }),
      ...(to !== undefined && { to }),
      ...(reuse !== undefined && { reuse: await detailOf(caller.identity.tenant, reuse) }),
      allowUnknown: request.allowUnknown ?? false,
      key,
    };
  };

  const checkDefinition = (tenant: string, { workflow, allowUnknown }: ResolvedRunStart): Promise<CheckedDefinition> =>
    checkWithFreshCatalogue(
      catalogues,
      tenant,
      (catalogue) => define(workflow, catalogue, { allowUnknown }),
      ({ problems }) => problems,
    );

  /** The definition as it would run, and which of its nodes would; or why it would not. */
  const prepare = async (caller: Caller, order: ResolvedRunStart): Promise<PreparedStart> => {
    const definition = await checkDefinition(caller.identity.tenant, order);
    const refusal = invalidWorkflowFault(definition.problems);
    if (refusal !== null || startsWholeWorkflow(order)) return { definition, refusal, start: null };
    const plan = compilePlan(definition.workflow);
    return { definition, refusal, start: planStart(plan, toStartOptions(plan, order)) };
  };

  const start = async (caller: Caller, order: ResolvedRunStart): Promise<StartedRun> => {
    const { definition, start, refusal } = await prepare(caller, order);
    // Under a key it may have been started when the catalogue said otherwise, and only the engine knows.
    if (refusal !== null && order.key === null) throw refusal;
    checkStart(start);
    const { tenant, user } = caller.identity;
    const { client, priority, timeoutMs, labels, key } = order;
    const given = start === null ? null : (start.given as Readonly<Record<number, PresetResult>>);
    const { asked, pins = null, from = null, to = null, reuse, reason = null } = order;
    // Of a replay it is not asked for, or a part of `asked`.
    const allowUnknownField = order.allowUnknown && order.replayOf === undefined ? { allowUnknown: true } : {};
    const parts = {
      client,
      priority,
      timeoutMs,
      labels,
      pins,
      from,
      to,
      reuse: reuse?.run.id ?? null,
      reason,
      ...allowUnknownField,
    };
    const about = runOriginOf(order, user, caller.requestId);
    const answer = await engineClient.request({
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
      about: JSON.stringify(about),
      ...(given !== null && Object.keys(given).length > 0 && { presetResults: given }),
      ...(refusal !== null && { refusal: { code: refusal.code, message: refusal.message, details: refusal.details ?? {} } }),
      ask: key === null ? null : { key, digest: digest(canonicalJson({ workflow: asked ?? definition.sentDigest(), ...parts })) },
    });
    if (answer.of !== "run") throw fault("E.INTERNAL", `run.start was answered with ${answer.of}`);
    return answer;
  };

  /** What a start would do, without doing it. */
  const planRun = async (caller: Caller, order: ResolvedRunStart): Promise<RunPlan> => {
    const { tenant } = caller.identity;
    const definition = await checkDefinition(tenant, order);
    const plan = compilePlan(definition.workflow);
    const start = planStart(plan, toStartOptions(plan, order));
    const fitting = await fittingWorkerCounter(reader, tenant);
    return {
      dryRun: true,
      ...(definition.digest !== "" && { definitionHash: definition.digest }),
      nodes: plan.nodes
        .filter((node) => node.host === null)
        .map((node) => ({
          nodeId: node.id,
          label: node.label,
          action: start.given[node.ordinal]?.why ?? "run",
          // The scheduler carries containers out itself.
          ...(node.container === null && { workers: fitting(node) }),
        })),
      problems: [
        ...definition.problems.map((problem) => ({ ...problem })),
        ...start.problems.map(({ field, node, message }) => ({
          path: `/${field}`,
          code: "E.REQUEST.INVALID",
          message,
          node,
          severity: "error" as const,
        })),
      ],
    };
  };

  return { readOrder, start, planRun, workflowOf, versionOf, detailOf, now: () => environment.clock.now() };
}

function checkLabels(labels: Readonly<Record<string, string>>): void {
  const { countMax, keyCharsMax } = labelLimits;
  const keys = Object.keys(labels);
  if (keys.length > countMax)
    throw fault("E.REQUEST.INVALID", `body.labels may have ${countMax} labels, and has ${keys.length}`, { path: "body.labels" });
  const isInvalid = (key: string) => key === "" || key.length > keyCharsMax || /[\u0000-\u001f\u007f]/.test(key);
  if (keys.some(isInvalid))
    throw fault(
      "E.REQUEST.INVALID",
      `the names in body.labels must have 1 to ${keyCharsMax} characters, none of them a control character`,
      {
        path: "body.labels",
      },
    );
}

/** A pin stands where a result would, so it may be as large as one. */
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

interface PreparedStart {
  readonly definition: CheckedDefinition;
  readonly refusal: Fault | null;
  /** Null: everything runs. */
  readonly start: StartPlan | null;
}

const startsWholeWorkflow = ({ pins, from, to, reuse }: ResolvedRunStart): boolean =>
  pins === undefined && from === undefined && to === undefined && reuse === undefined;

function toStartOptions(plan: Plan, { pins, from, to, reuse }: ResolvedRunStart): Parameters<typeof planStart>[1] {
  return {
    ...(pins !== undefined && { pins }),
    ...(from !== undefined && { from }),
    ...(to !== undefined && { to }),
    ...(reuse !== undefined && { reuse: reusableResultsOf(plan, reuse) }),
  };
}

/** What the nodes of an earlier run returned. A node that is another now (type, package, parameters) has nothing to take over. */
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

function checkStart(start: StartPlan | null): void {
  const [first] = start?.problems ?? [];
  if (first === undefined) return;
  const problems = (start?.problems ?? []).slice(0, 100);
  throw fault("E.REQUEST.INVALID", first.message, { path: `body.${first.field}`, node: first.node, problems });
}

function runOriginOf(order: ResolvedRunStart, by: string, corr: string): Readonly<Record<string, unknown>> {
  const { version, versionHash, labels, from, to, pins, reuse, replayOf, reason, allowUnknown } = order;
  const of = replayOf ?? reuse?.run.id;
  return {
    by,
    corr,
    ...(version !== null && { version }),
    ...(versionHash !== undefined && { versionHash }),
    ...(Object.keys(labels).length > 0 && { labels }),
    ...(from !== undefined && { from }),
    ...(to !== undefined && { to }),
    ...(pins !== undefined && { pins: Object.keys(pins) }),
    ...(of !== undefined && { replayOf: of }),
    ...(reason !== undefined && { reason }),
    ...(allowUnknown && { allowUnknown }),
  };
}

/** One sentence for every id that is not the caller's: it must not show whether it is someone else's. */
export const runNotFound = (run: string): Fault => fault("E.NOT_FOUND", `there is no run ${run.slice(0, 100)}`);
