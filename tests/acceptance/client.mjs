// Drives a server with Holdfast's own client for web pages, then the client alone with prepared answers.
// Usage: node client.mjs <client module> <base url> <project directory> <script file>
import assert from "node:assert/strict"
import { writeFileSync } from "node:fs"
import { dirname, join } from "node:path"

const [module, baseUrl, directory, script] = process.argv.slice(2)
const { createClient, follow, followTree, basicAuthorization, ClientError, isClientError, ...guards } = await import(module)
const client = createClient({ baseUrl })

async function check(name, work) {
  try {
    console.log(JSON.stringify({ check: name, ok: true, ...(await work()) }))
  } catch (error) {
    console.log(JSON.stringify({ check: name, ok: false, error: String(error?.stack ?? error) }))
    process.exit(1)
  }
}

const caught = (promise) => promise.then(() => assert.fail("no error"), (error) => error)

await check("create and list", async () => {
  assert.deepEqual(await client.health.get(), { healthy: true })
  assert.equal((await client.location.get({ location: { directory } })).directory, directory)
  const made = []
  for (let number = 0; number < 3; number += 1) made.unshift((await client.sessions.create()).id)
  const first = await client.sessions.list({ limit: 2 })
  const second = await client.sessions.list({ cursor: first.next })
  assert.deepEqual([...first.items, ...second.items].map((item) => item.id), made)
  const end = await client.sessions.list({ cursor: second.next })
  assert.deepEqual(end, { items: [], previous: null, next: null })
})

let session
await check("prompt and follow", async () => {
  const model = { id: "echo", providerID: "demo" }
  const strange = await caught(client.sessions.get({ sessionID: "ses_a/b c" }))
  assert.deepEqual([strange.status, strange.sessionID], [404, "ses_a/b c"])
  session = await client.sessions.create({ id: "ses_chosen-1", model, location: { directory } })
  assert.equal((await client.sessions.get({ sessionID: session.id })).id, session.id)
  const admitted = await client.sessions.prompt({ sessionID: session.id, prompt: { text: "What does hello.txt say?" } })
  const types = []
  for await (const event of follow((after) => client.sessions.events({ sessionID: session.id, after }))) {
    types.push(event.type)
    if (types.filter((type) => type === "session.next.step.ended").length === 2) break
  }
  assert.equal(await client.sessions.wait({ sessionID: session.id }), undefined)
  const page = await client.sessions.messages({ sessionID: session.id, order: "asc" })
  assert.deepEqual(page.items.map((message) => message.type), ["user", "assistant", "assistant"])
  assert.equal(page.items[0].id, admitted.id)
  const history = await client.sessions.history({ sessionID: session.id, limit: 2 })
  assert.deepEqual([history.events.length, history.hasMore], [2, true])
  return { types }
})

await check("a file and the document", async () => {
  const bytes = await client.files.read({ path: "hello.txt", location: { directory } })
  assert.ok(bytes instanceof Uint8Array)
  assert.equal(new TextDecoder().decode(bytes), "hello world\n")
  assert.ok(guards.isNotFoundError(await caught(client.files.read({ path: "no/such file", location: { directory } }))))
  for (const path of ["", "../x", "a//b", "/a"]) assert.ok((await caught(client.files.read({ path }))) instanceof TypeError)
  const document = await client.openapi.document()
  assert.equal(document.openapi, "3.1.0")
})

await check("a terminal", async () => {
  const location = { directory }
  const { data } = await client.ptys.create({ command: "/bin/sh", args: ["-c", "echo ready; read x; echo got $x"], location })
  const socket = await client.ptys.connect({ ptyID: data.id, location })
  let output = ""
  for await (const piece of socket) {
    output += piece
    if (piece.includes("ready")) socket.write("typed\n")
  }
  assert.match(output, /got typed/)
  assert.equal(socket.cursor, output.length)
  const again = await client.ptys.connect({ ptyID: data.id, location, cursor: socket.cursor - 7 })
  let rest = ""
  for await (const piece of again) rest += piece
  assert.equal(rest, output.slice(-7))
  const gone = await caught(client.ptys.connect({ ptyID: "pty_unknown", location }))
  assert.ok(guards.isPtyNotFoundError(gone))
  const refused = await caught(client.ptys.connect({ ptyID: data.id, location, ticket: "wrong" }))
  assert.equal(refused.reason, "Transport")
})

