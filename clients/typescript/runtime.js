// What every operation does: build the request, send it, turn the answer into a value or an error. No dependencies.

const JSON_TYPE = "application/json"
const STREAM_TYPE = "text/event-stream"
const ACCEPTED = { stream: STREAM_TYPE, raw: "*/*" }
const FRAME_LIMIT = 64 * 1024 * 1024
const FIRST_DELAY = 250
const LONGEST_DELAY = 8000
const PASSING = [502, 503, 504]
const FINISHED = 1000
const EXITED = 4404
const UNREAD_LIMIT = 4 * 1024 * 1024

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
 * Opens terminals: asks for a ticket, since a page cannot send headers with a WebSocket, and connects with it. The
 * ticket's own address is that of the connection with `-token` behind it.
 */
export function connector(options) {
  const root = options.baseUrl.replace(/\/+$/, "")
  return (operation) => {
    const asking = {
      ...operation,
      method: "POST",
      path: `${operation.path}-token`,
      shape: "location",
      headers: { "x-opencode-ticket": "1" },
      query: ["location"],
    }
    const ticket = caller(options)(asking)
    return async (input, call = {}) => {
      const WebSocket = options.webSocket ?? globalThis.WebSocket
      if (!WebSocket) throw new ClientError("Transport", "there is no WebSocket here; give one as the option `webSocket`")
      checkKeys({ ...operation, query: [...(operation.query ?? []), "ticket"] }, input)
      const given = input.ticket ?? (await ticket(pick(input, keysOf(asking)), call)).data.ticket
      const url = new URL(root + target(operation, { ...input, ticket: given }), globalThis.location?.href)
      url.protocol = url.protocol === "https:" ? "wss:" : "ws:"
      return opened(new WebSocket(url.href), call)
    }
  }
}

/**
 * A stream that survives lost connections: reopened after the last sequence that was seen, with growing delays, and no
 * durable event twice. `open` is called with that sequence and with options to pass on to the operation.
 */
export function follow(open, options = {}) {
  return following(open, options, (event, last) => {
    const sequence = event.durable?.seq
    if (sequence === undefined) return { last, fresh: true }
    return last !== undefined && sequence <= last ? { last, fresh: false } : { last: sequence, fresh: true }
  })
}

/**
 * The same for the stream of a tree, reopened after the last cursor. What was sent after that cursor comes again, and
 * is recognised by the sequence of its Session.
 */
export function followTree(open, options = {}) {
  const reached = new Map()
  return following(open, options, (event, last) => {
    const { aggregateID, seq } = event.durable ?? {}
    const fresh = seq === undefined || !(seq <= reached.get(aggregateID))
    if (fresh && seq !== undefined) reached.set(aggregateID, seq)
    return { last: event.cursor ?? last, fresh }
  })
}

