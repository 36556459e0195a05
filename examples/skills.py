"""Skills: the model sees names and descriptions, and reads the instructions of one when a task fits it.

Needs the extra: pip install 'loopwright[skills]'.
"""

import asyncio
from pathlib import Path

from loopwright import StatefulAgentLoop, create_default_tool_registry
from loopwright.context import SkillLibrary
from loopwright.testing import ScriptedLLM, calls

SKILL = """\
---
name: greeting
description: How we greet people. Use it before you greet anybody.
---
Always say the name twice.
"""


def written(folder: Path) -> SkillLibrary:
    (folder / "greeting").mkdir(parents=True, exist_ok=True)
    (folder / "greeting" / "SKILL.md").write_text(SKILL)
    return SkillLibrary(folder)


async def main(library: SkillLibrary) -> None:
    for skill in library.skills():
        print(f"{skill.name}: {skill.description}")

    steps = [
        calls(("load_skill", {"name": "greeting"})),
        lambda request: f"I read: {request.messages[-1].content.splitlines()[-1]} Hello Ann, Ann!",
    ]
    tools = create_default_tool_registry("explore", workspace=".", skills=library)
    async with StatefulAgentLoop(llm=ScriptedLLM(steps), dsn="skills.db", tools=tools) as loop:
        result = await loop.send("Greet Ann.")
        print(result.status, "|", result.final_text)


asyncio.run(main(written(Path("skills"))))
