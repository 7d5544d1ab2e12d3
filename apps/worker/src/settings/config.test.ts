import { createSigningKey } from "@astraflow/runtime/testing";
import { describe, expect, it } from "vitest";
import { readWorkerConfig, type WorkerConfig } from "./config.ts";
import type { WorkerSettingSources } from "./setting-readers.ts";

const sources = (part: Partial<WorkerSettingSources>): WorkerSettingSources => ({
  argv: [],
  env: {},
  hostname: "box",
  readFile() {
    throw new Error("no such file");
  },
  readInput: () => "",
  isDirectory: () => true,
  ...part,
});

function configOf(part: Partial<WorkerSettingSources>): WorkerConfig {
  const reading = readWorkerConfig(sources(part));
  if (!("config" in reading)) throw new Error(JSON.stringify(reading));
  return reading.config;
}

function problemsOf(part: Partial<WorkerSettingSources>): readonly string[] {
  const reading = readWorkerConfig(sources(part));
  return "problems" in reading ? reading.problems : [];
}

describe("config of the worker", () => {
  it("[W60] the worker's config needs nothing but a token", () => {
    expect(configOf({ env: { ASTRA_WORKER_AUTH_TOKEN: "t" } })).toMatchObject({
      urls: ["ws://127.0.0.1:8080/ws/worker"],
      tenant: "default",
      name: "box",
      instanceId: undefined,
      auth: { mode: "token", token: "t" },
      runtimes: ["node"],
      dataDir: "./var",
      packagesDir: "./var/packages",
      graceMs: 30_000,
      logLevel: "info",
    });
  });

  it("[W60] the worker's config reads the environment variables that existing workers are started with", () => {
    const config = configOf({
      env: {
        ASTRA_WORKER_SCHEDULER_WS_URL: "wss://scheduler.example/ws/worker",
        ASTRA_WORKER_TENANT: "acme",
        ASTRA_WORKER_WORKER_NAME: "gpu-1",
        ASTRA_WORKER_WORKER_INSTANCE_ID: "w-7",
        ASTRA_WORKER_WORKER_VERSION: "0.1.0",
        ASTRA_WORKER_AUTH_MODE: "token",
        ASTRA_WORKER_AUTH_TOKEN: "dev-token",
        ASTRA_WORKER_CONCURRENCY_MAX_PARALLEL: "2",
        ASTRA_WORKER_RUNTIME_NAMES: '["python","playwright"]',
        ASTRA_WORKER_FEATURE_FLAGS: '["pkg.install","pkg.uninstall"]',
        ASTRA_WORKER_PACKAGES_DIR: "/srv/packages",
        ASTRA_WORKER_DATA_DIR: "/srv/data",
        ASTRA_WORKER_HEARTBEAT_INTERVAL_SECONDS: "15",
        ASTRA_WORKER_LOG_LEVEL: "DEBUG",
        PATH: "/bin",
      },
    });

    expect(config).toMatchObject({
      urls: ["wss://scheduler.example/ws/worker"],
      tenant: "acme",
      name: "gpu-1",
      instanceId: "w-7",
      maxParallel: 2,
      runtimes: ["python", "playwright"],
      features: ["pkg.install", "pkg.uninstall"],
      packagesDir: "/srv/packages",
      dataDir: "/srv/data",
      heartbeatMs: 15_000,
      logLevel: "debug",
    });
  });

  it("[W186] the worker's config accepts only websocket as transport, from the environment or the file, and names the bad setting", () => {
    const token = { ASTRA_WORKER_AUTH_TOKEN: "t" };
    const file = (transport: string) => ({
      argv: ["--config", "w.json"],
      env: token,
      readFile: () => JSON.stringify({ transport }),
    });

    expect(problemsOf({ env: { ...token, ASTRA_WORKER_TRANSPORT: "websocket" } })).toEqual([]);
    expect(problemsOf(file("websocket"))).toEqual([]);
    expect(problemsOf({ env: { ...token, ASTRA_WORKER_TRANSPORT: "redis" } })).toEqual([
      "ASTRA_WORKER_TRANSPORT must be one of websocket",
    ]);
    expect(problemsOf(file("http"))).toEqual(["transport in w.json must be one of websocket"]);
  });

  it("[W60] in the worker's config flags win over the environment, and the environment over the file", () => {
    const config = configOf({
      argv: ["--name", "flag", "--config=worker.json", "--pool=t=1"],
      env: { ASTRA_WORKER_WORKER_NAME: "env", ASTRA_WORKER_TENANT: "env", ASTRA_WORKER_AUTH_TOKEN: "t" },
      readFile: () =>
        JSON.stringify({
          worker_name: "file",
          tenant: "file",
          poolName: undefined,
          concurrencyMaxParallel: 9,
          tags: { gpu: "a" },
        }),
    });

    expect(config).toMatchObject({ name: "flag", tenant: "env", maxParallel: 9, tags: { gpu: "a" }, pool: "t=1" });
  });

  it("[W60] the worker's config warns about known settings that have no effect", () => {
    const reading = readWorkerConfig(
      sources({ env: { ASTRA_WORKER_AUTH_TOKEN: "t", ASTRA_WORKER_HANDSHAKE_PROTOCOL_VERSION: "1" } }),
    );

    expect(reading).toMatchObject({
      warnings: [expect.stringContaining("ASTRA_WORKER_HANDSHAKE_PROTOCOL_VERSION has no effect")],
    });
  });

  it("[W65] the worker's config takes several scheduler URLs separated by commas, and refuses the list if one is invalid", () => {
    const env = { ASTRA_WORKER_AUTH_TOKEN: "t" };

    expect(configOf({ env, argv: ["--url", "ws://127.0.0.1/ws, wss://b/ws"] }).urls).toEqual(["ws://127.0.0.1/ws", "wss://b/ws"]);
    for (const url of ["ws://a/ws,", "ws://a/ws,ftp://b", ","]) {
      expect(problemsOf({ env, argv: ["--url", url] })).toEqual([
        "--url must be an address that begins with ws://, wss://, http:// or https://",
      ]);
    }
  });

  it("[W60] the worker's config is deeply frozen", () => {
    const config = configOf({ argv: ["--token", "dev-token"] });

    expect(Object.isFrozen(config) && Object.isFrozen(config.auth) && Object.isFrozen(config.runtimes)).toBe(true);
  });

  it("[W61] the worker's config reports all problems at once, each with its source and the allowed values", () => {
    expect(
      problemsOf({
        argv: ["--max-parallel", "0", "--url", "ftp://x", "--log-level=loud", "--grace"],
        env: { ASTRA_WORKER_TAGS: "[]", ASTRA_WORKER_RECONNECT_JITTER: "2", ASTRA_WORKER_CONFIG_FILE: "nowhere.json" },
      }),
    ).toEqual([
      "--grace needs a value",
      "the config file nowhere.json cannot be read: no such file",
      "--url must be an address that begins with ws://, wss://, http:// or https://",
      "--max-parallel must be a whole number from 1 to 2048",
      "ASTRA_WORKER_TAGS must be a JSON object whose values are texts",
      "ASTRA_WORKER_RECONNECT_JITTER must be a number from 0 to 1",
      expect.stringContaining("--log-level must be one of"),
    ]);
  });

  it("[W61] the worker's config reports unknown keys with the nearest known one", () => {
    expect(
      problemsOf({
        argv: ["--tokn", "t", "--config", "f", "stray"],
        env: { ASTRA_WORKER_TENNANT: "x", ASTRA_WORKER_COMPLETELY_DIFFERENT: "x" },
        readFile: () => '{"workername": "fine", "wroker_version": "1"}',
      }),
    ).toEqual([
      "--tokn is not a flag of this command; did you mean --token?",
      "stray is not expected here",
      "ASTRA_WORKER_TENNANT is not a setting of the worker; did you mean ASTRA_WORKER_TENANT?",
      "ASTRA_WORKER_COMPLETELY_DIFFERENT is not a setting of the worker",
      "wroker_version in f is not a setting of the worker; did you mean worker_version?",
    ]);
  });

  it("[W61] the worker's config reports what is missing and how to provide it, and never repeats a secret", () => {
    expect(problemsOf({})).toEqual([expect.stringContaining("--token @FILE or ASTRA_WORKER_AUTH_TOKEN")]);
    expect(problemsOf({ argv: ["--auth-mode", "mtls", "--url", "wss://b/ws"] })).toEqual([expect.stringContaining("--tls-cert")]);
    const url = problemsOf({ argv: ["--token", "dev-token", "--url", "ws://me:hunter2@host/"] });
    expect(url).toHaveLength(1);
    expect(url[0]).not.toContain("hunter2");
  });

  it("[W61] the worker's config suggests the right variable for one that is named after its flag", () => {
    expect(problemsOf({ env: { ASTRA_WORKER_TOKEN: "t", ASTRA_WORKER_URL: "ws://x" } })).toEqual([
      "ASTRA_WORKER_TOKEN is not a setting of the worker; did you mean ASTRA_WORKER_AUTH_TOKEN?",
      "ASTRA_WORKER_URL is not a setting of the worker; did you mean ASTRA_WORKER_SCHEDULER_WS_URL?",
    ]);
  });

  it("[W64] the worker takes a token from a file or stdin, and only the published dev token from the command line itself", () => {
    const files = { readFile: (file: string) => `from ${file}\n`, readInput: () => "from stdin\n" };

    expect(configOf({ ...files, argv: ["--token", "@a.token"] }).auth.token).toBe("from a.token");
    expect(configOf({ ...files, argv: ["--auth-token=-"] }).auth.token).toBe("from stdin");
    expect(configOf({ argv: ["--token", "dev-token"] }).auth.token).toBe("dev-token");
    for (const argv of [["--token", "hunter2"], ["--auth-token=hunter2"]]) {
      const problems = problemsOf({ argv });
      expect(problems).toEqual([
        expect.stringMatching(/^--(auth-)?token shows the secret to everyone.*@FILE.*ASTRA_WORKER_AUTH_TOKEN$/),
      ]);
      expect(problems[0]).not.toContain("hunter2");
    }
    expect(problemsOf({ argv: ["--token", "@none"] })).toEqual(["--token cannot be read: no such file"]);
  });

  it("[W833] the worker's config takes the address of a scheduler's pages for that of its sessions", () => {
    const urlsOf = (url: string) => configOf({ argv: ["--token", "dev-token", "--url", url] }).urls;

    expect(urlsOf("http://127.0.0.1:36663")).toEqual(["ws://127.0.0.1:36663/ws/worker"]);
    expect(urlsOf("https://scheduler.example/")).toEqual(["wss://scheduler.example/ws/worker"]);
    expect(urlsOf("http://127.0.0.1:1/proxy/ws/worker")).toEqual(["ws://127.0.0.1:1/proxy/ws/worker"]);
  });

  it("[W61] the worker's config refuses a given packages directory that does not exist; the default one may be missing", () => {
    const isFolder = () => false;

    expect(problemsOf({ argv: ["--token", "dev-token", "--packages-dir", "pakages"], isDirectory: isFolder })).toEqual([
      "--packages-dir names pakages, which is no folder; make it, or correct the path",
    ]);
    expect(problemsOf({ argv: ["--token", "dev-token"], isDirectory: isFolder })).toEqual([]);
  });

  it("[W61] the worker's config refuses contradicting reconnect delays and config files without a JSON object", () => {
    expect(problemsOf({ argv: ["--token", "dev-token", "--reconnect-base-delay-seconds", "60"] })).toEqual([
      "--reconnect-base-delay-seconds (60) is larger than --reconnect-max-delay-seconds (30)",
    ]);
    for (const text of ["[]", "null"]) {
      expect(problemsOf({ argv: ["--token", "dev-token", "--config", "f"], readFile: () => text })).toEqual([
        "the config file f must hold a JSON object",
      ]);
    }
    expect(
      problemsOf({ argv: ["--token", "dev-token", "--config", "f"], readFile: () => '{"tenant":"a","tenant":"b"}' }),
    ).toEqual(["the config file f cannot be read: it has the same key twice in one object"]);
  });

  it("[J911] a config file that is not JSON is refused with file, line and column, and none of its secrets", () => {
    const text = '{\n  "auth_token": "hunter2"\n  "tenant": "a"\n}';

    expect(problemsOf({ argv: ["--config", "f.json"], readFile: () => text })).toEqual([
      'the config file f.json cannot be read: it is not JSON at f.json:3:3: expected "," or "}"',
    ]);
  });

  it("[W60] the worker's config accepts a boolean flag with or without a value", () => {
    const flag = "--reconnect-abort-on-auth-error";

    expect(configOf({ argv: [flag, "--token", "dev-token"] }).endOnAuthError).toBe(true);
    expect(configOf({ argv: [flag, "false", "--token", "dev-token"] }).endOnAuthError).toBe(false);
  });

  it("[W137] the worker serves /metrics only on loopback unless --insecure-listen is set", () => {
    const env = { ASTRA_WORKER_AUTH_TOKEN: "t" };

    expect(configOf({ env }).metricsListen).toBeUndefined();
    expect(configOf({ env, argv: ["--metrics-listen", "[::1]:0"] }).metricsListen).toEqual({ host: "::1", port: 0 });
    expect(problemsOf({ env, argv: ["--metrics-listen", "0.0.0.0:9464"] })).toEqual([
      expect.stringContaining("--metrics-listen 0.0.0.0 can be reached by other machines"),
    ]);
    const open = configOf({ env: { ...env, ASTRA_WORKER_METRICS_LISTEN: "0.0.0.0:9464" }, argv: ["--insecure-listen"] });
    expect(open.metricsListen).toEqual({ host: "0.0.0.0", port: 9_464 });
    for (const word of ["9464", "127.0.0.1:70000", ":1", "host:x"])
      expect(problemsOf({ env, argv: ["--metrics-listen", word] })[0]).toContain("must be HOST:PORT");
  });

  it("[W1251] --watch-packages is refused beside handlers in a thread, which imports code only once", () => {
    const argv = ["--token", "dev-token", "--watch-packages"];

    expect(configOf({ argv })).toMatchObject({ watchesPackages: true, hosts: { noticesEveryFile: true } });
    expect(problemsOf({ argv: [...argv, "--node-host", "thread"] })).toEqual([expect.stringContaining("--node-host process")]);
  });

  it("[W142] the worker refuses to send a token unencrypted to another machine unless --insecure-connect is set", () => {
    const env = { ASTRA_WORKER_AUTH_TOKEN: "t" };
    const far = ["--url", "ws://127.0.0.1/ws,ws://scheduler.example:8080/ws"];

    for (const near of ["ws://127.0.0.1/ws", "ws://localhost/ws", "ws://[::1]:1/ws", "wss://scheduler.example/ws"])
      expect(configOf({ env, argv: ["--url", near] }).urls).toEqual([near]);
    expect(problemsOf({ env, argv: far })).toEqual([
      "ws://scheduler.example:8080 would carry the token over the network in the clear; use wss://, or add --insecure-connect if the network is trusted",
    ]);
    expect(configOf({ env: { ...env, ASTRA_WORKER_INSECURE_CONNECT: "true" }, argv: far }).urls).toHaveLength(2);
  });

  it("[W142] a worker with a certificate and no token uses mode mtls, and certificate and key are needed together", () => {
    const argv = ["--url", "wss://b/ws", "--tls-cert", "c.pem", "--tls-key", "k.pem", "--ca", "ca.pem"];

    expect(configOf({ argv })).toMatchObject({ auth: { mode: "mtls" }, tls: { cert: "c.pem", key: "k.pem", ca: "ca.pem" } });
    expect(configOf({ argv }).auth).not.toHaveProperty("token");
    expect(configOf({ argv, env: { ASTRA_WORKER_AUTH_TOKEN: "t" } }).auth).toEqual({ mode: "token", token: "t" });
    expect(problemsOf({ argv: argv.slice(0, 4), env: { ASTRA_WORKER_AUTH_TOKEN: "t" } })).toEqual([
      "--tls-cert and --tls-key belong together; one is missing",
    ]);
    expect(problemsOf({ argv: argv.slice(2) })).toEqual([
      "ws://127.0.0.1:8080 cannot show a certificate; mode mtls needs wss://",
    ]);
  });

  it("[W931] the word scheduler stands for the keys that the scheduler lists, and no file of that name is read", () => {
    const argv = ["--package-keys", "scheduler"];
    const { packageInstalls } = configOf({ env: { ASTRA_WORKER_AUTH_TOKEN: "t" }, argv });

    expect([packageInstalls.trustsRepository, packageInstalls.trustedKeys]).toEqual([true, []]);
  });

  it("[W758] what may be installed is read from its settings, and by default nothing is", () => {
    const { publicKey } = createSigningKey();
    const argv = [
      "--package-keys",
      "keys.pem",
      "--package-origins",
      "https://a.example,http://10.0.0.1:8080/",
      "--package-hooks",
      "acme.*",
    ];

    const given = configOf({ env: { ASTRA_WORKER_AUTH_TOKEN: "t" }, argv, readFile: () => publicKey });

    expect(given.packageInstalls).toEqual({
      trustedKeys: [{ publicKey }],
      trustsRepository: false,
      allowsUnsigned: false,
      origins: ["https://a.example", "http://10.0.0.1:8080"],
      hookPackages: ["acme.*"],
      wheelsDir: undefined,
    });
    expect(configOf({ env: { ASTRA_WORKER_AUTH_TOKEN: "t" } }).packageInstalls).toMatchObject({
      trustedKeys: [],
      allowsUnsigned: false,
    });
  });

  it("[W758] a key file that is missing or wrong, and what is no origin, are refused by the name of the setting", () => {
    const env = { ASTRA_WORKER_AUTH_TOKEN: "t" };

    expect(problemsOf({ env, argv: ["--package-keys", "k"] })).toEqual([
      "--package-keys names k, which cannot be read: no such file",
    ]);
    expect(problemsOf({ env, argv: ["--package-keys", "k"], readFile: () => "[]" })).toEqual([
      expect.stringContaining("--package-keys names k, which must be"),
    ]);
    for (const origin of ["a.example", "https://a.example/path", "ftp://a.example"])
      expect(problemsOf({ env, argv: ["--package-origins", origin] })).toEqual([
        expect.stringContaining("must be a list of origins"),
      ]);
  });

  it("[W125] the worker gives its handlers a thread of their own unless --threads is 0", () => {
    const env = { ASTRA_WORKER_AUTH_TOKEN: "t" };

    expect(configOf({ env }).hasThread).toBe(true);
    expect(configOf({ env, argv: ["--threads", "0"] }).hasThread).toBe(false);
    expect(problemsOf({ env, argv: ["--threads", "2"] })).toEqual(["--threads must be a whole number from 0 to 1"]);
  });
});