await check("live stream and permission", async () => {
  const path = join(dirname(directory), "outside.txt")
  writeFileSync(script, JSON.stringify([{ calls: [{ tool: "read", input: { path } }] }, { text: "done" }]))
  const model = { id: "scripted", providerID: "demo" }
  const sessionID = (await client.sessions.create({ model, location: { directory } })).id
  for await (const event of client.events.subscribe()) {
    if (event.type === "server.connected") await client.sessions.prompt({ sessionID, prompt: { text: "go" } })
    if (event.type !== "permission.v2.asked") continue
    const [request] = await client.permissions.list({ sessionID })
    assert.equal(request.id, event.data.id)
    await client.permissions.reply({ sessionID, requestID: request.id, reply: "once" })
    break
  }
  await client.sessions.wait({ sessionID })
  const context = await client.sessions.context({ sessionID })
  assert.equal(context.at(-1).content[0].text, "done")
  const agents = await client.agents.list({ location: { directory } })
  assert.equal(agents.location.directory, directory)
})

await check("declared failures", async () => {
  const unknown = await caught(client.sessions.get({ sessionID: "ses_unknown" }))
  assert.ok(unknown instanceof Error)
  assert.ok(guards.isSessionNotFoundError(unknown) && !guards.isConflictError(unknown) && !isClientError(unknown))
  assert.deepEqual([unknown.sessionID, unknown.status], ["ses_unknown", 404])
  assert.ok(guards.isInvalidRequestError(await caught(client.sessions.list({ limit: 0 }))))
  const lost = await caught(client.sessions.create({ directory: "/tmp" }))
  assert.ok(lost instanceof TypeError && lost.message.includes('"directory"') && lost.message.includes("location"))
  const events = client.sessions.events({ sessionID: "ses_unknown" })[Symbol.asyncIterator]()
  assert.ok(guards.isSessionNotFoundError(await caught(events.next())))
})

await check("timeout and abort", async () => {
  const stream = client.sessions.events({ sessionID: session.id, after: 1000 }, { signal: AbortSignal.timeout(50) })
  const aborted = await caught(stream[Symbol.asyncIterator]().next())
  assert.equal(isClientError(aborted), false)
  const refused = await caught(createClient({ baseUrl: "http://127.0.0.1:1" }).health.get())
  assert.deepEqual([refused._tag, refused.reason], ["ClientError", "Transport"])
  const hanging = (url, { signal }) => new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)))
  const late = await caught(createClient({ baseUrl, fetch: hanging }).health.get({ timeout: 10 }))
  assert.equal(late.reason, "Transport")
})

// From here on the answers are prepared.
const bytes = new TextEncoder()
const requests = []
function playing(...answers) {
  requests.length = 0
  const fetch = async (url, init) => {
    requests.push({ url, ...init })
    const answer = answers.shift()
    if (answer instanceof Error) throw answer
    return answer
  }
  return createClient({ baseUrl: "http://server/", fetch, headers: { "x-mine": "client", authorization: basicAuthorization("pä") } })
}
const json = (body, status = 200) => new Response(body, { status, headers: { "content-type": "application/json" } })
function sse(pieces, broken) {
  const body = new ReadableStream({
    pull(controller) {
      const piece = pieces.shift()
      if (piece !== undefined) controller.enqueue(typeof piece === "string" ? bytes.encode(piece) : piece)
      else if (broken) controller.error(new TypeError("reset"))
      else controller.close()
    },
  })
  return new Response(body, { headers: { "content-type": "text/event-stream; charset=utf-8" } })
}
const frame = (seq) => `data: {"id":"evt_${seq}","type":"x","durable":{"seq":${seq}},"data":{"text":"ü"}}\n\n`
const read = async (stream) => {
  const seen = []
  for await (const event of stream) seen.push(event.durable.seq)
  return seen
}

