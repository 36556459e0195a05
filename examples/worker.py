"""Two workers for the sessions of a web handler that only writes down what is asked and does not wait.

The handler could be another process, and so could each worker: they share nothing but the store. `loopwright worker
--agent-module worker:make_loop` runs one on the command line.
"""

import asyncio
import contextlib
import tempfile

from loopwright import CancellationToken, LLMRequest, LLMResponse, StatefulAgentLoop

JOBS = ["count the sheep", "water the plants", "call the plumber"]


class Helper:  # stands in for a model; llm="openai:gpt-5-mini" would be a real one
    async def complete(self, request: LLMRequest) -> LLMResponse:
        return LLMResponse(text=f"I did it: {request.messages[-1].text}")


def make_loop() -> StatefulAgentLoop:
    return StatefulAgentLoop(llm=Helper(), dsn="jobs.db")


async def main() -> None:
    stop, answers = CancellationToken(), {}

    def heard(news) -> None:
        if news.what == "ended":
            answers[news.session_id] = news.result.final_text
        if len(answers) == len(JOBS):
            stop.cancel("everything is done")

    async with make_loop() as handler, make_loop() as one, make_loop() as two:
        working = [asyncio.create_task(loop.serve(stop=stop, on_session=heard)) for loop in (one, two)]
        for job in JOBS:  # durable when `enqueue` returns; a worker finds it
            sid = await handler.new_session(title=job)
            await handler.enqueue(job, session_id=sid, item_id="request-1")
        done = await asyncio.gather(*working)
    for text in sorted(answers.values()):
        print(text)
    print("runs:", sum(each.ended for each in done))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        asyncio.run(main())
