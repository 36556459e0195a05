"""What an agent may do without asking, after asking, and never; an answer changes the arguments, and another one stands.

The same rules can stand in `.loopwright/permissions.toml`, read with `load_permissions()`.
"""

import asyncio

from loopwright import ApprovalAnswer, PermissionPolicy, PermissionRule, StatefulAgentLoop, tool
from loopwright.model.messages import ToolResultMessage
from loopwright.testing import ScriptedLLM, calls

POLICY = PermissionPolicy(
    rules=(
        PermissionRule(decision="allow", tool="run", command=["git status *", "git diff *"]),
        PermissionRule(decision="ask", tool="run", command="git push *", reason="others see it"),
        PermissionRule(decision="deny", tool="run", command="rm *", reason="nothing is deleted here"),
    )
)


@tool(effect="once", subjects={"command": "command"})
async def run(command: str) -> str:
    """Run a command."""
    return f"ran {command}"


def push(*words: str) -> tuple[str, dict[str, str]]:
    return ("run", {"command": " ".join(["git push", *words])})


async def main() -> None:
    steps = [
        calls(("run", {"command": "git status; rm -rf x"})),
        calls(push("--force")),
        calls(push("origin")),
        calls(push("--tags")),
        "Done.",
    ]
    async with StatefulAgentLoop(llm=ScriptedLLM(steps), dsn="memory:", tools=[run], permissions=POLICY) as loop:
        result = await loop.send("Publish it.")
        question = result.pending_interactions[0]
        print(result.status, "|", question.prompt)
        edited = ApprovalAnswer(decision="approve", arguments={"command": "git push --force-with-lease"})
        result = await loop.submit_input(result.session_id, question.id, edited, by="ada")
        question = result.pending_interactions[0]
        always = ApprovalAnswer(decision="approve", remember="session")
        result = await loop.submit_input(result.session_id, question.id, always, by="ada")
        print(result.status, "|", result.final_text)
        for message in await loop.get_messages(result.session_id):
            if isinstance(message, ToolResultMessage):
                print("-", message.text)


asyncio.run(main())
