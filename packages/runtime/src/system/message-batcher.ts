// Messages to another thread or process, many in one post.

/** Posts the messages of one tick together: waking the other thread costs far more than a message. */
export class MessageBatcher<W> {
  readonly #postMessages: (messages: readonly W[]) => void;
  readonly #defer: (call: () => void) => void;
  #pending: W[] = [];
  #isFlushScheduled = false;
  #hasFlushedEarly = false;

  constructor(post: (messages: readonly W[]) => void, defer: (call: () => void) => void) {
    this.#postMessages = post;
    this.#defer = defer;
  }

  add(message: W): void {
    this.#pending.push(message);
    if (this.#isFlushScheduled) return;
    this.#isFlushScheduled = true;
    this.#defer(() => {
      this.#isFlushScheduled = false;
      this.#hasFlushedEarly = false;
      this.flush();
    });
  }

  /** The first of a tick is posted at once, with all that waits: its sender may be about to block. Later ones wait for the end of the tick. */
  addUrgent(message: W): void {
    this.add(message);
    if (this.#hasFlushedEarly) return;
    this.#hasFlushedEarly = true;
    this.flush();
  }

  flush(): void {
    const messages = this.#pending;
    if (messages.length === 0) return;
    this.#pending = [];
    this.#postMessages(messages);
  }
}
