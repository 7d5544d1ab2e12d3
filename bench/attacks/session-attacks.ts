// Attacks on the session interface: wrong tokens, silent sockets, stolen session tokens, results that do not belong to their sender.

import { generateKeyPairSync, randomUUID, sign } from "node:crypto";
import { resumeProofText } from "@astraflow/protocol";
import { type Attack, type AttackTarget, demoWorkflow, judge, request, runOrdinaryWork, startRun } from "./attack.ts";
import { type ReceivedFrame, WorkerSocket } from "./worker-socket.ts";

/** How long a wrong token took to be refused; null: it was not refused. */
async function guessToken({ ws }: AttackTarget): Promise<number | null> {
  const begin = performance.now();
  const socket = await WorkerSocket.open(ws);
  const isAccepted = socket.closeCode === null && (await socket.join(`wrong-${randomUUID()}`)) !== null;
  socket.end();
  return isAccepted ? null : performance.now() - begin;
}

const wrongTokens: Attack = {
  name: "24 sockets with wrong worker tokens, then one with a right one",
  isQuick: true,
  async send(target) {
    const durations = await Promise.all(Array.from({ length: 20 }, () => guessToken(target)));
    for (let at = 0; at < 4; at += 1) durations.push(await guessToken(target));
    const right = await WorkerSocket.open(target.ws);
    const isIn = (await right.join(target.tokens.worker)) !== null;
    right.end();
    const accepted = durations.filter((ms) => ms === null).length;
    const [first, last] = [durations[0] ?? 0, durations.at(-1) ?? 0];
    const times = `the first took ${first.toFixed(0)} ms, the last ${last.toFixed(0)} ms`;
    return judge(`${accepted} accepted; ${times}; the right token was ${isIn ? "accepted" : "refused"}`, {
      "a wrong token was accepted": accepted > 0,
      // The last ones wait for seconds; the first have the pause before a close alone.
      "the guesses were not slowed down": last < 2_500,
      "the right token from the same address was locked out": !isIn,
    });
  },
};

const silentSockets: Attack = {
  name: "600 sockets that never send a handshake",
  isQuick: true,
  async send(target) {
    const sockets = await Promise.all(Array.from({ length: 600 }, () => WorkerSocket.open(target.ws)));
    const refused = sockets.filter(({ closeCode }) => closeCode !== null).length;
    const isDone = await runOrdinaryWork(target);
    const worker = await WorkerSocket.open(target.ws);
    const isIn = (await worker.join(target.tokens.worker)) !== null;
    for (const socket of [...sockets, worker]) socket.end();
    return judge(`${refused} of 600 refused at once; a worker beside them was ${isIn ? "accepted" : "refused"}`, {
      "all of them were kept": refused === 0,
      "ordinary work did not go through": !isDone,
    });
  },
};

const text = (value: unknown): string => String(value);

/** A session without a key can be continued by whoever has its token; one of our own workers cannot. */
const stolenSessionToken: Attack = {
  name: "a session token used from a second socket",
  isQuick: true,
  async send(target) {
    const owner = await WorkerSocket.open(target.ws);
    const accept = await owner.join(target.tokens.worker);
    const thief = await WorkerSocket.open(target.ws, owner.instance);
    const { session_id, session_token } = accept?.payload ?? {};
    thief.send("control.resume", { session_id, session_token, last_seen_seq: -1 });
    const verdict = (await thief.next("control.session.accept")) === null ? "refused" : "taken over";
    // Workers of any generation understand a reset, or at least the reason of the close.
    const told = verdict === "refused" ? null : await owner.receivedWithin("control.reset", 5_000);
    const closeCode = verdict === "refused" ? null : await owner.closed();
    const audit = await request(target, "/api/v1/audit?limit=50", { token: target.tokens.admin });
    owner.end();
    thief.end();
    const isAudited = /session\.(takeover|taken)/.test(audit.text) || /takeover/i.test(audit.text);
    const isTold = told !== null || owner.closeReason !== "";
    const words = told === null ? `closed with ${text(closeCode)} "${owner.closeReason}"` : text(told.payload["code"]);
    return judge(`${verdict}; the first socket was told: ${verdict === "refused" ? "nothing" : words}; audited: ${isAudited}`, {
      "a takeover left no trace in the audit": verdict === "taken over" && !isAudited,
      "the socket that lost its session was not told": verdict === "taken over" && !isTold,
    });
  },
};

