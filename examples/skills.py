"""Skills: the model sees names and descriptions, and reads the instructions of one when a task fits it.

Needs the extra: pip install 'loopwright[skills]'.
"""

import asyncio
from pathlib import Path

from loopwright import StatefulAgentLoop, create_default_tool_registry
from loopwright.context import PromptFiles, SkillLibrary
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
    steps = [
        calls(("load_skill", {"name": "greeting"})),
        lambda request: f"I read: {request.messages[-1].content.splitlines()[-1]} Hello Ann, Ann!",
    ]
    model, prompt = ScriptedLLM(steps), PromptFiles(skills=library)  # the list of skills, in the instructions
    tools = create_default_tool_registry("explore", workspace=".", skills=library)  # load_skill
    async with StatefulAgentLoop(llm=model, dsn="skills.db", tools=tools, prompt_source=prompt) as loop:
        result = await loop.send("Greet Ann.")
        print("the model was told:", model.requests[0].system_prompt.splitlines()[-1])
        print(result.status, "|", result.final_text)


asyncio.run(main(written(Path("skills"))))
