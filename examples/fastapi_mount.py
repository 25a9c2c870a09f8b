"""Mount Holdfast into a FastAPI application.

    uvicorn --app-dir examples fastapi_mount:app

`GET /ask?question=...` is the application's own route and uses the host directly. `/agent` is the whole HTTP API, for
`holdfast.connect("http://127.0.0.1:8000/agent")`, the TypeScript client and OpenCode clients.
"""

from fastapi import FastAPI, HTTPException

from holdfast import ActivityFailed, Holdfast, asgi

hf = Holdfast()
agent = asgi(hf)  # `password=` asks every request for one, `hosts=` lists the names it answers to
app = FastAPI(lifespan=agent.lifespan)
app.mount("/agent", agent)


@app.get("/ask")
async def ask(question: str) -> dict[str, str]:
    try:
        answer = await hf.run(question, model="demo/echo")
    except ActivityFailed as error:
        raise HTTPException(status_code=502, detail=str(error)) from error
    return {"session": answer.session.id, "answer": answer.text}
