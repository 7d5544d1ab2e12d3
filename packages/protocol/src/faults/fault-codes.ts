// The fault table: every code a caller can see, and how each wire spells it. Codes never change; their sentences may improve.

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
  /** Where the code comes from: the specification, existing workers, or this project. */
  readonly since: "seed" | "field" | "own";
}

function faultRow(since: FaultRow["since"], http: number, cause: string, options: { retry?: boolean; resp?: string } = {}) {
  return { cause, http, resp: "ERR", retry: false, since, ...options };
}

const seed = faultRow.bind(null, "seed");
const field = faultRow.bind(null, "field");
const own = faultRow.bind(null, "own");
const retryable = { retry: true } as const;

const faultTable = {
  // Authentication
  "E.AUTH.INVALID_TOKEN": seed(401, "The token is wrong, expired or revoked.", { resp: "WRONGPASS" }),
  "E.AUTH.MTLS_REQUIRED": seed(401, "A trusted client certificate is required here and none was presented.", { resp: "NOAUTH" }),
  "E.AUTH.MISSING_TOKEN": field(401, "A token is needed and none was sent.", { resp: "NOAUTH" }),
  "E.AUTH.MODE_UNSUPPORTED": field(401, "The requested authentication mode is not supported here.", { resp: "NOAUTH" }),
  "E.AUTH.HANDSHAKE_REQUIRED": field(401, "A frame arrived before the handshake of its connection.", { resp: "NOAUTH" }),
  "E.AUTH.UNAUTHENTICATED": field(401, "The connection is not authenticated.", { resp: "NOAUTH" }),
  "E.AUTH.CREDENTIALS": own(401, "The name or the password is wrong, or the user was deactivated.", { resp: "WRONGPASS" }),
  "E.AUTH.FORBIDDEN": own(403, "The caller is authenticated but may not do this.", { resp: "NOPERM" }),
  "E.AUTH.THROTTLED": own(
    429,
    "There were too many wrong passwords or tokens from here; try again after the time that is named.",
    retryable,
  ),

  // Sessions
  "E.SESSION.STALE_BINDING": seed(409, "The attempt now belongs to another worker, boot or fence; this report was ignored."),
  "E.SESSION.DENIED": seed(403, "The scheduler refuses a session to this worker.", { resp: "NOPERM" }),
  "E.SESSION.UNKNOWN": field(404, "No session of this worker is known here; a new handshake is needed.", retryable),
  "E.SESSION.TENANT_MISMATCH": field(403, "The tenant or sender in the frame is not the one the connection is bound to.", {
    resp: "NOPERM",
  }),
  "E.SESSION.NOT_REGISTERED": field(409, "The session was never registered, so it cannot be resumed or given work.", retryable),
  "E.SESSION.MISMATCH": field(409, "The session named is not the one this worker holds.", retryable),
  "E.SESSION.INVALID_TOKEN": field(401, "The session token is wrong or expired; a new handshake is needed.", retryable),
  "E.SESSION.INVALID_PROOF": own(
    401,
    "The resume does not prove that its sender has the key that the session was opened with; a new handshake is needed.",
    retryable,
  ),
  "E.SESSION.SUPERSEDED": own(409, "A newer connection of the same worker has taken the session over."),
  "E.SESSION.GAP": own(409, "Frames are missing and can no longer be supplied; the session starts over.", retryable),
  "E.SESSION.ACK_UNSENT": own(400, "An acknowledgement names a frame that was never sent."),
  "E.SESSION.WINDOW": own(409, "A frame lies outside the receive window and was dropped.", retryable),

  // Commands and results
  "E.CMD.UNKNOWN": seed(400, "Unknown frame or command type."),
  "E.CMD.CONCURRENCY_VIOLATION": seed(409, "A task with the same concurrency key is already running there.", retryable),
  "E.RESULT.DUPLICATE": seed(409, "This attempt already has another result; the first one counts."),
  "E.RESULT.INVALID": own(422, "The result does not match the schema of its node; the message names the field."),
  "E.RESULT.SEQ_GAP": seed(409, "A sequence number is missing; resend from the last acknowledged one.", retryable),
  "E.RESULT.TOO_LARGE": own(413, "A result, or what a container gathered, is larger than a row may carry."),
  "E.DISPATCH.UNAVAILABLE": seed(503, "No worker could be found, or none took the dispatch, within the time allowed.", retryable),
  "E.DISPATCH.INVALID_METADATA": field(422, "The middleware data of a dispatch contradicts itself."),
  "E.DISPATCH.UNFIT": own(409, "The named worker cannot run the task; the details say what it lacks."),
  "E.CONTAINER.ITERATIONS": own(422, "The while loop reached its maximum number of iterations."),
  "E.PARAMS.INVALID": own(
    422,
    "The parameters of a node, including values from edges, do not match its schema; the message names the field.",
  ),
  "E.RUNNER.FAILURE": seed(500, "The node's handler failed, is missing, or returned something that is not a result."),
  "E.RUNNER.CANCELLED": field(409, "The task was stopped at the worker before it ended.", retryable),
  "E.RUNNER.OUTPUT": own(413, "The node's handler wrote more output than a task may."),
  "E.RUNNER.REFUSED": own(
    422,
    "What the node asked for was refused, by the configuration of its worker or by another service, and would be refused again; it is not retried.",
  ),
  "E.RESOURCE.CONFLICT": own(409, "The resources a task refers to are at different workers, so no worker can run it."),
  "E.RESOURCE.DIGEST": own(400, "The uploaded bytes do not match the stated SHA-256; they were discarded."),
  "E.RESOURCE.FULL": own(503, "The worker has no room left for what a task wants to keep there.", retryable),
  "E.RESOURCE.MISSING": field(409, "A resource the task refers to is not at this worker."),
  "E.RESOURCE.RANGE": own(416, "The resource has no bytes in the range that was asked for."),
  "E.TIMEOUT": seed(504, "The time allowed ran out.", retryable),
  "E.INTERNAL": seed(500, "Internal error; the details are in the scheduler's log under the request id.", retryable),

  // Packages and documents
  "E.PKG.INVALID": seed(422, "The package is damaged, wrongly signed, or does not match its manifest."),
  "E.PKG.PERMISSION": seed(403, "The package, its origin or one of its hooks is not allowed here.", { resp: "NOPERM" }),
  "E.MANIFEST.INVALID": own(422, "The manifest does not have the shape of a package manifest."),
  "E.WORKFLOW.INVALID": own(400, "The workflow does not have the shape of a workflow, or its graph contradicts itself."),
  "E.WORKFLOW.TOO_COSTLY": own(
    400,
    "Checking the workflow takes more steps than a request may; the message names the node. Make its schemas or values simpler.",
  ),
  "E.REQUEST.TOO_COSTLY": own(
    400,
    "The request took more time or memory than one request may, and was ended. Send a smaller document; look first whether a change was made.",
  ),
  "E.WORKFLOW.UNSUPPORTED": own(422, "The workflow is well formed but needs something this scheduler does not support."),

  // Calls of a middleware into its chain; the field spells these without a prefix
  next_run_finalised: field(409, "The run has ended, so its chain cannot go on."),
  next_duplicate: field(409, "This call into the chain was already made under the same request id."),
  next_no_chain: field(409, "The calling node is not part of a middleware chain."),
  next_invalid_chain: field(422, "The chain that the call names is not the one of the run."),
  next_target_not_ready: field(409, "The next node of the chain is waiting for something or already under way.", retryable),
  next_timeout: field(504, "The next node of the chain did not answer within the time the caller gave."),
  next_cancelled: field(409, "The run or the next node of the chain was cancelled."),
  next_unavailable: field(503, "No worker could be found for the next node of the chain.", retryable),
  next_failed: field(409, "The next node of the chain failed."),
  next_skipped: field(409, "The next node of the chain was skipped."),

  // Requests and frames as such
  "E.REQUEST.INVALID": own(400, "The request is not well formed; the message names the field."),
  "E.REQUEST.TOO_LARGE": own(413, "The request is too large."),
  "E.REQUEST.HEAD_TOO_LARGE": own(431, "The address and the headers of the request are too large together."),
  "E.REQUEST.TIMEOUT": own(408, "The request did not arrive completely in the time allowed.", retryable),
  "E.REQUEST.MEDIA": own(415, "This route does not accept the media type of the body."),
  "E.NOT_FOUND": own(404, "Not found, or you may not see it."),
  "E.ROUTE.UNKNOWN": own(404, "There is no such route."),
  "E.ROUTE.METHOD": own(405, "The route does not support this method."),
  "E.CONFLICT": own(409, "It was changed in the meantime; the details name its current revision."),
  "E.DRAFT.CONFLICT": own(409, "The draft has changed and others edited the same fields; the details list those edits."),
  "E.ETAG.STALE": own(412, "It has changed since the caller read it; read it again."),
  "E.VERSION.EXISTS": own(409, "A version of this name is published already, and published versions do not change."),
  "E.IDEMPOTENCY.MISMATCH": own(409, "The idempotency key was used before with another body."),
  "E.LIMIT.REACHED": own(409, "The tenant has reached the maximum number of these; remove one first."),
  "E.FRAME.INVALID": own(400, "The frame is not well formed; the message names the field."),
  "E.FRAME.TOO_LARGE": own(413, "The frame is too large."),
  "E.CURSOR.UNKNOWN": own(404, "The cursor is not of this list, or the position is beyond the end of the log."),
  "E.CURSOR.EXPIRED": own(410, "The cursor is older than the oldest stored event; read a snapshot and continue from there."),

  // Runs, tasks, workers
  "E.RUN.ACTIVE": own(409, "The run has not ended yet."),
  "E.RUN.TERMINAL": own(409, "The run has ended and can no longer change."),
  "E.TASK.ENDED": own(409, "The task has ended and can no longer be controlled."),
  "E.TASK.MOVE_REFUSED": own(409, "The task cannot do this in its current state."),
  "E.TASK.RUN_MISMATCH": own(409, "The report names a run that its task does not belong to; nothing was changed."),
  "E.TASK.DEAD": own(409, "The task was delivered as often as its policy allows without a result."),
  "E.TASK.QUEUE_TIMEOUT": own(504, "The task waited for a worker longer than its policy allows."),
  "E.WORKER.LOST": own(503, "The worker that held the attempt stopped sending heartbeats.", retryable),
  "E.UNIT.QUARANTINED": own(500, "The stored state of this run could not be processed and was set aside for an operator."),

  // The process and its store
  "E.STORE.BUSY": own(503, "The store is unreachable or read-only right now; nothing was changed.", {
    ...retryable,
    resp: "BUSY",
  }),
  "E.STORE.UNKNOWN_OUTCOME": own(
    503,
    "The store failed during a commit; repeat the request to find out whether it happened.",
    retryable,
  ),
  "E.STORE.SCHEMA_NEWER": own(500, "The store was written by a newer version of this program."),
  "E.STORE.OPEN": own(500, "The store could not be opened."),
  "E.STORE.DAMAGED": own(500, "The files of the store are damaged or do not belong together; restore a backup."),
  "E.STORE.IN_USE": own(500, "Another process has this store open."),
  "E.STORE.DURABILITY": own(500, "The store does not write to disk before it confirms a commit."),
  "E.CONFIG.INVALID": own(500, "The configuration cannot be used; the message names every problem."),
  "E.OVERLOADED": own(503, "This process is overloaded; try again later.", { ...retryable, resp: "BUSY" }),
  "E.STARTING": own(503, "This process is starting and does not answer yet; try again in a moment.", {
    ...retryable,
    resp: "LOADING",
  }),
  "E.SHUTTING_DOWN": own(503, "This process is shutting down; another one or its successor will answer.", {
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

export function isFaultCode(code: unknown): code is FaultCode {
  return typeof code === "string" && Object.hasOwn(faultCodes, code);
}
