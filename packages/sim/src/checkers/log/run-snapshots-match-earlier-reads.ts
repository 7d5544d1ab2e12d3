// I50: reading a run at an earlier position returns what a read returned back then, on any scheduler and whatever has happened since.

import { type ApiExchange, Checker } from "../../checking/checker.ts";
import { canonicalJson, endedStatuses, isFinalAnswer } from "../../checking/run-view.ts";

type JsonRecord = Readonly<Record<string, unknown>>;

/**
 * All that may differ, and why. Of the page: `at` is what was asked for.
 * Of a node: what it had given or was told so far, as the log tells that something was said and not what; `resourceRefs` and `affinity`
 * likewise stand in its row alone until it has ended. Of an artifact: whether it can still be had, as a read of now asks its document and the
 * clock, and one of a moment the log. Anywhere: what a worker is called, as it may come back under another name.
 */
const mayDiffer: Readonly<Record<"page" | "unended" | "artifact" | "anywhere", readonly string[]>> = {
  page: ["at"],
  unended: ["result", "metadata", "resourceRefs", "affinity"],
  artifact: ["status", "removed", "expiresAt"],
  anywhere: ["workerName", "worker"],
};

export class RunSnapshotsMatchEarlierReads extends Checker {
  /** What was shown first, by tenant, run and position. */
  readonly #shown = new Map<string, JsonRecord>();

  override onExchange(exchange: ApiExchange): void {
    const { call, answer } = exchange;
    const body = answer.body as JsonRecord;
    if (call.route === "getRun" && answer.status === 200) {
      const name = this.#nameOf(exchange, body["asOf"]);
      if (!this.#shown.has(name)) this.#shown.set(name, body);
    }
    if (call.route !== "readMoment" || !isFinalAnswer(answer)) return;
    const run = call.params["runId"] ?? "";
    const at = call.query["at"];
    const before = this.#shown.get(this.#nameOf(exchange, at));
    if (before === undefined) return;
    this.checkedCount++;
    const where = `run ${run} at ${at}, asked of ${call.scheduler},`;
    if (answer.status !== 200) return this.fail(`${where} was answered with ${answer.status} ${String(body["error"])}`, run);
    if (body["at"] !== Number(at) || body["asOf"] !== Number(at))
      return this.fail(`${where} is shown as of ${String(body["asOf"])}`, run);
    const [was, is] = [textsOfRunAndNodes(before), textsOfRunAndNodes(body)];
    for (const name of new Set([...was.keys(), ...is.keys()]))
      if (was.get(name) !== is.get(name))
        return this.fail(
          `${where} shows ${name} as ${is.get(name) ?? "nothing"}; then it was ${was.get(name) ?? "nothing"}`,
          run,
        );
  }

  #nameOf({ call }: ApiExchange, asOf: unknown): string {
    return `${call.tenant} ${call.params["runId"] ?? ""} ${String(asOf)}`;
  }
}

/** The run and each node as a text, without what may differ. */
function textsOfRunAndNodes({ nodes, ...run }: JsonRecord): Map<string, string> {
  const faces = new Map([["the run", comparableText(run, mayDiffer.page)]]);
  for (const node of nodes as readonly JsonRecord[])
    faces.set(String(node["taskId"]), comparableText(node, endedStatuses.has(String(node["status"])) ? [] : mayDiffer.unended));
  return faces;
}

function comparableText(face: JsonRecord, without: readonly string[]): string {
  return canonicalJson(
    face,
    (name, owner) =>
      mayDiffer.anywhere.includes(name) ||
      (owner === face && without.includes(name)) ||
      ("resourceId" in owner && mayDiffer.artifact.includes(name)),
  );
}
