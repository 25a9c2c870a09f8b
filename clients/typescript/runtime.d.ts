export interface ClientOptions {
  readonly baseUrl: string
  /** `globalThis.fetch` unless given. */
  readonly fetch?: (url: string, init: RequestInit) => Promise<Response>
  readonly headers?: Record<string, string>
}

/** Of one call, apart from what it asks for. */
export interface CallOptions {
  readonly signal?: AbortSignal
  /** These win over the client's. */
  readonly headers?: Record<string, string>
  /** Milliseconds for a whole answer; of a stream, until it is open. */
  readonly timeout?: number
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

export interface FollowOptions {
  /** The last sequence that was seen already. */
  readonly after?: number
  /** How many failures in a row are borne; 8 unless given. */
  readonly attempts?: number
  readonly signal?: AbortSignal
}

/**
 * A stream of durable events that survives lost connections: reopened after the last sequence that was seen, with
 * bounded delays, and no event twice. `open` is called with that sequence.
 */
export declare function follow<E extends { readonly durable?: { readonly seq: number } }>(
  open: (after: number | undefined) => AsyncIterable<E>,
  options?: FollowOptions,
): AsyncGenerator<E, void, undefined>

export interface Operation {
  readonly method: string
  readonly path: string
  readonly shape: "bare" | "data" | "location" | "page" | "history" | "void" | "stream"
  readonly errors: readonly number[]
  readonly query?: readonly string[]
  readonly payload?: readonly string[]
  readonly input?: false
}

/** What the generated client is made with. */
export declare function caller(options: ClientOptions): (operation: Operation) => (...given: any[]) => any
