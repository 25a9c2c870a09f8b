// What every operation does: build the request, send it, turn the answer into a value or an error. No dependencies.

const JSON_TYPE = "application/json"
const STREAM_TYPE = "text/event-stream"
const FRAME_LIMIT = 64 * 1024 * 1024
const FIRST_DELAY = 250
const LONGEST_DELAY = 8000
const PASSING = [502, 503, 504]

/** A failure of the way there or back; `reason` says which. Compare `_tag`, not the class. */
export class ClientError extends Error {
  constructor(reason, message, { status, cause } = {}) {
    super(message, { cause })
    this._tag = "ClientError"
    this.reason = reason
    this.status = status
  }
}

export const isClientError = (error) => error?._tag === "ClientError"

/** The value of an `authorization` header. */
export function basicAuthorization(password, username = "opencode") {
  const bytes = new TextEncoder().encode(`${username}:${password}`)
  return `Basic ${btoa(String.fromCharCode(...bytes))}`
}

/** A function that makes operations: nothing is sent until one is called, or its stream is read. */
export function caller({ baseUrl, fetch = globalThis.fetch, headers = {} }) {
  const root = baseUrl.replace(/\/+$/, "")
  return (operation) => {
    const start = (input, options) => exchange({ root, fetch, headers, operation, input, options })
    const run = operation.shape === "stream" ? lazily : value
    return operation.input === false
      ? (options) => run(operation, () => start({}, options))
      : (input, options) => run(operation, () => start(input ?? {}, options))
  }
}

/**
 * A stream of durable events that survives lost connections: reopened after the last sequence that was seen, with
 * bounded delays, and no event twice. `open` is called with that sequence.
 */
export async function* follow(open, { after, attempts = 8, signal } = {}) {
  let last = after
  let failures = 0
  for (;;) {
    let failure
    try {
      for await (const event of open(last)) {
        const sequence = event.durable?.seq
        if (sequence === undefined || (last !== undefined && sequence <= last)) continue
        last = sequence
        failures = 0
        yield event
      }
    } catch (error) {
      if (signal?.aborted || !passing(error)) throw error
      failure = error
    }
    if (signal?.aborted) return
    failures += 1
    if (failures > attempts) throw failure ?? new ClientError("Transport", "the stream ends again and again")
    await pause(Math.min(FIRST_DELAY * 2 ** (failures - 1), LONGEST_DELAY), signal)
  }
}

function passing(error) {
  return (isClientError(error) && error.reason === "Transport") || PASSING.includes(error?.status)
}

function pause(milliseconds, signal) {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer)
      signal?.removeEventListener("abort", done)
      resolve()
    }
    const timer = setTimeout(done, milliseconds)
    signal?.addEventListener("abort", done)
  })
}

async function exchange({ root, fetch, headers, operation, input, options = {} }) {
  const url = root + target(operation, input)
  const closing = new AbortController()
  const abort = () => closing.abort(options.signal.reason)
  if (options.signal?.aborted) abort()
  else options.signal?.addEventListener("abort", abort, { once: true })
  const expired = () => closing.abort(new ClientError("Transport", `no answer within ${options.timeout} ms`))
  const timer = options.timeout === undefined ? undefined : setTimeout(expired, options.timeout)
  const close = () => {
    clearTimeout(timer)
    options.signal?.removeEventListener("abort", abort)
    closing.abort()
  }
  try {
    const response = await fetch(url, {
      method: operation.method,
      headers: merged(operation, headers, options.headers),
      body: operation.payload && JSON.stringify(pick(input, operation.payload)),
      signal: closing.signal,
    })
    if (operation.shape === "stream") clearTimeout(timer)
    const kind = (response.headers.get("content-type") ?? "").split(";")[0].trim()
    return { response, close, kind, told: (error) => Promise.reject(transport(error, options.signal)) }
  } catch (error) {
    close()
    throw transport(error, options.signal)
  }
}

async function value(operation, start) {
  const { response, close, kind, told } = await start()
  try {
    const text = response.status === 204 ? "" : await response.text().catch(told)
    if (response.status !== 200 && response.status !== 204) throw failure(operation, response.status, kind, text)
    return operation.shape === "void" ? undefined : unwrapped(operation.shape, kind, text)
  } finally {
    close()
  }
}

function unwrapped(shape, kind, text) {
  if (kind !== JSON_TYPE) throw new ClientError("UnsupportedContentType", `expected JSON, got ${kind || "nothing"}`)
  const body = parsed(text)
  if (shape === "data") return body.data
  if (shape === "page") return { items: body.data, previous: body.cursor.previous, next: body.cursor.next }
  if (shape === "history") return { events: body.data, hasMore: body.hasMore }
  return body
}

/** Nothing is sent before the first element is asked for, each iteration is a request of its own, leaving closes it. */
function lazily(operation, start) {
  return { [Symbol.asyncIterator]: () => elements(operation, start) }
}

