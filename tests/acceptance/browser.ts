// The same client in a page: what the DOM library declares fits as it is. Compiled, never run.
import { createClient } from "./client.js"

const client = createClient({ baseUrl: "/", fetch: (url, init) => fetch(url, init), webSocket: WebSocket })
export const plain = createClient({ baseUrl: "/", fetch })

export async function watch(): Promise<void> {
  const leaving = new AbortController()
  for await (const event of client.events.subscribe({ signal: leaving.signal })) {
    if (event.type === "global.disposed") leaving.abort()
  }
}
