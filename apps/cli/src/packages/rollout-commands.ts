// `astra packages rollout start|show|list|stop` and `astra packages rollback`: a version for the fleet in phases, and back.

import { type FleetWorker, omitUndefined, type PhaseTarget, type Rollout } from "@astraflow/protocol";
import { type CommandContext, printItem, printPage, type Switches, type TextInput } from "../api/command-context.ts";
import { findByNameOrId } from "../lookup/name-lookup.ts";
import { type PageFlags, readListPage } from "../lookup/pages.ts";
import { CliFailure, type ExitCode, exitCodes, usageFailure } from "../output/cli-failure.ts";
import { formatInstant } from "../output/format.ts";
import type { Colors } from "../output/terminal.ts";
import { drawBar, formatWorkers, parsePackageRef, waitForEnd, type WorkerGroup } from "./fleet-progress.ts";

interface StartInput extends TextInput<"package", "pool">, Switches<"wait"> {
  readonly phase: readonly string[];
  readonly maxFailures?: number;
  readonly failureRatio?: number;
  readonly minTasks?: number;
  /** In seconds. */
  readonly observe?: number;
}

export async function startRollout(context: CommandContext, input: StartInput): Promise<ExitCode> {
  const { packageName, version } = parsePackageRef(input.package);
  const { pool, phase, maxFailures: max, failureRatio: ratio, minTasks, observe } = input;
  if (version === undefined)
    throw usageFailure(`Name the version to roll out: ${packageName}@VERSION.`, `astra packages list ${packageName}`);
  const failures = omitUndefined({ max, ratio, minTasks });
  const body = {
    version,
    ...omitUndefined({ pool }),
    ...(phase.length > 0 && { phases: phase.map(parsePhase) }),
    ...(Object.keys(failures).length > 0 && { failures }),
    ...(observe !== undefined && { observeMs: observe * 1_000 }),
  };
  return follow(context, await context.client.startRollout({ packageName, body }), input.wait);
}

/** `3` workers, or a share of them such as `25%`. */
function parsePhase(text: string): PhaseTarget {
  if (/^([1-9]\d?|100)%$/.test(text)) return text;
  if (/^[1-9]\d*$/.test(text)) return Number(text);
  throw usageFailure(`--phase ${text} is neither a number of workers, such as 3, nor a share of them, such as 25%.`);
}

export async function rollBackPackage(
  context: CommandContext,
  { package: packageName, to, pool, wait }: TextInput<"package", "to" | "pool"> & Switches<"wait">,
): Promise<ExitCode> {
  // In one pool the newer version may still be right for the others.
  const where = pool === undefined ? "every worker, and withdraw the newer version" : `every worker of pool ${pool}`;
  await context.confirm(`take ${packageName} back to ${to ?? "the version before"} on ${where}`);
  const rollback = await context.client.rollbackPackage({ packageName, body: omitUndefined({ to, pool }) });
  return follow(context, rollback, wait);
}

type RolloutInput = TextInput<"package", "rollout">;

export async function showRollout(context: CommandContext, input: RolloutInput): Promise<ExitCode> {
  const { packageName, rolloutId } = await findRollout(input, context);
  const rollout = await context.client.getRollout({ packageName, rolloutId });
  return printItem(context, rollout, () => renderRollout(rollout));
}

export async function stopRollout(
  context: CommandContext,
  input: RolloutInput & Switches<"rollback" | "wait">,
): Promise<ExitCode> {
  const { packageName, rolloutId, version, previousVersion } = await findRollout(input, context);
  const rollback = input.rollback === true;
  const back = rollback ? `, and take ${version} back to ${previousVersion ?? "nothing"}` : "";
  await context.confirm(`stop the rollout of ${packageName} ${version}${back}`);
  const body = rollback ? { rollback } : {};
  const stopped = await context.client.stopRollout({ packageName, rolloutId, body });
  const code = await follow(context, stopped, input.wait);
  // It was stopped as it was asked to be.
  return code === exitCodes.failed ? exitCodes.ok : code;
}

/** By its id or a part of that; the newest where none is named. */
async function findRollout({ package: packageName, rollout }: RolloutInput, { client }: CommandContext): Promise<Rollout> {
  const { items } = await client.listRollouts({ packageName, limit: 200 });
  const [newest] = items;
  if (newest === undefined) {
    const message = `${packageName} was never rolled out.`;
    throw new CliFailure(
      exitCodes.notFound,
      { error: "E.NOT_FOUND", message },
      `astra packages rollout start ${packageName}@VERSION`,
    );
  }
  if (rollout === undefined) return newest;
  const named = items.map((one) => ({ id: one.rolloutId, name: "", one }));
  return findByNameOrId(rollout, named, "rollout", `astra packages rollout list ${packageName}`).one;
}

