// A package that speaks with the outside beside its tasks: it answers questions that come as frames of its own type, whether a task runs
// or not, and its node says something to whoever listens. Plain JavaScript without imports.

/** Called once when the package is loaded. A question may come twice across a new session, so the answer must not hurt either time. */
export function setup({ ext }) {
  ext.on("ext.vendor.greeter.ask", async ({ id, corr, payload }) => {
    await ext.send("ext.vendor.greeter.answer", { text: greetingFor(payload.name) }, { corr: corr ?? id });
  });
}

/** False where too much waits to be sent: the task then says so instead of waiting for ever. */
export async function announce(ctx) {
  const text = greetingFor(ctx.params.name);
  const isTaken = await ctx.ext.send("ext.vendor.greeter.said", { text, task: ctx.taskId }, { corr: ctx.runId });
  return { text, isTaken };
}

function greetingFor(name) {
  return `Hello, ${name === undefined || name === "" ? "whoever you are" : String(name)}!`;
}
