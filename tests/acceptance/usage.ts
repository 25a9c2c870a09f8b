// What a user writes. Compiled under the strictest options, without the DOM library; never run.
import {
  type CallOptions,
  type DurableEvent,
  type Event,
  type Fetch,
  type LiveEvent,
  type Signal,
  type WebSocketConstructor,
  basicAuthorization,
  createClient,
  follow,
  followTree,
  isClientError,
  isSessionNotFoundError,
} from "./client.js"

declare const fetch: Fetch
declare const WebSocket: WebSocketConstructor
declare const signal: Signal
declare function show(text: string): void

const client = createClient({
  baseUrl: "http://127.0.0.1:4096",
  headers: { authorization: basicAuthorization("secret") },
  fetch,
  webSocket: WebSocket,
})

export async function readme(): Promise<void> {
  const session = await client.sessions.create()
  await client.sessions.prompt({ sessionID: session.id, prompt: { text: "What is in README.md?" } })
  const events = follow((after, options) => client.sessions.events({ sessionID: session.id, after, live: true }, options), {
    onReconnect: ({ attempts, after }) => show(`connected again at the ${attempts}. try, after ${after ?? "nothing"}`),
  })
  for await (const event of events) {
    if (event.type === "session.next.text.delta") show(event.data.delta)
    if (event.type === "session.next.step.ended") break
  }
}

export async function tree(sessionID: string): Promise<string | undefined> {
  let cursor: string | undefined
  const events = followTree((after, options) => client.sessions.treeEvents({ sessionID, after }, options))
  for await (const event of events) {
    cursor = event.cursor ?? cursor
    if (event.type === "session.tree.connected") break
  }
  return cursor
}

export function told(event: Event): string {
  if (event.durable !== undefined) return position(event)
  return announced(event)
}

function position(event: DurableEvent): string {
  const seq: number = event.durable.seq
  switch (event.type) {
    case "session.next.prompted":
      return `${seq} ${event.data.prompt.text}`
    case "session.next.tool.called":
      return `${seq} ${event.data.tool}`
    case "session.next.step.failed":
      return event.data.error.message
    default:
      return `${seq} ${event.type}`
  }
}

function announced(event: LiveEvent): string {
  // @ts-expect-error a live event has no position
  const seq: number = event.durable.seq
  void seq
  return event.type === "session.status" ? event.data.status.type : event.type
}

export async function terminal(directory: string): Promise<number | undefined> {
  const location = { directory }
  const created = await client.ptys.create({ command: "/bin/sh", location })
  const token = await client.ptys.connectToken({ ptyID: created.data.id, location })
  const socket = await client.ptys.connect({ ptyID: created.data.id, location, ticket: token.data.ticket, cursor: -1 })
  socket.write("exit\n")
  for await (const output of socket) show(output)
  return socket.cursor
}

export async function file(path: string): Promise<number> {
  const bytes: Uint8Array = await client.files.read({ path })
  const document: Record<string, unknown> = await client.openapi.document()
  return bytes.byteLength + Object.keys(document).length
}

export async function failures(sessionID: string, limit: number | undefined): Promise<string> {
  const options: CallOptions = { signal, timeout: 1000, onHeartbeat: () => show("still there") }
  try {
    const page = await client.sessions.messages({ sessionID, limit }, options)
    const first = page.items[0]
    return first === undefined ? "none" : first.type
  } catch (error) {
    if (isSessionNotFoundError(error)) return error.sessionID
    if (isClientError(error)) return error.reason
    throw error
  }
}
