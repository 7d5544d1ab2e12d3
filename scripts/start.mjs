/**
 * `npm start`: set-up, then `astra up`. Words after `--` are passed on, signals are handed down, the program's end is ours.
 */
import { spawn } from "node:child_process";
import { join } from "node:path";
import { root, setUpOrExplain } from "./setup.mjs";

/** One Ctrl-C or one kill of the group arrives several times (terminal, npm); a second wish to stop comes later than this. */
const sameWishMs = 1_000;

const ready = setUpOrExplain("start");
if (!ready) process.exit(2);

const program = join(root, "apps", "cli", "bin", "astra.mjs");
const child = spawn(ready.node, [program, "up", ...process.argv.slice(2)], {
  cwd: root,
  // A group of its own, or a signal to our group would reach it directly and again through us: a drain, then a cut. Killing
  // our group would leave it behind, so it is tethered: it stops by itself when the channel to us closes.
  detached: true,
  env: { ...ready.env, ASTRA_TETHERED: "1" },
  stdio: ["inherit", "inherit", "inherit", "ipc"],
});

/** How soon the end of whoever started us is noticed. */
const parentLookMs = 500;

let wishedAt = Number.NEGATIVE_INFINITY;
for (const signal of /** @type {const} */ (["SIGINT", "SIGTERM", "SIGHUP"]))
  process.on(signal, () => {
    if (performance.now() - wishedAt < sameWishMs) return;
    wishedAt = performance.now();
    child.kill(signal);
  });

// npm dies of a SIGTERM without handing it on: all we see is that our parent has become another one.
const parent = process.ppid;
const parentWatch = setInterval(() => {
  if (process.ppid === parent) return;
  clearInterval(parentWatch);
  child.kill("SIGTERM");
}, parentLookMs).unref();

child.on("error", (cause) => {
  console.error(`astra up could not be started with ${ready.node}: ${cause.message}`);
  process.exit(1);
});
child.on("exit", (code, signal) => {
  if (signal) console.error(`astra up was ended by ${signal}`);
  process.exit(code ?? 1);
});
