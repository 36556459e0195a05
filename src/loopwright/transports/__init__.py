"""Models behind real protocols: configuration, requests written down, replies read, streams put together.

Owns: everything a provider's protocol needs. Must not know: the engine, stores, tools.
Read next: `service_factory.py`, then `http_service.py`. Importing this package loads no HTTP client.
"""

from .model_capabilities import ModelCapabilities
from .provider_config import LLMProviderConfig
from .service_factory import (
    config_of_model,
    create_llm_service,
    create_llm_service_from_config,
    create_llm_service_from_env,
)

__all__ = [
    "LLMProviderConfig",
    "ModelCapabilities",
    "config_of_model",
    "create_llm_service",
    "create_llm_service_from_config",
    "create_llm_service_from_env",
]
