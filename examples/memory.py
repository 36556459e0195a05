"""Two sessions that know of each other: memory in the store, and what it may say is filtered by a hook."""

import asyncio

from loopwright import AgentEventType, AgentHooks, LLMRequest, LLMResponse, StatefulAgentLoop, open_store
from loopwright.context import StoreMemory
from loopwright.ports import MemorySnapshot
from loopwright.ports.hook import MemoryContext

hooks = AgentHooks()


@hooks.on("memory.recalled")
def without_secrets(context: MemoryContext) -> None:
    context.recalled = [text for text in context.recalled if "password" not in text]


def facts(snapshot: MemorySnapshot) -> list[str]:
    """What is kept of a send: here what the user said of themselves, word for word."""
    said = snapshot.messages[0].text  # type: ignore[union-attr]
    return [f"The user said: {said}"] if said.startswith("My ") else []


class Assistant:
    """Repeats what it finds behind the conversation."""

    async def complete(self, request: LLMRequest) -> LLMResponse:
        tail = [] if request.stable is None else request.messages[request.stable :]
        known = [line[2:] for message in tail for line in message.text.splitlines() if line.startswith("- ")]
        return LLMResponse(text=f"I know: {known}")

    async def aclose(self) -> None:
        pass


async def main() -> None:
    store = open_store("memory.db")
    for words in (["My editor is Helix.", "My editor password: sesame."], ["Configure my editor."]):
        memory = StoreMemory(store, namespace="ann", remember=facts)
        async with StatefulAgentLoop(llm=Assistant(), store=store, memory=memory, hooks=hooks) as loop:
            loop.event_bus.subscribe(
                lambda event: print(f"  found {event.data.returned}, shown {event.data.injected}"),  # type: ignore[union-attr]
                AgentEventType.MEMORY_RECALLED,
            )
            session = await loop.new_session()
            for text in words:
                print(text, "->", (await loop.send(text, session_id=session)).final_text)
            print("stored:", [message.text for message in await loop.get_messages(session)])
    await store.aclose()


asyncio.run(main())
