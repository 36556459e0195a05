"""A workflow whose process dies in the middle: another one goes on, and no finished step runs again."""

import asyncio

from loopwright import LLMRequest, LLMResponse, StatefulAgentLoop, tool
from loopwright import workflow as wf

ran: list[str] = []


class Writer:  # stands in for a model; llm="openai:gpt-5-mini" would be a real one
    async def complete(self, request: LLMRequest) -> LLMResponse:
        ran.append(request.messages[-1].text)
        return LLMResponse(text=f"About {request.messages[-1].text}: it is fine.", finish_reason="stop")


@tool(effect="idempotent")
async def publish(text: str) -> str:
    """Publishes a text."""
    return f"published {len(text)} characters"


WRITER = wf.AgentSpec(name="writer", system_prompt="You write one sentence.")
SPEC = wf.workflow(
    "report",
    wf.sequence(
        wf.foreach("parts", "part", "input", wf.agent("write", WRITER, input="{{part}}")),
        wf.wait("go", signal="go"),
        wf.tool("out", "publish", {"text": "{{parts.items.0}} {{parts.items.1}}"}),
    ),
)


def make_loop() -> StatefulAgentLoop:
    return StatefulAgentLoop(llm=Writer(), dsn="workflow.db", tools=[publish])


async def main() -> None:
    async with make_loop() as loop:
        run_id = await loop.workflows.start(SPEC, ["tea", "rain"])
        while (await loop.workflows.get(run_id)).status != "waiting":  # noqa: ASYNC110 - looking is enough here
            await asyncio.sleep(0.01)
    async with make_loop() as loop:  # any later process
        print([(step.path, step.status) for step in (await loop.workflows.get(run_id)).steps])
        await loop.signal(run_id, "go")
        result = await loop.workflows.wait(run_id)
        print(result.ok, result.final_text, "| the model was asked", len(ran), "times")


asyncio.run(main())
