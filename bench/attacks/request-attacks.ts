// Attacks on the REST interface: guesses, forged tokens, slow bodies, grants that should open nothing else, addresses of packages.

import { randomBytes, randomUUID } from "node:crypto";
import { request as httpRequest } from "node:http";
import { connect } from "node:net";
import type { WorkerList } from "@astraflow/protocol";
import {
  type Answer,
  type Attack,
  type AttackTarget,
  countAnswers,
  demoWorkflow,
  judge,
  request,
  runOrdinaryWork,
} from "./attack.ts";
import { watchLoop } from "./loop-watch.ts";

const login = (target: AttackTarget, username: string, password: string) =>
  request(target, "/api/v1/auth/login", { body: { username, password } });

const passwordGuesses: Attack = {
  name: "40 wrong passwords of one user, with 200 other names between them",
  isQuick: true,
  async send(target) {
    const guesses: Answer[] = [];
    for (let round = 0; round < 40; round += 1) {
      guesses.push(await login(target, "admin", `wrong-password-${round}`));
      for (let name = 0; name < 5; name += 1) await login(target, `nobody-${round}-${name}`, "wrong-password");
    }
    const looked = guesses.filter(({ code }) => code === "E.AUTH.CREDENTIALS").length;
    return judge(`guesses at one name: ${countAnswers(guesses)}`, {
      "every guess was compared with the password": looked > 15,
      "no guess was slowed down": !guesses.some(({ code }) => code === "E.AUTH.THROTTLED"),
    });
  },
};

/** All of 127.0.0.0/8 is this machine: an address of its own for somebody else. */
const otherAddress = "127.0.0.2";

/** The status of a log-in that comes from another address. */
function loginFromElsewhere({ http }: AttackTarget, body: object): Promise<number> {
  return new Promise((resolve, reject) => {
    const headers = { "content-type": "application/json" };
    const sent = httpRequest(`${http}/api/v1/auth/login`, { method: "POST", headers, localAddress: otherAddress }, (response) => {
      response.resume();
      resolve(response.statusCode ?? 0);
    });
    sent.once("error", reject).end(JSON.stringify(body));
  });
}

const victimElsewhere: Attack = {
  name: "30 wrong passwords of one user from one address, while that user signs in from another",
  isQuick: true,
  async send(target) {
    const guesses: Answer[] = [];
    for (let round = 0; round < 30; round += 1) guesses.push(await login(target, "admin", `wrong-password-${round}`));
    const status = await loginFromElsewhere(target, { username: "admin", password: target.password });
    return judge(`guesses: ${countAnswers(guesses)}; the user from ${otherAddress}: ${status}`, {
      "the user was locked out by somebody else's guesses": status !== 200,
      "no guess was slowed down": !guesses.some(({ code }) => code === "E.AUTH.THROTTLED"),
    });
  },
};

const forgedTokens: Attack = {
  name: "500 forged user tokens with invented tenants and keys",
  isQuick: true,
  async send(target) {
    const part = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");
    const answers: Answer[] = [];
    for (let at = 0; at < 500; at += 1) {
      const head = part({ alg: at % 3 === 0 ? "none" : "EdDSA", typ: "JWT", kid: `key-${randomUUID()}` });
      const claims = part({ sub: "admin", tenant: `tenant-${at}`, roles: ["admin"], exp: 4_000_000_000, iat: 1 });
      const signature = at % 3 === 0 ? "" : randomBytes(64).toString("base64url");
      answers.push(await request(target, "/api/v1/users", { token: `${head}.${claims}.${signature}` }));
    }
    return judge(countAnswers(answers), { "one of them was accepted": answers.some(({ status }) => status !== 401) });
  },
};