const statusColors: Readonly<Record<Rollout["status"], keyof Colors>> = {
  running: "blue",
  finished: "green",
  stopped: "yellow",
  rollingBack: "yellow",
  rolledBack: "red",
};

export async function listRollouts(context: CommandContext, input: PageFlags & TextInput<"package">): Promise<ExitCode> {
  const { package: packageName } = input;
  const page = await readListPage(input, (request) => context.client.listRollouts({ packageName, ...request }));
  return printPage<Rollout>(context, page, {
    id: ({ rolloutId }) => rolloutId,
    columns: [
      { header: "ROLLOUT", value: ({ rolloutId }) => rolloutId, kind: "id", isKept: true },
      { header: "STATUS", value: ({ status }) => status, isKept: true, color: ({ status }) => statusColors[status] },
      { header: "VERSION", value: ({ previousVersion, version }) => `${previousVersion ?? "-"} > ${version}` },
      { header: "PHASE", value: ({ phase, phases }) => `${phase + 1} of ${phases.length}` },
      { header: "TASKS", value: ({ tasks }) => `${tasks.succeeded} ok, ${tasks.failed} failed` },
      { header: "STARTED", value: ({ createdAt }) => formatInstant(createdAt), kind: "when" },
      { header: "REASON", value: ({ reason }) => reason?.message ?? "", kind: "text" },
      { header: "KIND", value: ({ kind }) => kind, isWide: true },
      { header: "POOL", value: ({ pool }) => pool ?? "", isWide: true },
      { header: "BY", value: ({ createdBy }) => createdBy, isWide: true },
    ],
    emptyMessage: `${packageName} was never rolled out. Begin with: astra packages rollout start ${packageName}@VERSION`,
  });
}

const isUnderWay = ({ status }: Rollout): boolean => status === "running" || status === "rollingBack";

function groupWorkers({ kind, version, previousVersion, phases, rollback }: Rollout): WorkerGroup[] {
  const [good, bad] = kind === "rollback" ? [version, previousVersion] : [previousVersion, version];
  const installed = phases.map(({ target, workers }) => ({ title: `phase ${target}`, workers }));
  const back =
    rollback === null
      ? []
      : [
          { title: `back to ${good ?? "nothing"}`, workers: rollback.installs },
          { title: `remove ${bad ?? "nothing"}`, workers: rollback.uninstalls },
        ];
  return [...installed, ...back.filter(({ workers }) => workers.length > 0)];
}

/** Those of the phases, or once it goes back those that go back. */
const listMoving = ({ phases, rollback }: Rollout): readonly FleetWorker[] =>
  rollback === null ? phases.flatMap(({ workers }) => workers) : [...rollback.installs, ...rollback.uninstalls];

async function follow(context: CommandContext, started: Rollout, isWaiting = false): Promise<ExitCode> {
  const { packageName, rolloutId } = started;
  const show = `astra packages rollout show ${packageName} ${rolloutId}`;
  const ended = isWaiting
    ? await waitForEnd<Rollout>(
        started,
        {
          isRunning: isUnderWay,
          read: () => context.client.getRollout({ packageName, rolloutId }),
          groupsOf: groupWorkers,
          draw: (rollout) => [describeRollout(rollout), drawBar(listMoving(rollout))],
        },
        context,
      )
    : started;
  if (ended === null) {
    context.terminal.info(`Stopped waiting; it goes on. See: ${show}`);
    return exitCodes.interrupted;
  }
  printItem(context, ended, () => renderRollout(ended), isUnderWay(ended) && `next: ${show}`);
  const isFine = isUnderWay(ended) || ended.status === "finished" || (ended.kind === "rollback" && ended.status === "rolledBack");
  return isFine ? exitCodes.ok : exitCodes.failed;
}

function describeRollout({ kind, packageName, version, previousVersion, status, phase, phases, tasks }: Rollout): string {
  const from = previousVersion === null ? "" : ` from ${previousVersion}`;
  const where = kind === "rollback" ? "" : `, phase ${phase + 1} of ${phases.length}`;
  return `${kind} of ${packageName}${from} to ${version}: ${status}${where}, tasks ${tasks.succeeded} ok, ${tasks.failed} failed`;
}

function renderRollout(rollout: Rollout): string[] {
  const { reason, phases } = rollout;
  return [
    describeRollout(rollout),
    ...(reason === null ? [] : [`${reason.code}: ${reason.message}`]),
    ...groupWorkers(rollout).flatMap(({ title, workers }, at) => [
      `${title}${phases[at] === undefined ? "" : `: ${phases[at].status}`}`,
      ...formatWorkers(workers).map((line) => `  ${line}`),
    ]),
  ];
}
