"""The loop of a leaf's process, where its bootstrap names no factory.

Owns: `open_loop`. Must not know: who asks. Read next: `executors/leaf_worker.py`.
"""

from __future__ import annotations

from ..config import AgentLoopConfig
from ..executors.worker_job import LoopOrder
from ..loop import StatefulAgentLoop
from ..tools.presets import create_default_tool_registry
from ..transports.service_factory import create_llm_service, create_llm_service_from_env

LEASE_WAIT_S = 20.0
"""Longer than a lease lives: so a leaf goes on after a process that died where nobody can see it (a sandbox, another machine)."""


def open_loop(order: LoopOrder) -> StatefulAgentLoop:
    """A loop with the model and the tools of the bootstrap. Raises: `ConfigError` and the errors of stores."""
    given = order.bootstrap
    if given.llm is not None:
        llm = create_llm_service(given.llm)
    else:
        llm = create_llm_service_from_env(given.provider_prefix)
    tools = () if given.preset is None else create_default_tool_registry(given.preset, workspace=order.workspace)
    config = AgentLoopConfig(agent_name=order.agent_name, lease_wait_s=LEASE_WAIT_S)
    return StatefulAgentLoop(llm=llm, dsn=order.dsn, tools=tools, config=config)