/** Opens connections that send their body byte by byte, and counts how many are ended by the server within the limit. */
const slowBodies: Attack = {
  name: "20 log-ins whose bodies trickle in, one byte a second",
  isQuick: false,
  async send(target) {
    const { hostname, port } = new URL(target.http);
    const begin = performance.now();
    const heads = await Promise.all(
      Array.from(
        { length: 20 },
        () =>
          new Promise<string>((resolve) => {
            let head = "";
            const socket = connect({ host: hostname, port: Number(port) });
            const drip = setInterval(() => socket.write(" "), 1_000);
            const giveUp = setTimeout(() => socket.destroy(), 40_000);
            socket.on("data", (bytes) => (head += bytes.toString("latin1")));
            socket.on("error", (cause) => (head ||= String(cause)));
            socket.on("close", () => {
              clearInterval(drip);
              clearTimeout(giveUp);
              resolve(head);
            });
            socket.write(
              `POST /api/v1/auth/login HTTP/1.1\r\nhost: ${hostname}\r\ncontent-type: application/json\r\ncontent-length: 5000\r\n\r\n{`,
            );
          }),
      ),
    );
    const seconds = (performance.now() - begin) / 1_000;
    const refused = heads.filter((head) => head.startsWith("HTTP/1.1 408")).length;
    return judge(`${refused} of 20 answered 408, all ended after ${seconds.toFixed(1)} s`, {
      "a body could trickle in for longer than 30 s": seconds > 30,
      "some were not answered 408": refused < 20,
    });
  },
};

const metricsGrant: Attack = {
  name: "every other route with a token for the metrics alone",
  isQuick: true,
  async send(target) {
    const token = target.tokens.metrics;
    const metrics = await request(target, "/metrics", { token });
    const document = await request(target, "/api/v1/openapi.json", { token: target.tokens.admin });
    const { paths } = JSON.parse(document.text) as { paths: Record<string, Record<string, unknown>> };
    const reads = Object.keys(paths).filter(
      (path) => "get" in (paths[path] ?? {}) && !/^\/(healthz|readyz|metrics|$)/.test(path),
    );
    const answers: (Answer & { path: string })[] = [];
    for (const path of reads) {
      const filled = path.replaceAll(/\{[^}]+\}/g, "x");
      if (/openapi/.test(filled)) continue;
      answers.push({ path, ...(await request(target, filled, { token })) });
    }
    const opened = answers.filter(({ status }) => status < 400);
    return judge(`/metrics ${metrics.status}; ${answers.length} other reads: ${countAnswers(answers)}`, {
      "the metrics were refused": metrics.status !== 200,
      [`it opened ${opened.map(({ path }) => path).join(", ")}`]: opened.length > 0,
    });
  },
};

const cancelEnded: Attack = {
  name: "cancel of a run that has ended",
  isQuick: true,
  async send(target) {
    await runOrdinaryWork(target);
    const runs = await request(target, "/api/v1/runs?status=succeeded&limit=1", { token: target.tokens.operate });
    const { runId } = (JSON.parse(runs.text) as { items: { runId: string }[] }).items[0] ?? { runId: "" };
    const answer = await request(target, `/api/v1/runs/${runId}/cancel`, { token: target.tokens.operate, method: "POST" });
    return judge(countAnswers([answer]), { "it was not refused": answer.status !== 409 || answer.code !== "E.RUN.TERMINAL" });
  },
};

const forbiddenOrigins = [
  "http://packages.example.com/a.cwx",
  "file:///etc/passwd",
  "https://127.0.0.1/a.cwx",
  "https://2130706433/a.cwx",
  "https://0x7f.1/a.cwx",
  "https://0177.0.0.1/a.cwx",
  "https://[::1]/a.cwx",
  "https://[::ffff:127.0.0.1]/a.cwx",
  "https://[64:ff9b::7f00:1]/a.cwx",
  "https://169.254.169.254/latest/meta-data",
  "https://10.0.0.8/a.cwx",
  "https://192.168.1.1/a.cwx",
  "https://100.64.0.1/a.cwx",
  "https://localhost./a.cwx",
  "https://user:secret@packages.example.com/a.cwx",
];

