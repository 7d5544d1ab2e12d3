import { describe, expect, it } from "vitest";
import { describeSettings, readConfig, type SchedulerConfig } from "./config.ts";
import { settingTable } from "./setting-table.ts";
import { tenantKeys } from "./tenant-settings.ts";

const secret = "0123456789abcdef0123";

function read(argv: string[], env: Record<string, string> = {}, files: Record<string, string> = {}) {
  return readConfig({
    argv,
    env,
    readFile(path) {
      const text = files[path];
      if (text === undefined) throw new Error(`ENOENT: no such file, open '${path}'`);
      return text;
    },
  });
}

function start(...given: Parameters<typeof read>): SchedulerConfig {
  const answer = read(...given);
  if (answer.type !== "start") throw new Error(JSON.stringify(answer));
  return answer.config;
}

function problems(...given: Parameters<typeof read>): readonly string[] {
  const answer = read(...given);
  if (answer.type !== "refused") throw new Error(`expected a refusal, got ${answer.type}`);
  return answer.problems;
}

describe("the scheduler's settings", () => {
  it("[O1] the scheduler's settings come from flags first, then the environment, then the file, then the defaults", () => {
    const files = { "astra.json": JSON.stringify({ logLevel: "warn", cluster: "from-file", grace: 1, threads: 0 }) };
    const env = { ASTRA_SCHEDULER_CONFIG: "astra.json", ASTRA_SCHEDULER_CLUSTER: "from-env", ASTRA_SCHEDULER_GRACE: "2" };

    const config = start(["--dev", "--grace=3", "--listen", "[::1]:0"], env, files);

    expect(config).toMatchObject({
      graceMs: 3,
      cluster: "from-env",
      logLevel: "warn",
      threads: 0,
      thresholds: { leaseMs: 30_000 },
      listen: { host: "::1", port: 0 },
      isDev: true,
    });
  });

  it("[O1] the scheduler's settings are one frozen object, including its tokens", () => {
    const config = start(["--dev"]);

    expect(Object.isFrozen(config)).toBe(true);
    expect(Object.isFrozen(config.tokens[0])).toBe(true);
    expect(Object.isFrozen(config.listen)).toBe(true);
  });

  it("[O2] the scheduler reports all problems with its settings at once, each with the name of the setting", () => {
    const reported = problems([
      "--dev",
      "--threads",
      "x",
      "--time-scale",
      "0.5",
      "--grace",
      "-1",
      "--log-level",
      "loud",
      "extra",
    ]);

    expect(reported).toHaveLength(5);
    expect(reported.join("\n")).toMatch(/--threads is "x".*--grace is "-1".*--log-level is "loud".*--time-scale is "0\.5"/s);
    expect(reported.join("\n")).toContain(`"extra" is not expected here`);
  });

  it("[O2] unknown scheduler flags, variables and keys are reported with the nearest known one", () => {
    const reported = problems(
      ["--dev", "--lisen", "127.0.0.1:1", "--config", "c.json"],
      { ASTRA_SCHEDULER_DATADIR: "x" },
      { "c.json": `{"logLevle":"info"}` },
    );

    expect(reported).toEqual([
      expect.stringContaining("no flag --lisen; did you mean --listen?"),
      expect.stringContaining("ASTRA_SCHEDULER_DATADIR; did you mean ASTRA_SCHEDULER_DATA_DIR?"),
      expect.stringContaining(`"logLevle" in c.json; did you mean logLevel?`),
    ]);
  });

  it("[O2] a flag without its value, a flag given twice and a broken configuration file get different errors", () => {
    const reported = problems(["--dev", "--dev", "--data-dir", "--config", "c.json"], {}, { "c.json": "{" });

    expect(reported).toHaveLength(3);
    expect(reported[0]).toContain("--dev is given twice");
    expect(reported[1]).toContain("--data-dir needs a value (--data-dir DIR)");
    expect(reported[2]).toContain(
      "The configuration file c.json cannot be read (it is not JSON at c.json:1:2: the text ends here",
    );
  });

  it("[O3] --dev is refused on any address that is not loopback", () => {
    for (const host of ["0.0.0.0", "192.168.1.5", "[::]", "example.org", "127.0.0.1.example.org"]) {
      expect(problems(["--dev", "--listen", `${host}:8080`])[0]).toContain("only listen on loopback");
    }
    for (const host of ["127.0.0.1", "127.8.8.8", "localhost", "[::1]"])
      expect(start(["--dev", "--listen", `${host}:0`]).isDev).toBe(true);
  });

  it("[O3] an address that other machines can reach needs TLS or --insecure-listen", () => {
    const env = { ASTRA_SCHEDULER_TOKEN: `ops=${secret}` };
    const tls = ["--tls-cert", "/tls/cert.pem", "--tls-key", "/tls/key.pem"];

    expect(problems(["--listen", "0.0.0.0:8080"], env)).toEqual([expect.stringMatching(/--tls-cert .* --insecure-listen/)]);
    expect(start(["--listen", "0.0.0.0:8080", "--insecure-listen"], env)).toMatchObject({
      listen: { host: "0.0.0.0" },
      tls: null,
    });
    expect(start(["--listen", "0.0.0.0:8080", ...tls], env).tls).toEqual({
      certFile: "/tls/cert.pem",
      keyFile: "/tls/key.pem",
      clientCaFile: null,
    });
    expect(problems(["--dev", "--listen", "0.0.0.0:8080", ...tls], env)[0]).toContain("only listen on loopback");
  });

  it("[O31] --tls-cert and --tls-key need each other, so do --client-ca and --trust-domain, and --client-ca needs TLS", () => {
    const tls = ["--dev", "--tls-cert", "c", "--tls-key", "k"];

    expect(problems(["--dev", "--tls-cert", "c"])).toEqual([expect.stringContaining("--tls-cert is given alone")]);
    expect(problems(["--dev", "--tls-key", "k"])).toEqual([expect.stringContaining("--tls-key is given alone")]);
    expect(problems(["--dev", "--client-ca", "a", "--trust-domain", "prod"])[0]).toContain("only TLS can carry");
    expect(problems([...tls, "--client-ca", "a"])[0]).toContain("--client-ca needs --trust-domain");
    expect(problems([...tls, "--trust-domain", "prod"])[0]).toContain("--trust-domain needs --client-ca");
    expect(problems([...tls, "--client-ca", "a", "--trust-domain", "spiffe://Prod"])[0]).toContain("--trust-domain is");
    expect(start([...tls, "--client-ca", "a", "--trust-domain", "prod.example"])).toMatchObject({ trustDomain: "prod.example" });
  });

  it("[O636] what is kept how long is set by flags, and by the file for single tenants; off and 0 keep it for ever", () => {
    const flags = ["--retain-runs", "12h", "--retain-runs-max=10000", "--retain-keys", "off", "--retain-workers=0"];
    const file = { tenants: { acme: { retainRuns: "90d", retainRunsMax: "off", retainAudit: "365d" }, plain: {} } };

    const usual = start(["--dev"]).retention;
    const { retention, tenants } = start(["--dev", ...flags, "--config", "c"], {}, { c: JSON.stringify(file) });

    const [hour, day] = [3_600_000, 86_400_000];
    expect(usual).toEqual({ runsMs: 30 * day, runsMax: null, keysMs: day, workersMs: 7 * day, auditMs: null });
    expect(retention).toEqual({ runsMs: 12 * hour, runsMax: 10_000, keysMs: null, workersMs: null, auditMs: null });
    expect(tenants["acme"]?.retention).toEqual({ runsMs: 90 * day, runsMax: null, auditMs: 365 * day });
    expect(tenants["plain"]?.retention).toEqual({});
  });

  it("[O636] ages without a unit, and audit entries that would go before other log entries, are refused with the way out", () => {
    const refused = (...argv: string[]) => problems(["--dev", ...argv]);

    expect(refused("--retain-runs", "30")).toEqual([expect.stringMatching(/^--retain-runs is "30"; write a time like 30d, 12h/)]);
    expect(refused("--retain-runs-max", "many")).toEqual([expect.stringMatching(/whole number, or off/)]);
    expect(refused("--retain-audit", "7d")).toEqual([
      expect.stringMatching(/^--retain-audit would end before .* runs are kept longer/),
    ]);
    const file = { c: JSON.stringify({ tenants: { acme: { retainRuns: "off", retainAudit: "7d" } } }) };
    expect(problems(["--dev", "--config", "c"], {}, file)).toEqual([expect.stringMatching(/"acme".*runs are kept for ever/)]);
  });

  it("[O32] settings of one tenant come from the file, with the limits of the flags, and each mistake is named", () => {
    const given = (tenants: unknown): Parameters<typeof read> => [
      ["--dev", "--config", "c"],
      {},
      { c: JSON.stringify({ tenants }) },
    ];
    const own = {
      heartbeat: 5_000,
      lease: 20_000,
      quietHeartbeat: 40_000,
      quietLease: 120_000,
      drainMemory: 80,
      drainDisk: 85,
      saturated: 30_000,
      sendWindow: 16,
      recvWindow: 32,
      schemaMode: "enforce",
    };

    expect(start(...given({ acme: own, plain: {} })).tenants).toEqual({
      acme: {
        thresholds: {
          heartbeatMs: 5_000,
          leaseMs: 20_000,
          quietHeartbeatMs: 40_000,
          quietLeaseMs: 120_000,
          drainMemPct: 80,
          drainDiskPct: 85,
          saturatedMs: 30_000,
        },
        retention: {},
        sendWindow: 16,
        recvWindow: 32,
        schemaMode: "enforce",
        isCertificateRequired: false,
      },
      plain: { thresholds: {}, retention: {}, isCertificateRequired: false },
    });
    const reported = problems(
      ...given({
        acme: {
          lese: 1,
          lease: "long",
          sendWindow: 0,
          drainMemory: 200,
          requireCertificate: "maybe",
          heartbeat: [1],
          schemaMode: "x",
        },
        "a/b": {},
        other: 7,
      }),
    );
    expect(reported).toEqual([
      expect.stringMatching(/no setting "lese" for a tenant \("acme" of "tenants" in c\); did you mean lease\?/),
      expect.stringMatching(/"lease" of "acme".* is "long"/),
      expect.stringMatching(/"sendWindow" of "acme".* is "0"/),
      expect.stringMatching(/"drainMemory" of "acme".* is "200"/),
      expect.stringMatching(/"requireCertificate" of "acme".* is "maybe"/),
      expect.stringMatching(/"heartbeat" of "acme"/),
      expect.stringMatching(/"schemaMode" of "acme".* is "x"; it must be one of warn, enforce/),
      expect.stringMatching(/"a\/b" of .* no name of a tenant/),
      expect.stringMatching(/"other" of .* must be an object/),
    ]);
    expect(problems(...given([1]))[0]).toContain("by tenant");
    expect(problems(["--dev", "--config", "c"], {}, { c: `{"tenant": {}}` })[0]).toContain("did you mean tenants?");
  });

  it("[O32] settings of one tenant must be consistent with the global settings", () => {
    const judge = (tenants: unknown, ...flags: string[]) =>
      problems(["--dev", "--config", "c", ...flags], {}, { c: JSON.stringify({ tenants }) });

    expect(judge({ acme: { heartbeat: 16_000 } })).toEqual([
      expect.stringMatching(/"lease" of "acme".* is 30000.* at least 32000/),
    ]);
    expect(judge({ acme: { quietLease: 60_000 } })[0]).toMatch(/"quietLease" of "acme".* at least 70000/);
    expect(judge({ acme: { lease: 10_000 } }, "--heartbeat", "6000")[0]).toMatch(/"lease" of "acme".* at least 12000/);
    expect(judge({ acme: { requireCertificate: true } })).toEqual([
      expect.stringMatching(/"requireCertificate" of tenant "acme" would let none of its workers in/),
    ]);
  });

  it("[O32] windows, load thresholds, saturation, session tokens and their keys, and the schema mode can be set by flags for all tenants", () => {
    expect(start(["--dev"])).toMatchObject({
      sendWindow: null,
      recvWindow: null,
      thresholds: { drainMemPct: 90, drainDiskPct: 95, saturatedMs: 60_000, quietHeartbeatMs: 35_000, quietLeaseMs: 105_000 },
      sessionTokenMs: 3_600_000,
      sessionKeyAgeMs: 86_400_000,
      schemaMode: "warn",
      tenants: {},
    });
    const flags = ["--send-window=8", "--recv-window=9", "--drain-memory=70", "--drain-disk=101", "--saturated=1000"];
    expect(start(["--dev", ...flags, "--session-token=2000", "--session-key-age=3000", "--schema-mode=enforce"])).toMatchObject({
      schemaMode: "enforce",
      sendWindow: 8,
      recvWindow: 9,
      thresholds: { drainMemPct: 70, drainDiskPct: 101, saturatedMs: 1_000 },
      sessionTokenMs: 2_000,
      sessionKeyAgeMs: 3_000,
    });
    for (const wrong of ["--send-window=0", "--recv-window=1025", "--drain-memory=5", "--session-token=86400001"])
      expect(problems(["--dev", wrong])).toHaveLength(1);
    expect(problems(["--dev", "--session-key-age=1000", "--session-token=7000"])).toEqual([
      expect.stringContaining("at least 1167"),
    ]);
  });

  it("[O4] without --dev there is no default secret: a scheduler with no token is refused with an explanation of what to do", () => {
    expect(problems([])).toEqual([
      expect.stringContaining(
        "No token is configured, so nobody could connect. Write a secret into a file and start with --token NAME=@FILE",
      ),
    ]);
    expect(start(["--dev"]).tokens).toMatchObject([{ name: "dev", tenant: "default", secret: "dev-token" }]);
  });

  it("[O4] the well-known token and short tokens are refused without --dev", () => {
    expect(problems([], { ASTRA_SCHEDULER_TOKEN: "ops=dev-token" })[0]).toContain("well-known dev-token");
    expect(problems([], { ASTRA_SCHEDULER_TOKEN: "ops=short" })[0]).toContain("fewer than 16 characters");
  });

  it("[O4] token secrets come from files or the environment, never from the command line, and no message repeats one", () => {
    const files = { "/ops": `${secret}\n`, "/two": `${secret}2 and more` };

    expect(start(["--token", "ops/acme=@/ops"], {}, files).tokens).toMatchObject([{ name: "ops", tenant: "acme", secret }]);
    expect(start([], { ASTRA_SCHEDULER_TOKEN: `a=${secret}1,b/x=${secret}2` }).tokens).toHaveLength(2);
    const reported = [
      ...problems(["--token", `ops=${secret}`]),
      ...problems(["--token", secret]),
      ...problems(["--token", "x=@/two"], {}, files),
    ];
    expect(reported.join("\n")).toContain("shows the secret");
    expect(reported.join("\n")).not.toContain(secret);
  });

  it("[O4] a token file may contain several secrets, one per line, for rotation", () => {
    const file = `${secret}1\n\n${secret}2\n`;

    expect(start(["--token", "ops=@/ops"], {}, { "/ops": file }).tokens).toMatchObject([
      { name: "ops", tenant: "default", secret: `${secret}1` },
      { name: "ops", tenant: "default", secret: `${secret}2` },
    ]);
    expect(problems(["--token", "ops=@/ops"], {}, { "/ops": "\n" })[0]).toContain("must hold one secret");
  });

  it("[O37] a token has the grants it was given: by default everything within its tenant, and admin only if named", () => {
    const files = { "/f": "0123456789abcdef0123" };
    const grantsOf = (word: string) => start(["--token", `${word}=@/f`], {}, files).tokens[0]?.grants;

    expect(grantsOf("ops")).toEqual(["worker", "view", "read", "edit", "operate"]);
    expect(grantsOf("fleet/acme:worker")).toEqual(["worker"]);
    expect(grantsOf("eyes:admin+view")).toEqual(["view", "admin"]);
    expect(start(["--dev"]).tokens[0]?.grants).toContain("admin");
    for (const wrong of ["ops:", "ops:root", "ops:view+view", "ops:view+"])
      expect(problems(["--token", `${wrong}=@/f`], {}, files)[0]).toContain("there are worker, view, read, edit, operate, admin");
  });

  it("[O71] a token may be given roles as well as grants", () => {
    const files = { "/f": "0123456789abcdef0123" };
    const grantsOf = (word: string) => start(["--token", `${word}=@/f`], {}, files).tokens[0]?.grants;

    expect(grantsOf("eyes:run.viewer+workflow.viewer")).toEqual(["view", "read"]);
    expect(grantsOf("hands:workflow.editor+worker")).toEqual(["worker", "view", "read", "edit", "operate"]);
    expect(problems(["--token", "x:run.editor=@/f"], {}, files)[0]).toContain(
      "the roles workflow.editor, workflow.viewer, run.viewer",
    );
  });

  it("[O540] trusted proxies are none by default, and each is an address or a network", () => {
    expect(start(["--dev"]).trustedProxies).toEqual([]);
    const flags = ["--trusted-proxy", "10.0.0.0/8", "--trusted-proxy=fd00::1"];
    expect(start(["--dev", ...flags]).trustedProxies).toEqual(["10.0.0.0/8", "fd00::1"]);
    for (const wrong of ["proxy.example", "10.0.0.0/33", "10.0.0.0/8/8", "10.0.0.0/", "*"])
      expect(problems(["--dev", "--trusted-proxy", wrong])).toEqual([expect.stringContaining("an address or a network")]);
  });

  it("[O650] origins of packages beyond public https addresses are none by default, and each is one exact origin or file:", () => {
    expect(start(["--dev"]).packageOrigins).toEqual([]);
    const flags = ["--package-origin", "http://packages.lan:8000", "--package-origin=file:"];
    expect(start(["--dev", ...flags]).packageOrigins).toEqual(["http://packages.lan:8000", "file:"]);
    for (const wrong of ["packages.lan", "http://packages.lan/x", "http://Packages.lan", "ftp://a.example", "file:///srv", "*"])
      expect(problems(["--dev", "--package-origin", wrong])).toEqual([expect.stringContaining("write scheme, host and port")]);
  });

  it("[O930] unsigned packages may be published only where a flag allows it", () => {
    expect(start(["--dev"]).allowsUnsignedPackages).toBe(false);
    expect(start(["--dev", "--package-unsigned"]).allowsUnsignedPackages).toBe(true);
  });

  it("[O1200] two older versions of a package stay on workers and nothing is installed on demand, unless flags or the file for a tenant say otherwise", () => {
    const usual = start(["--dev"]);
    const flagged = start(["--dev", "--package-keep", "0", "--package-on-demand"]);
    const file = { c: JSON.stringify({ tenants: { acme: { packageKeep: 5, packageOnDemand: true } } }) };
    const { acme } = start(["--dev", "--config", "c"], {}, file).tenants;

    expect([usual.packageKeep, usual.isPackageOnDemand]).toEqual([2, false]);
    expect([flagged.packageKeep, flagged.isPackageOnDemand]).toEqual([0, true]);
    expect([acme?.packageKeep, acme?.isPackageOnDemand]).toEqual([5, true]);
    expect(problems(["--dev", "--package-keep", "-1"])).toHaveLength(1);
  });

  it("[O931] the public address is unknown by default, and one that others can put a path behind", () => {
    expect(start(["--dev"]).publicUrl).toBe("");
    expect(start(["--dev", "--public-url", "https://astra.example/proxy/"]).publicUrl).toBe("https://astra.example/proxy");
    for (const wrong of ["astra.example", "ftp://astra.example", "https://ann@astra.example", "https://astra.example/?a=1"])
      expect(problems(["--dev", "--public-url", wrong])).toEqual([
        expect.stringContaining("write it like https://astra.example"),
      ]);
  });

  it("[O72] origins of browser pages are none by default, come from flags or the environment, and each must be one exact origin", () => {
    expect(start(["--dev"]).corsOrigins).toEqual([]);
    const flags = ["--cors-origin", "https://dashboard.example", "--cors-origin=http://localhost:5173"];
    expect(start(["--dev", ...flags]).corsOrigins).toEqual(["https://dashboard.example", "http://localhost:5173"]);
    const env = { ASTRA_SCHEDULER_CORS_ORIGIN: "https://a.example, https://b.example:8443" };
    expect(start(["--dev"], env).corsOrigins).toEqual(["https://a.example", "https://b.example:8443"]);
    expect(problems(["--dev", "--cors-origin", "*"])).toEqual([expect.stringContaining("name each origin")]);
    expect(problems(["--dev", "--cors-origin", "https://Dashboard.example/app/"])).toEqual([
      expect.stringContaining("did you mean https://dashboard.example?"),
    ]);
    for (const wrong of ["null", "dashboard.example", "file:///page.html", "https://a.example:443"])
      expect(problems(["--dev", "--cors-origin", wrong])).toHaveLength(1);
  });

  it("[O69] passwords of first users come from files or the environment, must be long enough, and no message repeats one", () => {
    const files = { "/admin": "first admin password\n", "/acme": "another tenant's one", "/short": "short-secret".slice(0, 11) };

    expect(start(["--dev"]).admins).toEqual([]);
    expect(start(["--dev", "--admin-password-file", "acme=/acme", "--admin-password-file=/admin"], {}, files).admins).toEqual([
      { tenant: "acme", password: "another tenant's one" },
      { tenant: "default", password: "first admin password" },
    ]);
    const env = { ASTRA_ADMIN_PASSWORD: "from, the environment" };
    expect(start(["--dev"], env).admins).toEqual([{ tenant: "default", password: "from, the environment" }]);
    const reported = [
      ...problems(["--dev", "--admin-password-file=/short"], {}, files),
      ...problems(["--dev", "--admin-password-file=/nowhere"], {}, files),
      ...problems(["--dev", "--admin-password-file=/admin"], env, files),
      ...problems(["--dev", "--admin-password-file=a b=/admin"], {}, files),
      ...problems(["--dev"], { ASTRA_ADMIN_PASSWORD: "hunter2" }),
    ];
    expect(reported).toEqual([
      expect.stringContaining("must hold a password of 12 to 1024 characters"),
      expect.stringContaining("cannot be read"),
      'The first user of tenant "default" is given two passwords; keep one.',
      "--admin-password-file must be FILE or TENANT=FILE.",
      expect.stringContaining("ASTRA_ADMIN_PASSWORD must hold a password"),
    ]);
    expect(reported.join()).not.toMatch(/short-secre|hunter2|first admin/);
  });

  it("[O70] the scheduler's settings include the lifetime of user tokens and the blob folder, by default in the data folder", () => {
    expect(start(["--dev", "--data-dir=/data"])).toMatchObject({ userTokenMs: 43_200_000, blobDir: "/data/blobs" });
    expect(start(["--dev", "--user-token=60000", "--blob-dir=/shared"])).toMatchObject({
      userTokenMs: 60_000,
      blobDir: "/shared",
    });
    expect(problems(["--dev", "--user-token=1"])[0]).toContain("--user-token");
  });

  it("[O4] two tokens with the same secret are refused", () => {
    expect(problems([], { ASTRA_SCHEDULER_TOKEN: `a=${secret},b=${secret}` })[0]).toContain("same secret");
  });

  it("[O2] a lease shorter than two heartbeats is refused", () => {
    expect(problems(["--dev", "--lease", "10000", "--heartbeat", "9000"])[0]).toContain("make it at least 18000");
  });

  it("[O5] settings for parts that do not exist yet are refused by name instead of ignored", () => {
    expect(problems(["--dev", "--resp-listen", "127.0.0.1:6380"])[0]).toContain("no RESP server");
    expect(problems(["--dev", "--threads", "2"])[0]).toContain("--threads is above 1");
  });

  it("[O21] the address of a PostgreSQL store comes from a flag or the environment, and no refusal repeats its password", () => {
    const url = "postgres://u:hunter2@db/x";

    expect(start(["--dev", "--store", url]).store).toEqual({ of: "postgres", url });
    expect(start(["--dev"], { ASTRA_SCHEDULER_STORE: url }).store).toEqual({ of: "postgres", url });
    const reported = [
      ...problems(["--dev", "--store", "postgres://u:hunter2@db"]),
      ...problems(["--dev", "--store", "postgre://u:hunter2@db/x"]),
      ...problems(["--dev", url]),
      ...problems(["--dev", "--stroe", url]),
      ...problems(["--dev", `--stroe=${url}`]),
    ];
    expect(reported).toHaveLength(5);
    expect(reported.join("\n")).not.toContain("hunter2");
  });

  it("[O22] a scheduler on PostgreSQL takes its replica name from --replica or has none set, and on SQLite has a fixed one", () => {
    const shared = ["--dev", "--store", "postgres://u@db/x"];

    expect(start(shared).replica).toBeNull();
    expect(start([...shared, "--replica", "east"]).replica).toBe("east");
    expect(start(["--dev"]).replica).toBe("one");
    expect(problems(["--dev", "--replica", "two words"])[0]).toContain("--replica is");
  });

  it("[O21] several turns are in flight at once only on PostgreSQL", () => {
    expect(start(["--dev"]).turnsInFlight).toBe(1);
    expect(start(["--dev", "--store", "postgres://u@db/x"]).turnsInFlight).toBe(3);
    expect(start(["--dev", "--store", "postgres://u@db/x", "--turns-in-flight", "2"]).turnsInFlight).toBe(2);
    expect(problems(["--dev", "--turns-in-flight", "9"])[0]).toContain("--turns-in-flight is");
  });

  it("[O5] --time-scale needs --dev", () => {
    expect(problems(["--time-scale", "10"], { ASTRA_SCHEDULER_TOKEN: `a=${secret}` })[0]).toContain("needs --dev");
    expect(start(["--dev", "--time-scale", "10"]).timeScale).toBe(10);
  });

  it("[O6] failpoints with a wrong name or action are refused at start", () => {
    const reported = problems(["--dev"], { ASTRA_FAILPOINTS: "turn.nowhere=kill,turn.begun=burn,turn.begun" });

    expect(reported).toHaveLength(3);
    expect(start(["--dev"], { ASTRA_FAILPOINTS: "turn.begun=kill@3" }).failpoints).toEqual([
      { name: "turn.begun", action: "kill", pass: 3 },
    ]);
  });

  it("[L912] the scheduler's help shows the variable, unit, values and default of each setting", () => {
    const help = describeSettings();

    expect(help).toContain(
      "  --lease MS, ASTRA_SCHEDULER_LEASE\n      how long a silent worker keeps its work (default 30000, which is 30 s)\n",
    );
    expect(help).toContain("--listen HOST:PORT, ASTRA_SCHEDULER_LISTEN\n");
    expect(help.replace(/\s+/g, " ")).toContain("default 127.0.0.1:8080)");
    expect(help).toMatch(/--retain-runs AGE, [^(]*\(default 30d\)/);
    expect(help.replace(/\s+/g, " ")).toContain("(one of trace, debug, info, warn, error, fatal, silent; default info)");
    expect(help).not.toMatch(/\bdoor\b/);
  });

  it("[O1] the scheduler's help describes every flag and every tenant setting", () => {
    const help = describeSettings();

    for (const row of Object.values(settingTable)) expect(help.replace(/\s+/g, " ")).toContain(row.help);
    for (const key of tenantKeys) expect(help).toContain(key);
    expect(read(["--help", "--nonsense"])).toEqual({ type: "help" });
  });
});