async function* following(open, { after, attempts = 8, silence = 45_000, signal, onReconnect, onHeartbeat }, advance) {
  let last = after
  let failures = 0
  let failure
  const options = {
    signal,
    silence,
    onOpen: () => {
      if (failures) onReconnect?.({ attempts: failures, after: last, error: failure })
    },
    onHeartbeat: () => {
      failures = 0
      onHeartbeat?.()
    },
  }
  for (;;) {
    try {
      for await (const event of open(last, options)) {
        const place = advance(event, last)
        last = place.last
        if (!place.fresh) continue
        failures = 0
        yield event
      }
      failure = undefined
    } catch (error) {
      if (signal?.aborted || !passing(error)) throw error
      failure = error
    }
    if (signal?.aborted) return
    failures += 1
    if (failures > attempts) throw failure ?? new ClientError("Transport", "the stream ends again and again")
    const span = Math.min(FIRST_DELAY * 2 ** (failures - 1), LONGEST_DELAY)
    await pause(span * (0.5 + Math.random() / 2), signal)
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
  checkKeys(operation, input)
  const url = root + target(operation, input)
  const closing = new AbortController()
  const abort = () => closing.abort(options.signal.reason)
  if (options.signal?.aborted) abort()
  else options.signal?.addEventListener("abort", abort, { once: true })
  const expired = () => closing.abort(new ClientError("Transport", `no answer within ${options.timeout} ms`))
  const timer = options.timeout === undefined ? undefined : setTimeout(expired, options.timeout)
  let watch
  const silent = () => closing.abort(new ClientError("Transport", `nothing was heard for ${options.silence} ms`))
  const heard = () => {
    clearTimeout(watch)
    if (options.silence !== undefined && operation.shape === "stream") watch = setTimeout(silent, options.silence)
  }
  const close = () => {
    clearTimeout(timer)
    clearTimeout(watch)
    options.signal?.removeEventListener("abort", abort)
    closing.abort()
  }
  try {
    const response = await fetch(url, {
      method: operation.method,
      headers: merged(operation, headers, options.headers),
      ...(operation.payload && { body: JSON.stringify(pick(input, operation.payload)) }),
      signal: closing.signal,
    })
    if (operation.shape === "stream") clearTimeout(timer)
    heard()
    const kind = (response.headers.get("content-type") ?? "").split(";")[0].trim()
    return { response, close, heard, kind, options, told: (error) => Promise.reject(transport(error, options.signal)) }
  } catch (error) {
    close()
    throw transport(error, options.signal)
  }
}

async function value(operation, start) {
  const { response, close, kind, told } = await start()
  try {
    if (operation.shape === "raw" && response.status === 200) {
      return new Uint8Array(await response.arrayBuffer().catch(told))
    }
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
  const { response, close, heard, kind, options, told } = await start()
  let reader
  try {
    if (response.status !== 200) throw failure(operation, response.status, kind, await response.text().catch(told))
    if (kind !== STREAM_TYPE) throw new ClientError("UnsupportedContentType", `expected a stream, got ${kind}`)
    reader = response.body.getReader()
    const decoder = new TextDecoder("utf-8", { fatal: true })
    const frames = new Frames()
    let heartbeats = 0
    options.onOpen?.()
    for (;;) {
      const { done, value } = await reader.read().catch(told)
      heard()
      const text = decoded(decoder, value, done)
      for (const frame of done ? frames.finish(text) : frames.feed(text)) yield parsed(frame)
      for (; heartbeats < frames.comments; heartbeats += 1) options.onHeartbeat?.()
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
  comments = 0

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
    return this.split(whole.slice(0, end))
  }

  split(block) {
    const frames = block.split("\n\n").map((frame) => {
      const data = frame
        .split("\n")
        .filter((line) => line.startsWith("data:"))
        .map((line) => line.slice(line[5] === " " ? 6 : 5))
        .join("\n")
      if (!data && frame.startsWith(":")) this.comments += 1
      return data
    })
    return frames.filter((data) => data)
  }

  finish(text) {
    return this.split(this.parts.join("") + this.normalised(text))
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

/** Wraps a WebSocket on a terminal, once it is open. What is not read is bounded, since a WebSocket cannot be slowed. */
function opened(socket, { signal } = {}) {
  const unread = []
  let size = 0
  let cursor
  let ending
  let wake = () => {}
  socket.binaryType = "arraybuffer"
  const end = (error) => {
    ending ??= { error }
    wake()
  }
  const leave = () => {
    end(signal.reason)
    socket.close()
  }
  const terminal = {
    get cursor() {
      return cursor
    },
    write: (text) => {
      if (ending) throw ending.error ?? new ClientError("Transport", "the connection to the terminal is closed")
      socket.send(text)
    },
    close: () => {
      signal?.removeEventListener("abort", leave)
      end()
      socket.close()
    },
    async *[Symbol.asyncIterator]() {
      try {
        for (;;) {
          while (unread.length) {
            const piece = unread.shift()
            if (typeof piece !== "string") {
              cursor = parsed(new TextDecoder().decode(new Uint8Array(piece, 1))).cursor
              continue
            }
            size -= piece.length
            if (cursor !== undefined) cursor += piece.length
            yield piece
          }
          if (ending?.error) throw ending.error
          if (ending) return
          await new Promise((resolve) => (wake = resolve))
        }
      } finally {
        terminal.close()
      }
    },
  }
  socket.addEventListener("message", ({ data }) => {
    if (ending) return
    unread.push(data)
    if (typeof data === "string") size += data.length
    if (size > UNREAD_LIMIT) {
      end(new ClientError("Transport", "the output of the terminal was not read; connect again from the cursor"))
      socket.close()
    }
    wake()
  })
  socket.addEventListener("close", ({ code, reason }) => {
    const finished = code === FINISHED || (code === EXITED && reason === "session exited")
    end(finished ? undefined : new ClientError("Transport", `the terminal's connection was closed: ${code} ${reason}`))
  })
  return new Promise((resolve, reject) => {
    if (signal?.aborted) leave()
    else signal?.addEventListener("abort", leave, { once: true })
    socket.addEventListener("open", () => resolve(terminal))
    const failed = () => reject(ending?.error ?? new ClientError("Transport", "cannot connect to the terminal"))
    socket.addEventListener("error", failed)
    socket.addEventListener("close", failed)
  })
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
  // A proxy in front of the server has words of its own for an outage.
  if (status === 503 && !tagged(kind, text)) return Object.assign(new Error(message), { _tag: "ServiceUnavailableError", status })
  if (status !== 503 && !operation.errors.includes(status)) return new ClientError("UnexpectedStatus", message, { status })
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

function tagged(kind, text) {
  try {
    return kind === JSON_TYPE && typeof JSON.parse(text)?._tag === "string"
  } catch {
    return false
  }
}

function transport(error, signal) {
  // What the caller aborted, the caller gets back.
  if (isClientError(error) || signal?.aborted) return error
  return new ClientError("Transport", `cannot reach the server: ${error?.message}`, { cause: error })
}

function merged(operation, defaults, own) {
  const headers = { accept: ACCEPTED[operation.shape] ?? JSON_TYPE, ...operation.headers }
  if (operation.payload) headers["content-type"] = JSON_TYPE
  for (const given of [defaults, own ?? {}]) {
    for (const [name, value] of Object.entries(given)) headers[name.toLowerCase()] = value
  }
  return headers
}

function target(operation, input) {
  const path = operation.path
    .replace(/\{(\w+)\}/g, (_, name) => segment(name, input[name]))
    .replace(/\*$/, () => String(input.path ?? "").split("/").map((part) => segment("path", part)).join("/"))
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

/** A key that means nothing would be lost in silence, and with it what the caller wanted. */
function checkKeys(operation, input) {
  const known = keysOf(operation)
  const unknown = Object.keys(input).find((key) => input[key] !== undefined && !known.includes(key))
  if (unknown === undefined) return
  const takes = known.length ? `it takes ${known.join(", ")}` : "it takes nothing"
  throw new TypeError(`${operation.method} ${operation.path} has no ${JSON.stringify(unknown)}: ${takes}`)
}

function keysOf({ path, query = [], payload = [] }) {
  const inPath = [...path.matchAll(/\{(\w+)\}/g)].map((match) => match[1])
  return [...inPath, ...(path.endsWith("*") ? ["path"] : []), ...query, ...payload]
}

function pick(input, names) {
  return Object.fromEntries(names.filter((name) => input[name] !== undefined).map((name) => [name, input[name]]))
}