await check("requests", async () => {
  const playback = playing(json('{"data":{}}'), json('{"data":[],"cursor":{"previous":null,"next":null}}'), json("{}"))
  await playback.sessions.prompt({ sessionID: "a/b", prompt: { text: "x" } }, { headers: { "X-Mine": "call" } })
  await playback.sessions.list({ search: "a&b=c", limit: null })
  await playback.location.get({ location: { directory: "/x y" } })
  assert.deepEqual(requests.map((request) => [request.method, request.url, request.body]), [
    ["POST", "http://server/api/session/a%2Fb/prompt", '{"prompt":{"text":"x"}}'],
    ["GET", "http://server/api/session?search=a%26b%3Dc", undefined],
    ["GET", "http://server/api/location?location%5Bdirectory%5D=%2Fx+y", undefined],
  ])
  assert.deepEqual(
    requests.map(({ headers }) => [headers["x-mine"], headers["content-type"]]),
    [["call", "application/json"], ["client", undefined], ["client", undefined]],
  )
  for (const messageID of ["", ".", "..", undefined]) {
    const error = await caught(playback.sessions.withdraw({ sessionID: "ses_1", messageID }))
    assert.ok(error instanceof TypeError, "a path that loses a segment names another operation")
  }
  assert.equal(requests.length, 3)
  assert.equal(requests[0].headers.authorization, `Basic ${Buffer.from("opencode:pä").toString("base64")}`)
})

await check("other failures", async () => {
  const reasons = []
  const answers = [
    json("{}", 418),
    new Response("<html>", { headers: { "content-type": "text/html" } }),
    json(""),
    json("{", 404),
    json("{}", 404),
    new Response("<html>", { status: 404, headers: { "content-type": "text/html" } }),
    new TypeError("fetch failed"),
  ]
  for (const answer of answers) {
    const error = await caught(playing(answer).sessions.get({ sessionID: "ses_1" }))
    assert.ok(error instanceof ClientError)
    reasons.push(error.reason)
  }
  const copy = json('{"name":"ProjectCopyError","data":{"message":"no"}}', 400)
  const failed = await caught(playing(copy).projectCopies.refresh({ projectID: "p" }))
  assert.ok(guards.isProjectCopyError(failed))
  assert.equal(failed.message, "no")
  return { reasons }
})

await check("trusts the shape", async () => {
  assert.deepEqual(await playing(json('{"data":{"id":5}}')).sessions.get({ sessionID: "ses_1" }), { id: 5 })
})

await check("streams", async () => {
  const text = `\uFEFF: comment\nevent: message\ndata\ndata:\n\n${[1, 2, 3].map(frame).join(": heartbeat\n\n")}`
  for (const end of ["\n", "\r\n", "\r"]) {
    const whole = bytes.encode(text.replaceAll("\n", end))
    for (const size of [1, 2, 7, 10000]) {
      const pieces = Array.from({ length: Math.ceil(whole.length / size) }, (_, n) => whole.slice(n * size, (n + 1) * size))
      assert.deepEqual(await read(playing(sse(pieces)).sessions.events({ sessionID: "ses_1" })), [1, 2, 3])
    }
  }
  const playback = playing(sse([frame(1)]), sse([frame(1), frame(2).trimEnd()]))
  const stream = playback.sessions.events({ sessionID: "ses_1" })
  assert.equal(requests.length, 0)
  assert.deepEqual([await read(stream), await read(stream)], [[1], [1, 2]])
  const bad = [sse(["data: {\n\n"]), sse([new Uint8Array([0x64, 0xff])]), json("{}"), sse([frame(1)], true)]
  const reasons = []
  for (const answer of bad) reasons.push((await caught(read(playing(answer).events.subscribe()))).reason)
  const large = bytes.encode(frame(1).replace("ü", "x".repeat(33 * 1024 * 1024)))
  const parts = Array.from({ length: Math.ceil(large.length / 65536) }, (_, n) => large.slice(n * 65536, (n + 1) * 65536))
  assert.deepEqual(await read(playing(sse(parts)).events.subscribe()), [1])
  let left
  const endless = new ReadableStream({ pull: (controller) => controller.enqueue(bytes.encode(frame(1))), cancel: () => (left = true) })
  const open = playing(new Response(endless, { headers: { "content-type": "text/event-stream" } }))
  for await (const _ of open.events.subscribe()) break
  assert.equal(requests[0].signal.aborted, true)
  return { reasons, left }
})

