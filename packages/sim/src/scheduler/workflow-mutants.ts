// Known bugs of the workflow engine that can be switched on. Each one sits between the engine and its store or doors, or in front of the REST API, and
// imitates that bug. A checker that misses it is too weak.

import type { RestResponse } from "@astraflow/doors";
import type { ChangeSet, Effect, Row, Store, TurnTransaction } from "@astraflow/engine";
import type { ApiRequest } from "./api-request.ts";

export const workflowMutants = {
  /** A frame is born with one node too few in its count, and ends while one inside is still open. */
  "frame-forgets-a-node": "workflow",
  /** Whoever asks for the next of its chain is answered twice. */
  "next-answered-twice": "workflow",
  /** A run as it was is told without the last thing that had happened. */
  "moment-misses-the-last": "workflow",
  /** The end of an order about a worker is told twice. */
  "command-ends-twice": "workflow",
  /** What was refused leaves no entry of the audit. */
  "refusal-unaudited": "workflow",
  /** Packages that nobody brings are let in, whoever asks. */
  "unknown-let-in": "workflow",
  /** A ledger takes every dispatch that was not the first for one more task. */
  "ledger-counts-repeats": "workflow",
} as const;
export type WorkflowMutant = keyof typeof workflowMutants;

export function mutateStore(store: Store, mutant: WorkflowMutant | null): Store {
  const mutation = mutant === null ? undefined : changeSetMutations[mutant];
  if (mutation === undefined) return store;
  return { ...store, begin: async (want) => mutateTransaction(await store.begin(want), mutation) };
}

/** What becomes of a unit before it is written. */
type ChangeSetMutation = (changeSet: ChangeSet) => ChangeSet;

const changeSetMutations: Partial<Record<WorkflowMutant, ChangeSetMutation>> = {
  "frame-forgets-a-node": miscountContainerNodes,
  "command-ends-twice": (changeSet) =>
    repeatFacts(changeSet, (type) => (type === "command.acked" || type === "command.failed" ? 2 : 1)),
  "refusal-unaudited": (changeSet) =>
    repeatFacts(changeSet, (type, { outcome }) => (type.startsWith("audit.") && outcome !== "ok" ? 0 : 1)),
};

/** Each fact so many times. */
function repeatFacts(
  changeSet: ChangeSet,
  timesOf: (type: string, data: Readonly<Record<string, unknown>>) => number,
): ChangeSet {
  const happenings = changeSet.logEntries.map((one) => ({
    ...one,
    facts: one.facts.flatMap((fact) => Array.from({ length: timesOf(fact.type, fact.data) }, () => fact)),
  }));
  return { ...changeSet, logEntries: happenings.filter(({ facts }) => facts.length > 0) };
}

function mutateTransaction(tx: TurnTransaction, mutation: ChangeSetMutation): TurnTransaction {
  return { ...tx, commit: (turn, units) => tx.commit(turn, units.map(mutation)) };
}

function miscountContainerNodes(changeSet: ChangeSet): ChangeSet {
  const isBorn = (row: Row): boolean => changeSet.inserted?.has(`task/${row.id}`) === true;
  const isFrame = (row: Row): boolean => row.kind === "task" && /\*\d+$/.test(row.id) && row.needs > 1;
  if (!changeSet.puts.some((row) => isFrame(row) && isBorn(row))) return changeSet;
  const puts = changeSet.puts.map((row) =>
    row.kind === "task" && isFrame(row) && isBorn(row) ? { ...row, needs: row.needs - 1 } : row,
  );
  return { ...changeSet, puts };
}

export function mutateEffects(effects: readonly Effect[], mutant: WorkflowMutant | null): readonly Effect[] {
  if (mutant !== "next-answered-twice") return effects;
  return effects.flatMap((effect): readonly Effect[] => (effect.type === "next" ? [effect, effect] : [effect]));
}

/** Makes the call with the bug switched on. */
export async function mutateApiCall(
  request: ApiRequest,
  mutant: WorkflowMutant | null,
  call: (request: ApiRequest) => Promise<RestResponse>,
): Promise<RestResponse> {
  const { route, query, body } = request;
  const at = query["at"];
  if (mutant === "moment-misses-the-last" && at !== undefined) {
    const answer = await call({ ...request, query: { ...query, at: String(Number(at) - 1) } });
    return changeAnswer(answer, (shown) => ({ ...shown, at: Number(at), asOf: Number(at) }));
  }
  if (mutant === "unknown-let-in" && route === "startRun" && body !== null)
    return call({ ...request, body: JSON.stringify({ ...(JSON.parse(body) as object), allowUnknown: true }) });
  if (mutant !== "ledger-counts-repeats" || route !== "getRunLedger") return call(request);
  return changeAnswer(await call(request), (shown) => {
    const { figures } = shown as { figures: { accepted: number; repeated: number } };
    return { ...shown, figures: { ...figures, accepted: figures.accepted + figures.repeated } };
  });
}

function changeAnswer(answer: RestResponse, change: (shown: object) => object): RestResponse {
  return answer.status === 200 ? { ...answer, body: JSON.stringify(change(JSON.parse(answer.body) as object)) } : answer;
}