async function* elements(operation, start) {
  const { response, close, kind, told } = await start()
  let reader
  try {
    if (response.status !== 200) throw failure(operation, response.status, kind, await response.text().catch(told))
    if (kind !== STREAM_TYPE) throw new ClientError("UnsupportedContentType", `expected a stream, got ${kind}`)
    reader = response.body.getReader()
    const decoder = new TextDecoder("utf-8", { fatal: true })
    const frames = new Frames()
    for (;;) {
      const { done, value } = await reader.read().catch(told)
      const text = decoded(decoder, value, done)
      for (const frame of done ? frames.finish(text) : frames.feed(text)) yield parsed(frame)
      if (done) return
    }
  } finally {
    reader?.cancel().catch(() => {})
    close()
  }
}

/** Server-sent events from text: any chunking gives the same frames, at a cost linear in what is fed. */
class Frames {
  parts = []
  size = 0
  heldReturn = false

  feed(chunk) {
    const text = this.normalised(chunk)
    const across = this.parts.at(-1)?.endsWith("\n") && text.startsWith("\n")
    if (!across && !text.includes("\n\n")) {
      this.hold(text)
      return []
    }
    const whole = this.parts.join("") + text
    const end = whole.lastIndexOf("\n\n")
    this.parts = []
    this.size = 0
    this.hold(whole.slice(end + 2))
    return split(whole.slice(0, end))
  }

  finish(text) {
    return split(this.parts.join("") + this.normalised(text))
  }

  normalised(chunk) {
    let text = this.heldReturn ? `\r${chunk}` : chunk
    this.heldReturn = text.endsWith("\r")
    if (this.heldReturn) text = text.slice(0, -1)
    return text.replace(/\r\n?/g, "\n")
  }

  hold(text) {
    if (!text) return
    this.parts.push(text)
    this.size += text.length
    if (this.size > FRAME_LIMIT) throw new ClientError("MalformedResponse", `a frame is larger than ${FRAME_LIMIT}`)
  }
}

function split(block) {
  const frames = block.split("\n\n").map((frame) =>
    frame
      .split("\n")
      .filter((line) => line.startsWith("data:"))
      .map((line) => line.slice(line[5] === " " ? 6 : 5))
      .join("\n"),
  )
  return frames.filter((data) => data)
}

function decoded(decoder, value, done) {
  try {
    return decoder.decode(value, { stream: !done })
  } catch (cause) {
    throw new ClientError("MalformedResponse", "the stream is no UTF-8", { cause })
  }
}

function parsed(text) {
  try {
    return JSON.parse(text)
  } catch (cause) {
    throw new ClientError("MalformedResponse", "the answer is no JSON", { cause })
  }
}

/** A declared failure is the server's own body as an error, told apart by its tag. */
function failure(operation, status, kind, text) {
  const message = `the server answered ${status}: ${text.slice(0, 200)}`
  if (!operation.errors.includes(status)) return new ClientError("UnexpectedStatus", message, { status })
  if (kind !== JSON_TYPE) return new ClientError("UnsupportedContentType", message, { status })
  let body
  try {
    body = JSON.parse(text)
  } catch (cause) {
    return new ClientError("MalformedResponse", message, { status, cause })
  }
  if (typeof (body?._tag ?? body?.name) !== "string") return new ClientError("MalformedResponse", message, { status })
  return Object.assign(new Error(body.message ?? body.data?.message), body, { status })
}

function transport(error, signal) {
  // What the caller aborted, the caller gets back.
  if (isClientError(error) || signal?.aborted) return error
  return new ClientError("Transport", `cannot reach the server: ${error?.message}`, { cause: error })
}

function merged(operation, defaults, own) {
  const headers = new Headers(defaults)
  new Headers(own).forEach((value, name) => headers.set(name, value))
  if (!headers.has("accept")) headers.set("accept", operation.shape === "stream" ? STREAM_TYPE : JSON_TYPE)
  if (operation.payload && !headers.has("content-type")) headers.set("content-type", JSON_TYPE)
  return headers
}

function target(operation, input) {
  const path = operation.path.replace(/\{(\w+)\}/g, (_, name) => segment(name, input[name]))
  const query = new URLSearchParams()
  for (const name of operation.query ?? []) append(query, name, input[name])
  return query.size ? `${path}?${query}` : path
}

/** What the way there would take out of a path, which then names another operation, is refused. */
function segment(name, value) {
  if ([undefined, null, "", ".", ".."].includes(value)) throw new TypeError(`${name} cannot be ${JSON.stringify(value)}`)
  return encodeURIComponent(value)
}

function append(query, key, value) {
  if (value === undefined || value === null) return
  if (Array.isArray(value)) for (const item of value) append(query, key, item)
  else if (typeof value === "object") for (const [child, item] of Object.entries(value)) append(query, `${key}[${child}]`, item)
  else query.append(key, String(value))
}

function pick(input, names) {
  return Object.fromEntries(names.filter((name) => input[name] !== undefined).map((name) => [name, input[name]]))
}