await check("live events of a session", async () => {
  const model = { id: "echo", providerID: "demo" }
  const sessionID = (await client.sessions.create({ model, location: { directory } })).id
  await client.sessions.prompt({ sessionID, prompt: { text: "one two three" } })
  const marked = []
  for await (const event of client.sessions.events({ sessionID, live: true })) {
    if (event.durable === undefined) marked.push(event.live)
    if (event.type === "session.next.step.ended") break
  }
  assert.ok(marked.every((mark) => mark === true))
})

await check("heartbeats and silence", async () => {
  let beats = 0
  const options = { onHeartbeat: () => (beats += 1), onOpen: () => (beats += 10) }
  const playback = playing(sse([": heartbeat\n\n", frame(1), ": heart", "beat\n\n: heartbeat\n\n"]))
  const seen = []
  for await (const event of playback.sessions.events({ sessionID: "s" }, options)) seen.push(event.durable.seq)
  assert.deepEqual([seen, beats], [[1], 13])
  const quiet = new ReadableStream({ start: (controller) => controller.enqueue(bytes.encode(frame(1))) })
  const silent = playing(new Response(quiet, { headers: { "content-type": "text/event-stream" } }))
  const stream = silent.sessions.events({ sessionID: "s" }, { silence: 30 })[Symbol.asyncIterator]()
  await stream.next()
  const left = requests[0].signal
  const cut = new Promise((resolve) => left.addEventListener("abort", () => resolve(left.reason)))
  void stream.next().catch(() => {})
  assert.equal((await cut).reason, "Transport")
})

await check("resume", async () => {
  const gone = json('{"_tag":"SessionNotFoundError","message":"gone"}', 404)
  const playback = playing(sse([frame(1), frame(2)], true), sse([frame(2), frame(3)]), new TypeError("reset"), gone)
  const seen = []
  const again = []
  const onReconnect = ({ attempts, after, error }) => again.push([attempts, after, error?.reason])
  const open = (after, options) => playback.sessions.events({ sessionID: "s", after }, options)
  const following = async () => {
    for await (const event of follow(open, { after: 0, onReconnect })) seen.push(event.durable.seq)
  }
  assert.ok(guards.isSessionNotFoundError(await caught(following())))
  assert.deepEqual(requests.map(({ url }) => url.split("?")[1]), ["after=0", "after=2", "after=3", "after=3"])
  assert.deepEqual(again, [[1, 2, "Transport"]])
  return { seen }
})

await check("resume a tree", async () => {
  const of = (aggregateID, seq, cursor) => {
    const event = { id: `evt_${aggregateID}${seq}`, type: "x", durable: { aggregateID, seq }, data: {}, ...(cursor && { cursor }) }
    return `data: ${JSON.stringify(event)}\n\n`
  }
  const connected = (cursor) => `data: {"id":"evt_c","type":"session.tree.connected","live":true,"cursor":"${cursor}","data":{}}\n\n`
  const gone = json('{"_tag":"SessionNotFoundError","message":"gone"}', 404)
  const playback = playing(
    sse([of("a", 0), of("a", 1)], true),
    sse([of("a", 0), of("a", 1), of("b", 0), connected(7), of("b", 1)], true),
    sse([of("b", 1), of("a", 2), connected(9), of("b", 2, "11")]),
    gone,
  )
  const seen = []
  const again = []
  const onReconnect = ({ attempts, after }) => again.push([attempts, after ?? null])
  const open = (after, options) => playback.sessions.treeEvents({ sessionID: "a", after }, options)
  const following = async () => {
    for await (const { durable } of followTree(open, { onReconnect })) if (durable) seen.push(durable.aggregateID + durable.seq)
  }
  assert.ok(guards.isSessionNotFoundError(await caught(following())))
  assert.deepEqual(requests.map(({ url }) => url.split("?")[1]), [undefined, undefined, "after=7", "after=11"])
  assert.deepEqual(again, [[1, null], [1, "7"]])
  return { seen }
})
