// `astra packages install` and `uninstall`: one version on chosen workers, on a pool or on all of them.

import { type FleetInstall, type FleetInstallRequest, omitUndefined } from "@astraflow/protocol";
import { type CommandContext, printItem, type Switches, type TextInput } from "../api/command-context.ts";
import { type ExitCode, exitCodes, usageFailure } from "../output/cli-failure.ts";
import { formatCount } from "../output/format.ts";
import { drawBar, formatWorkers, type PackageRef, parsePackageRef, waitForEnd } from "./fleet-progress.ts";

type TargetInput = TextInput<"package", "pool"> & Switches<"all" | "wait"> & { readonly worker: readonly string[] };

export async function installPackage(context: CommandContext, input: TargetInput & Switches<"allowOlder">): Promise<ExitCode> {
  const { packageName, version } = parsePackageRef(input.package);
  const body: FleetInstallRequest = {
    ...omitUndefined({ version, allowOlder: input.allowOlder }),
    ...readTargets(input),
  };
  return follow(context, await context.client.installPackage({ packageName, body }), input);
}

export async function uninstallPackage(context: CommandContext, input: TargetInput): Promise<ExitCode> {
  const ref = parsePackageRef(input.package);
  const targets = readTargets(input);
  await context.confirm(`remove ${describeRef(ref)} from ${describeTargets(targets)}`);
  const body: FleetInstallRequest = { action: "uninstall", ...omitUndefined({ version: ref.version }), ...targets };
  return follow(context, await context.client.installPackage({ packageName: ref.packageName, body }), input);
}

const describeRef = ({ packageName, version }: PackageRef): string =>
  version === undefined ? `every version of ${packageName}` : `${packageName} ${version}`;

type Targets = Pick<FleetInstallRequest, "workers" | "pool" | "all">;

function readTargets({ worker, pool, all }: TargetInput): Targets {
  const chosen = [worker.length > 0, pool !== undefined, all === true].filter(Boolean).length;
  if (chosen !== 1) throw usageFailure("Say where: --worker NAME (may be repeated), --pool NAME, or --all.");
  return { ...(worker.length > 0 && { workers: [...worker] }), ...omitUndefined({ pool }), ...(all === true && { all }) };
}

function describeTargets({ workers, pool }: Targets): string {
  if (workers !== undefined) return formatCount(workers.length, "worker");
  return pool === undefined ? "every connected worker" : `every connected worker of pool ${pool}`;
}

async function follow(context: CommandContext, started: FleetInstall, { wait }: Switches<"wait">): Promise<ExitCode> {
  const { packageName, installId } = started;
  const what = `${started.action} ${describeRef({ packageName, version: started.version ?? undefined })}`;
  const ended = wait
    ? await waitForEnd<FleetInstall>(
        started,
        {
          isRunning: ({ status }) => status === "running",
          read: () => context.client.getInstall({ packageName, installId }),
          groupsOf: ({ workers }) => [{ title: what, workers }],
          draw: ({ workers }) => [`${what}: ${drawBar(workers)}`],
        },
        context,
      )
    : started;
  if (ended === null) {
    context.terminal.info(`Stopped waiting; it goes on. See: astra packages list ${packageName}`);
    return exitCodes.interrupted;
  }
  const { counts, status } = ended;
  const summary = `${what}: ${counts.done} done, ${counts.failed} failed, ${counts.waiting} under way`;
  printItem(
    context,
    ended,
    () => [summary, ...formatWorkers(ended.workers)],
    status === "running" && `next: astra packages list ${packageName}`,
  );
  return counts.failed > 0 ? exitCodes.failed : exitCodes.ok;
}