const stolenTokenOfKey: Attack = {
  name: "a session token of a worker with a key, used from a second socket without it and with another key",
  isQuick: true,
  async send(target) {
    const makeKey = () => generateKeyPairSync("ed25519");
    const owner = await WorkerSocket.open(target.ws);
    const publicKey = makeKey().publicKey.export({ format: "jwk" }).x ?? "";
    const accept = await owner.join(target.tokens.worker, [], publicKey);
    const { session_id, session_token } = (accept?.payload ?? {}) as { session_id: string; session_token: string };
    const steal = async (more: object): Promise<string> => {
      const thief = await WorkerSocket.open(target.ws, owner.instance);
      thief.send("control.resume", { session_id, session_token, last_seen_seq: -1, ...more });
      const reset = await thief.next("control.reset");
      thief.end();
      return text(reset?.payload["code"] ?? "taken over");
    };
    const count = { count: 1, age_ms: 0 };
    const signed = Buffer.from(resumeProofText({ session_id, session_token, proof: count }));
    const foreign = sign(null, signed, makeKey().privateKey).toString("base64url");
    const verdicts = [await steal({}), await steal({ proof: { ...count, signature: foreign } })];
    const isLive = owner.closeCode === null;
    owner.end();
    return judge(
      `without a proof: ${verdicts[0]}; with a proof of another key: ${verdicts[1]}; the owner's socket: ${isLive ? "live" : "closed"}`,
      {
        "the session was not opened with its key": !text(accept?.payload["features"]).includes("proof"),
        "a token alone was enough": verdicts.some((one) => one !== "E.SESSION.INVALID_PROOF"),
        "the owner lost its session": !isLive,
      },
    );
  },
};

/** Takes a task of a run of its own package, so that no other worker gets it. */
async function takeTask(target: AttackTarget): Promise<{ worker: WorkerSocket; dispatch: ReceivedFrame; runId: string } | null> {
  const name = `attack-${randomUUID().slice(0, 8)}`;
  const worker = await WorkerSocket.open(target.ws);
  if ((await worker.join(target.tokens.worker, [{ name, version: "1.0.0" }])) === null) return null;
  const workflow = demoWorkflow(`${name}.do`, {});
  for (const node of workflow.nodes) Object.assign(node, { package: { name, version: "1.0.0" } });
  const runId = await startRun(target, workflow);
  const dispatch = await worker.next("biz.exec.dispatch");
  if (dispatch === null) return null;
  worker.send("control.ack", { ok: true, for: dispatch.id, ack_seq: dispatch.seq }, { ack: undefined });
  return { worker, dispatch, runId };
}

const wrongResults: Attack = {
  name: "a result of another run, then a result, then another one for the same task",
  isQuick: true,
  async send(target) {
    const taken = await takeTask(target);
    if (taken === null) return { seen: "no task was dispatched", problem: "the attack could not be made" };
    const { worker, dispatch, runId } = taken;
    const { task_id, fence } = dispatch.payload;
    const finish = async (run_id: unknown, result: object): Promise<string> => {
      const id = worker.sendWork(
        "biz.exec.result",
        { run_id, task_id, fence, status: "SUCCEEDED", result, duration_ms: 1 },
        text(task_id),
      );
      const ack = await worker.next("control.ack", ({ payload }) => payload["for"] === id);
      return ack === null ? "no ack" : ack.payload["ok"] === true ? "ok" : JSON.stringify(ack.payload["info"] ?? ack.payload);
    };
    const foreign = await finish(randomUUID(), { by: "stranger" });
    const first = await finish(runId, { by: "first" });
    const second = await finish(runId, { by: "second" });
    const run = await request(target, `/api/v1/runs/${runId}`, { token: target.tokens.operate });
    worker.end();
    return judge(`another run: ${foreign}; first: ${first}; second: ${second}`, {
      "a result of another run was accepted": !foreign.includes("E.TASK.RUN_MISMATCH"),
      "the true result was refused": first !== "ok",
      "the second result was not refused to its sender": !second.includes("E.RESULT.DUPLICATE"),
      "the stored result is not the first one": !run.text.includes('"first"') || run.text.includes('"second"'),
    });
  },
};

export const sessionAttacks: readonly Attack[] = [wrongTokens, stolenSessionToken, stolenTokenOfKey, wrongResults, silentSockets];
