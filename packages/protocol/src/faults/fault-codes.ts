// The fault table: every code a caller may ever see, on any wire. A code is a promise; the sentence beside it may improve.
// Making and carrying faults lives in fault.ts; the doors read the http, frame and resp columns and invent nothing.

/** How one code looks on each wire, and whether trying again unchanged can help. */
export interface FaultRow {
  /** What happened, in one sentence. */
  readonly cause: string;
  /** Its spelling inside a frame. */
  readonly frame: string;
  readonly http: number;
  /** How a RESP error line begins; the message follows. */
  readonly resp: string;
  readonly retry: boolean;
  /** Where the code comes from: the seeds, the workers already in the field, or this project. */
  readonly since: "seed" | "field" | "own";
}

type FaultRowOptions = { retry?: boolean; resp?: string };

function faultRow(since: FaultRow["since"], http: number, cause: string, options: FaultRowOptions = {}): Omit<FaultRow, "frame"> {
  return { cause, http, resp: options.resp ?? "ERR", retry: options.retry ?? false, since };
}

const fromSpecification = faultRow.bind(null, "seed");
const fromFieldWorkers = faultRow.bind(null, "field");
const ownCode = faultRow.bind(null, "own");
const retryable = { retry: true } as const;

const faultTable = {
  // Who is speaking
  "E.AUTH.INVALID_TOKEN": fromSpecification(401, "The token is wrong, expired or revoked.", { resp: "WRONGPASS" }),
  "E.AUTH.MTLS_REQUIRED": fromSpecification(401, "This door asks for a client certificate and none that it trusts was shown.", {
    resp: "NOAUTH",
  }),
  "E.AUTH.MISSING_TOKEN": fromFieldWorkers(401, "A token is needed and none was sent.", { resp: "NOAUTH" }),
  "E.AUTH.MODE_UNSUPPORTED": fromFieldWorkers(401, "The way of authenticating that was asked for is not offered here.", {
    resp: "NOAUTH",
  }),
  "E.AUTH.HANDSHAKE_REQUIRED": fromFieldWorkers(401, "A frame came before the handshake of its connection.", { resp: "NOAUTH" }),
  "E.AUTH.UNAUTHENTICATED": fromFieldWorkers(401, "The connection has not proved who it is.", { resp: "NOAUTH" }),
  "E.AUTH.CREDENTIALS": ownCode(401, "The name or the password is wrong, or the user is locked out.", { resp: "WRONGPASS" }),
  "E.AUTH.FORBIDDEN": ownCode(403, "The caller is known and may not do this.", { resp: "NOPERM" }),
  "E.AUTH.THROTTLED": ownCode(429, "There were too many wrong passwords from here or for this user; come back later.", retryable),

  // Sessions
  "E.SESSION.STALE_BINDING": fromSpecification(
    409,
    "The attempt now belongs to another worker, boot or fence; this word about it changes nothing.",
  ),
  "E.SESSION.DENIED": fromSpecification(403, "The scheduler refuses a session to this worker.", { resp: "NOPERM" }),
  "E.SESSION.UNKNOWN": fromFieldWorkers(404, "No session of this worker is known here; a new handshake is needed.", retryable),
  "E.SESSION.TENANT_MISMATCH": fromFieldWorkers(
    403,
    "The tenant or sender in the frame is not the one the connection is bound to.",
    {
      resp: "NOPERM",
    },
  ),
  "E.SESSION.NOT_REGISTERED": fromFieldWorkers(
    409,
    "The session was never registered, so it cannot be resumed or given work.",
    retryable,
  ),
  "E.SESSION.MISMATCH": fromFieldWorkers(409, "The session named is not the one this worker holds.", retryable),
  "E.SESSION.INVALID_TOKEN": fromFieldWorkers(
    401,
    "The session token is wrong or expired; a new handshake is needed.",
    retryable,
  ),
  "E.SESSION.SUPERSEDED": ownCode(409, "A newer connection of the same worker has taken the session over."),
  "E.SESSION.GAP": ownCode(409, "Frames are missing and can no longer be supplied; the session starts over.", retryable),
  "E.SESSION.ACK_UNSENT": ownCode(400, "An acknowledgement names a frame that was never sent."),
  "E.SESSION.WINDOW": ownCode(409, "A frame lies outside the receive window and was dropped.", retryable),

  // Commands and results
  "E.CMD.UNKNOWN": fromSpecification(400, "Nobody here knows this type of frame or command."),
  "E.CMD.CONCURRENCY_VIOLATION": fromSpecification(
    409,
    "A task with the same concurrency key is already running there.",
    retryable,
  ),
  "E.RESULT.DUPLICATE": fromSpecification(409, "This attempt already has another result; the first one stands."),
  "E.RESULT.INVALID": ownCode(422, "The result is not what the schema of its node promises; the message names the field."),
  "E.RESULT.SEQ_GAP": fromSpecification(
    409,
    "A number in the stream is missing; send again from the last acknowledged one.",
    retryable,
  ),
  "E.RESULT.TOO_LARGE": ownCode(413, "A result, or what a container gathered, is larger than a row may carry."),
  "E.DISPATCH.UNAVAILABLE": fromSpecification(
    503,
    "No worker could be found, or none took the dispatch, within the time allowed.",
    retryable,
  ),
  "E.DISPATCH.INVALID_METADATA": fromFieldWorkers(422, "The middleware data of a dispatch contradicts itself."),
  "E.DISPATCH.UNFIT": ownCode(409, "The worker that was named cannot run the task; the details say what it lacks."),
  "E.CONTAINER.ITERATIONS": ownCode(422, "A while loop wants to go on after all the iterations that it is allowed."),
  "E.PARAMS.INVALID": ownCode(
    422,
    "The parameters of a node, edges included, are not what its schema asks for; the message names the field.",
  ),
  "E.RUNNER.FAILURE": fromSpecification(
    500,
    "The node's handler failed, is missing, or returned something that is not a result.",
  ),
  "E.RUNNER.CANCELLED": fromFieldWorkers(409, "The task was stopped at the worker before it ended.", retryable),
  "E.RESOURCE.CONFLICT": ownCode(409, "The resources a task refers to are at different workers, so no worker can run it."),
  "E.RESOURCE.DIGEST": ownCode(400, "The bytes that came do not have the SHA-256 that was said; nothing of them is kept."),
  "E.RESOURCE.FULL": ownCode(503, "The worker has no room left for what a task wants to keep there.", retryable),
  "E.RESOURCE.MISSING": fromFieldWorkers(409, "A resource the task refers to is not at this worker."),
  "E.RESOURCE.RANGE": ownCode(416, "The resource has no bytes in the range that was asked for."),
  "E.TIMEOUT": fromSpecification(504, "The time allowed ran out.", retryable),
  "E.INTERNAL": fromSpecification(
    500,
    "Something broke here; the details are in the scheduler's log under the request id.",
    retryable,
  ),

  // Packages and documents
  "E.PKG.INVALID": fromSpecification(422, "The package is damaged, wrongly signed, or not what it says it is."),
  "E.PKG.PERMISSION": fromSpecification(403, "The package, its origin or one of its hooks is not allowed here.", {
    resp: "NOPERM",
  }),
  "E.MANIFEST.INVALID": ownCode(422, "The manifest does not have the shape of a package manifest."),
  "E.WORKFLOW.INVALID": ownCode(400, "The workflow does not have the shape of a workflow, or its graph contradicts itself."),
  "E.WORKFLOW.UNSUPPORTED": ownCode(422, "The workflow is well formed and asks for something this scheduler does not do."),

  // Calls of a middleware into its chain; the field spells these without a prefix
  next_run_finalised: fromFieldWorkers(409, "The run has ended, so its chain cannot go on."),
  next_duplicate: fromFieldWorkers(409, "This call into the chain was already made under the same request id."),
  next_no_chain: fromFieldWorkers(409, "The calling node is not part of a middleware chain."),
  next_invalid_chain: fromFieldWorkers(422, "The chain that the call names is not the one of the run."),
  next_target_not_ready: fromFieldWorkers(
    409,
    "The next node of the chain is waiting for something or already under way.",
    retryable,
  ),
  next_timeout: fromFieldWorkers(504, "The next node of the chain did not answer within the time the caller gave."),
  next_cancelled: fromFieldWorkers(409, "The run or the next node of the chain was cancelled."),
  next_unavailable: fromFieldWorkers(503, "No worker could be found for the next node of the chain.", retryable),
  next_failed: fromFieldWorkers(409, "The next node of the chain failed."),
  next_skipped: fromFieldWorkers(409, "The next node of the chain was skipped."),

  // Requests and frames as such
  "E.REQUEST.INVALID": ownCode(400, "The request is not well formed; the message names the field."),
  "E.REQUEST.TOO_LARGE": ownCode(413, "The request is larger than this door takes."),
  "E.REQUEST.MEDIA": ownCode(415, "The body is not of a media type that this route reads."),
  "E.NOT_FOUND": ownCode(404, "There is no such thing, or it is not yours to see."),
  "E.ROUTE.UNKNOWN": ownCode(404, "There is no such route."),
  "E.ROUTE.METHOD": ownCode(405, "The route exists and does not answer this method."),
  "E.CONFLICT": ownCode(409, "Somebody changed it meanwhile; the details name the revision it is in now."),
  "E.DRAFT.CONFLICT": ownCode(
    409,
    "The draft has moved on and others changed the same fields; the details name the edits in between.",
  ),
  "E.ETAG.STALE": ownCode(412, "It has changed since the revision that the caller read; read it again."),
  "E.VERSION.EXISTS": ownCode(409, "A version of this name is published already, and published versions do not change."),
  "E.IDEMPOTENCY.MISMATCH": ownCode(409, "The idempotency key was used before with another body."),
  "E.LIMIT.REACHED": ownCode(409, "There are as many of these as a tenant may keep; remove one first."),
  "E.FRAME.INVALID": ownCode(400, "The frame is not well formed; the message names the field."),
  "E.FRAME.TOO_LARGE": ownCode(413, "The frame is larger than this door takes."),
  "E.CURSOR.EXPIRED": ownCode(410, "The cursor points before the oldest event kept; read a snapshot and go on from there."),

  // Runs, tasks, workers
  "E.RUN.ACTIVE": ownCode(409, "The run has not ended yet."),
  "E.RUN.TERMINAL": ownCode(409, "The run has ended and does not change any more."),
  "E.TASK.ENDED": ownCode(409, "The task has ended and cannot be steered any more."),
  "E.TASK.MOVE_REFUSED": ownCode(409, "The task is in a state from which it cannot do this."),
  "E.TASK.DEAD": ownCode(409, "The task was delivered as often as its policy allows and never came back."),
  "E.TASK.QUEUE_TIMEOUT": ownCode(504, "The task waited for a worker longer than its policy allows."),
  "E.WORKER.LOST": ownCode(503, "The worker that held the attempt fell silent.", retryable),
  "E.UNIT.QUARANTINED": ownCode(500, "The stored state of this run could not be processed and was set aside for an operator."),

  // The process and its store
  "E.STORE.BUSY": ownCode(503, "The store is away or takes no changes at this moment; nothing was changed.", {
    ...retryable,
    resp: "BUSY",
  }),
  "E.STORE.UNKNOWN_OUTCOME": ownCode(
    503,
    "The store broke off during a commit; asking again settles whether it happened.",
    retryable,
  ),
  "E.STORE.SCHEMA_NEWER": ownCode(500, "The store was written by a newer version of this program."),
  "E.STORE.OPEN": ownCode(500, "The store could not be opened."),
  "E.STORE.IN_USE": ownCode(500, "Another process has this store open."),
  "E.STORE.DURABILITY": ownCode(500, "The store does not keep its promise to write to disk before it answers."),
  "E.CONFIG.INVALID": ownCode(500, "The configuration cannot be used; the message names every problem."),
  "E.OVERLOADED": ownCode(503, "There is more work than this process takes; come back later.", { ...retryable, resp: "BUSY" }),
  "E.SHUTTING_DOWN": ownCode(503, "This process is going away; another or its successor will answer.", {
    ...retryable,
    resp: "LOADING",
  }),
} satisfies Record<string, Omit<FaultRow, "frame">>;

export type FaultCode = keyof typeof faultTable;

/** Every code, with its look on each wire. docs/faults.md is written from this. */
export const faultCodes: Readonly<Record<FaultCode, FaultRow>> = Object.freeze(
  Object.fromEntries(
    Object.entries(faultTable).map(([code, columns]) => [
      code,
      Object.freeze({ ...columns, frame: code, resp: `${columns.resp} ${code}` }),
    ]),
  ) as Record<FaultCode, FaultRow>,
);

/** Tells whether a word from outside is one of our codes. */
export function isFaultCode(code: unknown): code is FaultCode {
  return typeof code === "string" && Object.hasOwn(faultCodes, code);
}
