"""An agent that has itself woken: the process that set the timer is gone when it is due, and another one fires it."""

import asyncio

from loopwright import AgentLoopConfig, LLMRequest, LLMResponse, StatefulAgentLoop, ToolCall
from loopwright.tools.timers import current_time_tool, schedule_wakeup_tool

woken = asyncio.Event()


class Watcher:  # stands in for a model; llm="openai:gpt-5-mini" would be a real one
    async def complete(self, request: LLMRequest) -> LLMResponse:
        last = request.messages[-1]
        if "<timer" in last.text:
            woken.set()
            return LLMResponse(text="I look again: the build is green.")
        if getattr(last, "name", "") == "schedule_wakeup":
            return LLMResponse(text="I will look again.")
        call = ToolCall("c1", "schedule_wakeup", '{"note": "Look at the build.", "delay_seconds": 5}')
        return LLMResponse(tool_calls=(call,), finish_reason="tool_calls")


def make_loop(**settings: bool) -> StatefulAgentLoop:
    tools = [schedule_wakeup_tool(), current_time_tool()]
    return StatefulAgentLoop(llm=Watcher(), dsn="timers.db", tools=tools, config=AgentLoopConfig(**settings))


async def main() -> None:
    async with make_loop(serve_timers=False) as loop:  # a web handler that is gone before anything is due
        result = await loop.send("Tell me when the build is green.")
        [timer] = await loop.list_timers(result.session_id)
        print(result.final_text, "|", timer.note, "|", timer.recurring)
        # Five seconds are long for an example: the same id moves the timer.
        await loop.schedule_timer(result.session_id, note=timer.note, delay_s=0, timer_id=timer.id)
    async with make_loop() as loop:  # any later process
        loop.event_bus.subscribe(lambda event: print("timer:", event.data.outcome), "timer_fired")
        print("still armed:", len(await loop.list_timers(result.session_id)))
        await woken.wait()
    async with make_loop(serve_timers=False) as loop:
        print((await loop.get_messages(result.session_id))[-1].text)


asyncio.run(main())
