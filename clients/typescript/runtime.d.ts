// Written so that neither the DOM library nor any package is needed; where they are there, their types fit.

/** An `AbortSignal`, where the surroundings have one. */
export type Signal = typeof globalThis extends { AbortSignal: { prototype: infer S } } ? S : MinimalSignal

/** What is used of a signal. */
export interface MinimalSignal {
  readonly aborted: boolean
  readonly reason: unknown
  addEventListener(type: "abort", listener: () => void, options?: { once?: boolean }): void
  removeEventListener(type: "abort", listener: () => void): void
}

export interface FetchInit {
  method: string
  headers: Record<string, string>
  body?: string
  signal: Signal
}

/** What is used of a response. */
export interface FetchResponse {
  readonly status: number
  readonly headers: { get(name: string): string | null }
  readonly body: unknown
  text(): Promise<string>
  arrayBuffer(): Promise<ArrayBuffer>
}

export type Fetch = (url: string, init: FetchInit) => Promise<FetchResponse>

/** What is used of a WebSocket. */
export interface MinimalWebSocket {
  binaryType: string
  send(data: string): void
  close(code?: number, reason?: string): void
  addEventListener(type: "open" | "message" | "close" | "error", listener: (event: any) => void): void
}

export type WebSocketConstructor = new (url: string) => MinimalWebSocket

export interface ClientOptions {
  readonly baseUrl: string
  /** `globalThis.fetch` unless given. */
  readonly fetch?: Fetch | undefined
  readonly headers?: Record<string, string> | undefined
  /** `globalThis.WebSocket` unless given; only terminals need one. */
  readonly webSocket?: WebSocketConstructor | undefined
}

/** Of one call, apart from what it asks for. */
export interface CallOptions {
  readonly signal?: Signal | undefined
  /** These win over the client's. */
  readonly headers?: Record<string, string> | undefined
  /** Milliseconds for a whole answer; of a stream, until it is open. */
  readonly timeout?: number | undefined
  /** Milliseconds without an event or a heartbeat after which a stream fails; servers send one every 15 s. */
  readonly silence?: number | undefined
  /** Called when a stream has been answered, before its first element. */
  readonly onOpen?: (() => void) | undefined
  /** Called for each heartbeat of a stream: the server is there and has nothing to say. */
  readonly onHeartbeat?: (() => void) | undefined
}

/** `previous` and `next` are cursors for the same query; an empty page has none. */
export interface Page<T> {
  readonly items: readonly T[]
  readonly previous: string | null
  readonly next: string | null
}

export interface History<T> {
  readonly events: readonly T[]
  readonly hasMore: boolean
}

export interface Located<L, T> {
  readonly location: L
  readonly data: T
}

/**
 * A connection to a terminal. Iterate over the output; it ends when the terminal does, and fails with a ClientError when
 * the connection ends in any other way. Leaving the loop closes it; the terminal goes on.
 */
export interface PtySocket extends AsyncIterable<string> {
  /** How far the output was read, for a later `connect`; undefined until the retained output has been read. */
  readonly cursor: number | undefined
  /** Type. */
  write(text: string): void
  close(): void
}

export type Reason = "Transport" | "UnexpectedStatus" | "UnsupportedContentType" | "MalformedResponse"

/** A failure of the way there or back; `reason` says which. Compare `_tag`, not the class. */
export declare class ClientError extends Error {
  readonly _tag: "ClientError"
  readonly reason: Reason
  readonly status: number | undefined
  constructor(reason: Reason, message: string, details?: { status?: number; cause?: unknown })
}

export declare function isClientError(error: unknown): error is ClientError

/** The value of an `authorization` header. */
export declare function basicAuthorization(password: string, username?: string): string

/** A stream that was lost and stands again. Live events in between were missed; durable ones were not. */
export interface Reconnected {
  /** How many times it was tried, this one included. */
  readonly attempts: number
  /** The sequence after which it goes on; of a tree the cursor. */
  readonly after: number | string | undefined
  /** What broke the stream, or undefined when the server ended it. */
  readonly error: unknown
}

export interface FollowOptions<After = number> {
  /** The last sequence that was seen already; of a tree the cursor. */
  readonly after?: After | undefined
  /** How many failures in a row are borne; 8 unless given. `Infinity` never gives up. */
  readonly attempts?: number | undefined
  /** Milliseconds without an event or a heartbeat after which the connection counts as lost; 45,000 unless given. */
  readonly silence?: number | undefined
  readonly signal?: Signal | undefined
  readonly onReconnect?: ((reconnected: Reconnected) => void) | undefined
  readonly onHeartbeat?: (() => void) | undefined
}

/**
 * A stream that survives lost connections: reopened after the last sequence that was seen, with growing delays, and no
 * durable event twice. `open` is called with that sequence and with options to pass on to the operation.
 */
export declare function follow<E extends { readonly durable?: { readonly seq: number } | undefined }>(
  open: (after: number | undefined, options: CallOptions) => AsyncIterable<E>,
  options?: FollowOptions,
): AsyncGenerator<E, void, undefined>

/**
 * The same for the stream of a tree, reopened after the last cursor. Durable events of each Session come once and in
 * order; `session.tree.connected` comes with each connection.
 */
export declare function followTree<
  E extends {
    readonly durable?: { readonly aggregateID: string; readonly seq: number } | undefined
    readonly cursor?: string | undefined
  },
>(
  open: (after: string | undefined, options: CallOptions) => AsyncIterable<E>,
  options?: FollowOptions<string>,
): AsyncGenerator<E, void, undefined>

export interface Operation {
  readonly method: string
  readonly path: string
  readonly shape: "bare" | "data" | "location" | "page" | "history" | "void" | "stream" | "raw" | "socket"
  readonly errors: readonly number[]
  readonly headers?: Record<string, string>
  readonly query?: readonly string[]
  readonly payload?: readonly string[]
  readonly input?: false
}

/** What the generated client is made with. */
export declare function caller(options: ClientOptions): (operation: Operation) => (...given: any[]) => any
export declare function connector(options: ClientOptions): (operation: Operation) => (...given: any[]) => any
