// How many connections callers may have at once, and how many of them one address. Sockets of workers leave this count with their upgrade: the
// session door has limits of its own for them.

import { BlockList, isIP, type Socket } from "node:net";
import { addressBlockOf } from "@astraflow/services";

export interface ConnectionLimitsOptions {
  readonly connectionsMax: number;
  /** Addresses and networks whose connections are those of many callers. */
  readonly trustedProxies: readonly string[];
  /** Called with the number of refusals so far whenever it has doubled: a flood must not become a flood of lines. */
  onRefused?(refused: number): void;
}

type CountedSocket = Pick<Socket, "remoteAddress" | "remotePort" | "once" | "destroy">;

/** Of the total, for one address; the rest is for others. */
const addressShare = 0.5;

export class ConnectionLimits {
  readonly #options: ConnectionLimitsOptions;
  readonly #shared = new BlockList();
  /** By address and port, which are the same for a socket and for the TLS around it. */
  readonly #open = new Map<string, string>();
  readonly #countByBlock = new Map<string, number>();
  #refused = 0;

  constructor(options: ConnectionLimitsOptions) {
    this.#options = options;
    // Behind a proxy on this machine, or one that the configuration names, all callers have one address.
    for (const network of ["127.0.0.0/8", "::1/128", ...options.trustedProxies]) this.#addShared(network);
  }

  get open(): number {
    return this.#open.size;
  }

  /** Counts a new connection, or closes it at once. */
  admit(socket: CountedSocket): void {
    const { connectionsMax } = this.#options;
    const { remoteAddress, remotePort } = socket;
    // It is closed already.
    if (remoteAddress === undefined) return;
    const block = addressBlockOf(remoteAddress);
    const ofBlock = this.#countByBlock.get(block) ?? 0;
    const isBeyondShare = ofBlock >= connectionsMax * addressShare && !this.#isShared(remoteAddress);
    if (this.#open.size >= connectionsMax || isBeyondShare) {
      this.#refused += 1;
      if (Number.isInteger(Math.log2(this.#refused))) this.#options.onRefused?.(this.#refused);
      socket.destroy();
      return;
    }
    const name = `${remoteAddress} ${remotePort}`;
    this.#open.set(name, block);
    this.#countByBlock.set(block, ofBlock + 1);
    socket.once("close", () => this.#release(name));
  }

  /** It has become the socket of a worker. */
  releaseUpgraded({ remoteAddress, remotePort }: Pick<Socket, "remoteAddress" | "remotePort">): void {
    this.#release(`${remoteAddress} ${remotePort}`);
  }

  #release(name: string): void {
    const block = this.#open.get(name);
    if (block === undefined) return;
    this.#open.delete(name);
    const left = (this.#countByBlock.get(block) ?? 1) - 1;
    if (left === 0) this.#countByBlock.delete(block);
    else this.#countByBlock.set(block, left);
  }

  #addShared(network: string): void {
    const [address = "", bits] = network.split("/");
    const family = isIP(address) === 6 ? "ipv6" : "ipv4";
    this.#shared.addSubnet(address, bits === undefined ? (family === "ipv6" ? 128 : 32) : Number(bits), family);
  }

  #isShared(address: string): boolean {
    return this.#shared.check(address, isIP(address) === 6 ? "ipv6" : "ipv4");
  }
}
