"""Mount Holdfast into a FastAPI application.

    uvicorn --app-dir examples fastapi_mount:app

`GET /ask?question=...` is the application's own route and uses the host directly. `/agent` is the whole HTTP API, for
`holdfast.connect("http://127.0.0.1:8000/agent")`, the TypeScript client and OpenCode clients.
"""

from fastapi import FastAPI, HTTPException

from holdfast import ActivityFailed, Holdfast, ModelRef, PromptInput, asgi, check_outcome
from holdfast.schema.session_message import AssistantMessage, TextPart

MODEL = ModelRef(provider_id="demo", id="echo")

hf = Holdfast()
agent = asgi(hf)  # `password=` asks every request for one, `hosts=` lists the names it answers to
app = FastAPI(lifespan=agent.lifespan)
app.mount("/agent", agent)


@app.get("/ask")
async def ask(question: str) -> dict[str, str]:
    session = await hf.sessions.create(model=MODEL)
    await hf.sessions.prompt(session.id, prompt=PromptInput(text=question))
    try:
        outcome = check_outcome(await hf.sessions.outcome(session.id))
    except ActivityFailed as error:
        raise HTTPException(status_code=502, detail=str(error)) from error
    assert outcome.message_id is not None
    answer = await hf.sessions.message(session.id, message_id=outcome.message_id)
    assert isinstance(answer, AssistantMessage)
    text = "".join(part.text for part in answer.content if isinstance(part, TextPart))
    return {"session": session.id, "answer": text}
