// Inspects a store for `astra doctor`, read-only, and rates it: whether it is a safe store for schedulers.

import { Fault } from "@astraflow/protocol";
import { SettingProblem } from "@astraflow/settings";
import { inspectPostgres, type PostgresInspection } from "@astraflow/store";
import { createPasswordMask, describeStoreAddress, parseStoreAddress } from "../settings/store-address.ts";
import { explainConnectionRefusal } from "./store-retry.ts";

/** One line of `astra doctor`. */
export interface StoreCheck {
  readonly name: string;
  readonly isGood: boolean;
  readonly found: string;
  /** What to do, where something should be improved. */
  readonly advice?: string;
}

/** The inspection of a server, with this machine's clock at that moment, and how long the inspection took. */
export interface ServerInspection extends PostgresInspection {
  readonly ownClockMs: number;
  readonly tookMs: number;
}

const versionMin = 14;
/** Weaker modes answer before the commit is on disk here and at the synchronous standby, if there is one. */
const durableCommitModes = ["on", "remote_apply"];
/** Deadlines follow the server's clock; with a larger difference, times in logs and pages mislead. */
const clockLagMsMax = 2_000;

export async function checkStore(text: string): Promise<readonly StoreCheck[]> {
  const address = parseStoreAddress(text, ".");
  if (address instanceof SettingProblem) return [{ name: "store", isGood: false, found: `--store ${address.reason}` }];
  const name = describeStoreAddress(address);
  if (address.of === "sqlite") return [{ name: "store", isGood: true, found: `${name}: a file, for one scheduler` }];
  const begunAt = performance.now();
  try {
    const inspection = await inspectPostgres({ url: address.url });
    return checkServer({ ...inspection, ownClockMs: Date.now(), tookMs: performance.now() - begunAt }, name);
  } catch (cause) {
    if (!(cause instanceof Fault)) throw cause;
    const refusal = explainConnectionRefusal(cause);
    if (refusal !== null) return [{ name: "postgres", isGood: false, found: `${name} ${refusal.problem}`, advice: refusal.fix }];
    const found = createPasswordMask(address)(`${name}: ${cause.message}`);
    return [{ name: "postgres", isGood: false, found, advice: "Start the server, or correct --store" }];
  }
}

export function checkServer(inspection: ServerInspection, address: string): StoreCheck[] {
  return [
    checkVersion(inspection, address),
    checkDurability(inspection),
    checkSchema(inspection),
    checkClock(inspection),
    listReplicas(inspection),
  ];
}

function checkVersion({ version, isReplica }: ServerInspection, address: string): StoreCheck {
  const found = `${address}: PostgreSQL ${version}`;
  if (isReplica)
    return { name: "postgres", isGood: false, found: `${found}, a standby`, advice: "Use the primary server with --store" };
  const isGood = Number.parseInt(version, 10) >= versionMin;
  return { name: "postgres", isGood, found, ...(!isGood && { advice: `Version ${versionMin} or newer is needed` }) };
}

function checkDurability({ fsync, fullPageWrites, synchronousCommit }: ServerInspection): StoreCheck {
  const weak = [
    ...(fsync === "on" ? [] : ["fsync = on"]),
    ...(fullPageWrites === "on" ? [] : ["full_page_writes = on"]),
    ...(durableCommitModes.includes(synchronousCommit) ? [] : ["synchronous_commit = on"]),
  ];
  return {
    name: "postgres durability",
    isGood: weak.length === 0,
    found: `fsync ${fsync}, full_page_writes ${fullPageWrites}, synchronous_commit ${synchronousCommit}`,
    ...(weak.length > 0 && { advice: `Confirmed work may be lost in a crash; set ${weak.join(" and ")}` }),
  };
}

function checkSchema({ schema, schemaKnown, cluster }: ServerInspection): StoreCheck {
  const name = "postgres schema";
  if (schema === null) return { name, isGood: true, found: "none yet; the first scheduler creates it" };
  const found = `version ${schema}, cluster ${cluster ?? "unknown"}`;
  if (schema > schemaKnown)
    return { name, isGood: false, found, advice: `This program knows up to ${schemaKnown}; install the newer one` };
  return { name, isGood: true, found, ...(schema < schemaKnown && { advice: `The next start brings it to ${schemaKnown}` }) };
}

/** The server's clock is read halfway through the request. */
function checkClock({ clockMs, ownClockMs, tookMs }: ServerInspection): StoreCheck {
  const lag = Math.round(clockMs - (ownClockMs - tookMs / 2));
  const isGood = Math.abs(lag) <= clockLagMsMax;
  const found = `${Math.abs(lag)} ms ${lag < 0 ? "behind" : "ahead of"} this machine, answers in ${Math.round(tookMs)} ms`;
  const advice = "Synchronise both clocks with NTP; deadlines follow the server's clock";
  return { name: "postgres clock", isGood, found, ...(!isGood && { advice }) };
}

function listReplicas({ replicas, clockMs }: ServerInspection): StoreCheck {
  const one = ({ name, epoch, seenAt }: ServerInspection["replicas"][number]) => {
    const seen = seenAt === null ? "never seen" : `seen ${Math.max(0, Math.round((clockMs - seenAt) / 1_000))} s ago`;
    return `${name} (epoch ${epoch}, ${seen})`;
  };
  return { name: "schedulers", isGood: true, found: replicas.length === 0 ? "none so far" : replicas.map(one).join(", ") };
}
