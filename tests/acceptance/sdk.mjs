// Drives a server with the official SDK: one JSON line per check, the first mismatch ends the run.
// Usage: node sdk.mjs <base url> <project directory> <script file>, with @opencode-ai/sdk beside it in node_modules.
// The server's demo/scripted model plays the turns that are in the script file.
import assert from "node:assert/strict"
import { writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { createOpencodeClient } from "@opencode-ai/sdk/v2/client"

const [baseUrl, directory, script] = process.argv.slice(2)
let last = {}

async function recorded(request) {
  const body = request.body ? await request.clone().text() : undefined
  last = { method: request.method, url: request.url, headers: Object.fromEntries(request.headers), body }
  const response = await fetch(request)
  last.status = response.status
  return response
}

const sdk = createOpencodeClient({ baseUrl, fetch: recorded }).v2
const bound = createOpencodeClient({ baseUrl, directory, fetch: recorded }).v2

async function check(name, work) {
  try {
    console.log(JSON.stringify({ check: name, ok: true, ...(await work()) }))
  } catch (error) {
    console.log(JSON.stringify({ check: name, ok: false, error: String(error?.message ?? error), exchange: last }))
    process.exit(1)
  }
}

function success(result) {
  assert.equal(result.error, undefined, JSON.stringify(result.error))
  return result.data
}

// The SDK's own iterator leaves the connection open when it is left, so the signal has to close it.
async function collect(open, enough, seen = () => {}) {
  const ending = new AbortController()
  const signal = AbortSignal.any([ending.signal, AbortSignal.timeout(20000)])
  const events = []
  for await (const event of (await open({ sseMaxRetryAttempts: 1, signal })).stream) {
    events.push(event)
    seen(event)
    if (enough(events)) break
  }
  ending.abort()
  return events
}

const count = (events, type) => events.filter((event) => event.type === type).length
const STEP_ENDED = "session.next.step.ended"
const unknown = { sessionID: "ses_unknown" }
let session, prompted, events

await check("health", async () => {
  assert.deepEqual(success(await sdk.health.get()), { healthy: true })
})

await check("location", async () => {
  const here = success(await bound.location.get())
  assert.equal(here.directory, directory)
  assert.deepEqual(here.project, { id: "global", directory: "/" })
})

await check("create without arguments", async () => {
  const created = success(await sdk.session.create()).data
  assert.match(created.id, /^ses_[0-9a-f]{12}[0-9A-Za-z]{14}$/)
  assert.equal(success(await sdk.session.create({})).data.location.directory, created.location.directory)
})

await check("create with arguments", async () => {
  const model = { id: "echo", providerID: "demo" }
  session = success(await sdk.session.create({ id: "ses_sdk", agent: "build", model, location: { directory } })).data
  assert.equal(session.id, "ses_sdk")
  assert.equal(session.agent, "build")
  assert.deepEqual(session.model, { ...model, variant: "default" })
  assert.deepEqual(session.location, { directory })
  assert.deepEqual(success(await sdk.session.create({ id: "ses_sdk", agent: "other" })).data, session)
})

await check("get", async () => {
  assert.deepEqual(success(await sdk.session.get({ sessionID: session.id })).data, session)
  assert.deepEqual(success(await bound.session.get({ sessionID: session.id })).data, session)
})

await check("list", async () => {
  const ids = []
  let cursor
  for (;;) {
    const page = success(await sdk.session.list(cursor ? { cursor } : { limit: 2 }))
    if (!page.data.length) {
      assert.deepEqual(page.cursor, { previous: null, next: null })
      break
    }
    assert.ok(page.data.length <= 2)
    ids.push(...page.data.map((item) => item.id))
    cursor = page.cursor.next
  }
  assert.equal(new Set(ids).size, ids.length)
  assert.equal(ids[0], session.id)
  const filtered = success(await bound.session.list({ limit: 10 })).data
  assert.ok(filtered.every((item) => item.location.directory === directory))
  return { listed: ids.length, here: filtered.length }
})

await check("prompt", async () => {
  const twice = (seen) => count(seen, STEP_ENDED) === 2
  let live
  await new Promise((connected) => {
    live = collect((options) => sdk.event.subscribe(options), twice, connected)
  })
  const durable = collect((options) => sdk.session.events({ sessionID: session.id }, options), twice)
  const prompt = { text: "What does hello.txt say?" }
  prompted = success(await sdk.session.prompt({ sessionID: session.id, id: "msg_sdk", prompt })).data
  assert.deepEqual(
    { ...prompted, timeCreated: 0 },
    { admittedSeq: 1, id: "msg_sdk", sessionID: session.id, prompt, delivery: "steer", timeCreated: 0 },
  )
  events = await durable
  const announced = await live
  assert.equal(announced[0].type, "server.connected")
  assert.ok(count(announced, "session.next.text.delta") + count(announced, "session.next.text.ended") > 0)
  // Private events take a sequence too, so there are gaps, but never a step back.
  const sequences = events.map((event) => event.durable.seq)
  assert.deepEqual(sequences, [...new Set(sequences)].sort((a, b) => a - b))
  assert.equal(events.filter((event) => event.type.endsWith(".delta")).length, 0)
  return { types: events.map((event) => event.type) }
})

await check("wait", async () => {
  assert.equal((await sdk.session.wait({ sessionID: session.id })).response.status, 204)
  assert.deepEqual(success(await sdk.session.active()).data, {})
})

await check("messages", async () => {
  const newest = success(await sdk.session.messages({ sessionID: session.id, limit: 1 }))
  const answer = newest.data[0]
  assert.equal(answer.type, "assistant")
  assert.equal(answer.finish, "stop")
  assert.match(answer.content[0].text, /^The file begins: /)
  const older = success(await sdk.session.messages({ sessionID: session.id, cursor: newest.cursor.next }))
  assert.equal(older.data.length, 1)
  const context = success(await sdk.session.context({ sessionID: session.id })).data
  assert.deepEqual(context.map((message) => message.type), ["user", "assistant", "assistant"])
  assert.deepEqual(context.slice(1).reverse(), [answer, ...older.data])
  const tool = context[1].content.find((part) => part.type === "tool")
  assert.equal(tool.name, "read")
  assert.equal(tool.state.status, "completed")
})

await check("message", async () => {
  const message = success(await sdk.session.message({ sessionID: session.id, messageID: prompted.id })).data
  assert.equal(message.type, "user")
  assert.equal(message.text, "What does hello.txt say?")
})

await check("history", async () => {
  const page = success(await sdk.session.history({ sessionID: session.id, after: 2, limit: 3 }))
  assert.deepEqual(page.data, events.slice(2, 5))
  assert.equal(page.hasMore, true)
})

await check("resume", async () => {
  const after = events.at(-3).durable.seq
  const rest = await collect(
    (options) => sdk.session.events({ sessionID: session.id, after }, options),
    (seen) => seen.length === 2,
  )
  assert.deepEqual(rest, events.slice(-2))
})

await check("switch", async () => {
  const sessionID = success(await sdk.session.create({ location: { directory } })).data.id
  const model = { id: "echo", providerID: "demo" }
  assert.equal((await sdk.session.switchAgent({ sessionID, agent: "plan" })).response.status, 204)
  assert.equal((await sdk.session.switchModel({ sessionID, model })).response.status, 204)
  assert.equal((await sdk.session.switchModel({ sessionID, model })).response.status, 204)
  const messages = success(await sdk.session.messages({ sessionID, order: "asc" })).data
  assert.deepEqual(messages.map((message) => message.type), ["agent-switched", "model-switched"])
  const now = success(await sdk.session.get({ sessionID })).data
  assert.deepEqual([now.agent, now.model.id], ["plan", "echo"])
})

// Starts a turn that does what the script says, and returns once an event of that type was seen.
async function started(turns, type) {
  writeFileSync(script, JSON.stringify(turns))
  const model = { id: "scripted", providerID: "demo" }
  const sessionID = success(await sdk.session.create({ model, location: { directory } })).data.id
  const ours = (seen) => seen.some((event) => event.type === type && event.data.sessionID === sessionID)
  let live
  await new Promise((connected) => {
    live = collect((options) => sdk.event.subscribe(options), ours, connected)
  })
  success(await sdk.session.prompt({ sessionID, prompt: { text: "go" } }))
  await live
  return sessionID
}

async function settled(sessionID) {
  success(await sdk.session.wait({ sessionID }))
  const context = success(await sdk.session.context({ sessionID })).data
  const parts = context.flatMap((message) => message.content ?? [])
  return { context, tool: parts.find((part) => part.type === "tool") }
}

const outside = join(dirname(directory), "outside.txt")
const reading = [{ calls: [{ tool: "read", input: { path: outside } }] }, { text: "done" }]

await check("permission allowed", async () => {
  const sessionID = await started(reading, "permission.v2.asked")
  const [request] = success(await sdk.session.permission.list({ sessionID })).data
  assert.equal(request.action, "external_directory")
  assert.deepEqual(success(await sdk.session.permission.get({ sessionID, requestID: request.id })).data, request)
  const pending = success(await bound.permission.request.list())
  assert.deepEqual([pending.location.directory, pending.data], [directory, [request]])
  assert.deepEqual(success(await sdk.session.active()).data, { [sessionID]: { type: "running" } })
  const answer = { sessionID, requestID: request.id, reply: "once" }
  assert.equal((await sdk.session.permission.reply(answer)).response.status, 204)
  const { tool, context } = await settled(sessionID)
  assert.equal(tool.state.status, "completed")
  assert.match(JSON.stringify(tool.state.content), /from outside/)
  assert.equal(context.at(-1).content[0].text, "done")
  return { again: (await sdk.session.permission.reply(answer)).error._tag }
})

await check("permission rejected", async () => {
  const sessionID = await started(reading, "permission.v2.asked")
  const [request] = success(await sdk.session.permission.list({ sessionID })).data
  await sdk.session.permission.reply({ sessionID, requestID: request.id, reply: "reject", message: "not that one" })
  const { tool } = await settled(sessionID)
  assert.equal(tool.state.status, "error")
  assert.doesNotMatch(JSON.stringify(tool), /from outside/)
})

const options = [
  { label: "Red", description: "Like a rose" },
  { label: "Blue", description: "Like the sea" },
]
const asking = [
  { calls: [{ tool: "question", input: { questions: [{ question: "Which?", header: "Colour", options }] } }] },
  { text: "painted" },
]

await check("question answered", async () => {
  const sessionID = await started(asking, "question.v2.asked")
  const [request] = success(await sdk.session.question.list({ sessionID })).data
  assert.equal(request.questions[0].question, "Which?")
  assert.deepEqual(success(await bound.question.request.list()).data, [request])
  const reply = { sessionID, requestID: request.id, questionV2Reply: { answers: [["Blue"]] } }
  assert.equal((await sdk.session.question.reply(reply)).response.status, 204)
  const { tool, context } = await settled(sessionID)
  assert.deepEqual(tool.state.structured, { answers: [["Blue"]] })
  assert.equal(context.at(-1).content[0].text, "painted")
})

await check("question dismissed", async () => {
  const sessionID = await started(asking, "question.v2.asked")
  const [request] = success(await sdk.session.question.list({ sessionID })).data
  assert.equal((await sdk.session.question.reject({ sessionID, requestID: request.id })).response.status, 204)
  const { tool } = await settled(sessionID)
  assert.equal(tool.state.status, "error")
  return { again: (await sdk.session.question.reject({ sessionID, requestID: request.id })).error._tag }
})

await check("interrupt", async () => {
  const sleeping = [{ calls: [{ tool: "bash", input: { command: "sleep 60" } }] }]
  const sessionID = await started(sleeping, "session.next.tool.called")
  assert.equal((await sdk.session.interrupt({ sessionID })).response.status, 204)
  assert.deepEqual(success(await sdk.session.active()).data, {})
  const { tool } = await settled(sessionID)
  assert.equal(tool.state.status, "error")
  assert.equal((await sdk.session.interrupt({ sessionID })).response.status, 204)
})

await check("catalogs", async () => {
  const lists = { agent: bound.agent, command: bound.command, skill: bound.skill, reference: bound.reference }
  for (const [name, group] of Object.entries({ ...lists, model: bound.model, provider: bound.provider })) {
    const found = success(await group.list())
    assert.equal(found.location.directory, directory, name)
    assert.ok(Array.isArray(found.data), name)
  }
  return { agents: success(await bound.agent.list()).data.map((agent) => agent.id) }
})

await check("files", async () => {
  const listed = success(await bound.fs.list({})).data
  assert.deepEqual(listed.find((entry) => entry.path === "hello.txt"), { path: "hello.txt", type: "file" })
  assert.deepEqual(success(await bound.fs.find({ query: "hello" })).data[0].path, "hello.txt")
})

await check("errors", async () => {
  const answers = [
    await sdk.session.get(unknown),
    await sdk.session.prompt({ ...unknown, prompt: { text: "hi" } }),
    await sdk.session.history(unknown),
    await sdk.session.message({ sessionID: session.id, messageID: "msg_unknown" }),
    await sdk.session.prompt({ sessionID: session.id, id: prompted.id, prompt: { text: "another" } }),
    await sdk.session.messages({ sessionID: session.id, cursor: "no cursor" }),
    await sdk.session.list({ limit: 0 }),
  ]
  return { tags: answers.map(({ error, response }) => `${response.status} ${error._tag}`) }
})