const packageOrigins: Attack = {
  name: `${forbiddenOrigins.length} addresses of packages inside the network`,
  isQuick: true,
  async send(target) {
    const workers = await request(target, "/api/v1/workers", { token: target.tokens.admin });
    const worker = (JSON.parse(workers.text) as WorkerList).items[0]?.id ?? "";
    const answers: (Answer & { url: string })[] = [];
    for (const url of forbiddenOrigins) {
      const body = { type: "pkg.install", name: "pkg", version: "1.0.0", url, sha256: "0".repeat(64) };
      answers.push({
        url,
        ...(await request(target, `/api/v1/workers/${worker}/commands`, { token: target.tokens.admin, body })),
      });
    }
    const taken = answers.filter(({ status }) => status < 400);
    const other = answers.filter(({ code }) => code !== "E.PKG.PERMISSION");
    return judge(countAnswers(answers), {
      [`accepted: ${taken.map(({ url }) => url).join(", ")}`]: taken.length > 0,
      [`refused for another reason: ${other.map(({ url, code }) => `${url} ${code}`).join(", ")}`]: other.length > 0,
    });
  },
};

/** Each definition is one of the last one twice: a validator that follows them all takes 2^29 steps. */
function doublingSchema(): object {
  const definitions: Record<string, object> = { d0: { type: "string" } };
  for (let at = 1; at <= 29; at += 1) {
    const last = { $ref: `#/$defs/d${at - 1}` };
    definitions[`d${at}`] = { oneOf: [last, last] };
  }
  return { type: "object", properties: { text: { $ref: "#/$defs/d29" } }, $defs: definitions };
}

const costlySchemas: Attack = {
  name: "14 workflows with a schema of 2^29 steps at once, sent with the grant read",
  isQuick: true,
  async send(target) {
    const workflow = demoWorkflow();
    for (const node of workflow.nodes) Object.assign(node, { schema: { parameters: doublingSchema() } });
    const options = { token: target.tokens.read, body: workflow };
    const {
      result: answers,
      seen,
      isHeld,
    } = await watchLoop(target, () =>
      Promise.all(Array.from({ length: 14 }, () => request(target, "/api/v1/workflows/validate", options))),
    );
    return judge(`${countAnswers(answers)}; ${seen}`, {
      "the thread that everybody waits for was held": isHeld,
      "a check was not answered": answers.some(({ status }) => status >= 500 && status !== 503),
      "no answer says that the schema is too costly": !answers.some((one) => /TOO_COSTLY|OVERLOADED/.test(one.text)),
    });
  },
};

const stalledReaders: Attack = {
  name: "runs while 50 connections hold half a request each",
  isQuick: true,
  async send(target) {
    const { hostname, port } = new URL(target.http);
    const sockets = Array.from({ length: 50 }, () => connect({ host: hostname, port: Number(port) }));
    for (const socket of sockets) {
      // The server may end it at any time; that is its right.
      socket.on("error", () => socket.destroy());
      socket.write(`POST /api/v1/runs HTTP/1.1\r\nhost: ${hostname}\r\ncontent-le`);
    }
    const isDone = await runOrdinaryWork(target);
    for (const socket of sockets) socket.destroy();
    return judge(`a run beside them ${isDone ? "succeeded" : "did not end"}`, { "ordinary work did not go through": !isDone });
  },
};

const otherTenantsKeys: Attack = {
  name: "one idempotency key with another body",
  isQuick: true,
  async send(target) {
    const headers = { "idempotency-key": randomUUID() };
    const send = (text: string) =>
      request(target, "/api/v1/runs", {
        token: target.tokens.operate,
        headers,
        body: {
          workflow: { ...demoWorkflow("demo.text", { text }), id: "11111111-1111-4111-8111-111111111111" },
          clientId: "attack",
        },
      });
    const first = await send("abc");
    const second = await send("xyz");
    return judge(countAnswers([first, second]), {
      "the second got the first one's answer": second.status < 400,
      "the first was refused": first.status !== 202,
    });
  },
};

export const requestAttacks: readonly Attack[] = [
  costlySchemas,
  passwordGuesses,
  victimElsewhere,
  forgedTokens,
  metricsGrant,
  cancelEnded,
  packageOrigins,
  stalledReaders,
  otherTenantsKeys,
  slowBodies,
];
