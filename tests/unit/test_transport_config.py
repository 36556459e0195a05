"""Settings: checked at once, read from an environment, by model string; and the services that need no network."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Any

import pytest

from loopwright.model.errors import ConfigError, LLMTransientError
from loopwright.ports.llm import LLMRequest, LLMResponse
from loopwright.testing.scripted import ScriptedLLM, ScriptError, calls, gated
from loopwright.transports import (
    LLMProviderConfig,
    config_of_model,
    create_llm_service,
    create_llm_service_from_config,
    create_llm_service_from_env,
)

ASK = LLMRequest(messages=[{"role": "user", "content": "say hello world"}])


def test_everything_that_is_missing_is_listed_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        LLMProviderConfig(provider="somewhere", timeout_s=0)
    assert [problem.split()[0] for problem in caught.value.problems] == ["base_url", "model", "api_key", "timeout_s"]


def test_an_unknown_field_is_an_error() -> None:
    with pytest.raises(TypeError, match="modle"):
        LLMProviderConfig(modle="x")  # type: ignore[call-arg]
    with pytest.raises(ConfigError, match="modle"):
        create_llm_service("openai:x", env={"OPENAI_API_KEY": "k"}, modle="x")


@pytest.mark.parametrize(
    "settings",
    [
        {"api_key": "k"},
        {"auth": object()},
        {"headers": {"Authorization": "Bearer x"}},
        {"base_url": "http://127.0.0.1:1/v1"},
        {"http_client": object()},
    ],
)
def test_a_key_is_not_needed_when_something_else_stands_in_for_it(settings: dict[str, Any]) -> None:
    assert LLMProviderConfig(model="m", **settings).model == "m"


@pytest.mark.parametrize("key", ["secret\n", "sec\tret", "sécret"])
def test_a_key_that_no_header_can_carry_is_refused_without_showing_it(key: str) -> None:
    with pytest.raises(ConfigError, match="api_key holds characters") as caught:
        LLMProviderConfig(model="m", api_key=key)
    assert key not in str(caught.value)


def test_a_config_never_shows_its_secrets() -> None:
    config = LLMProviderConfig(model="m", api_key="sk-secret", headers={"x": "secret"}, proxy="http://u:secret@p:1")
    assert "secret" not in str(dict(config.__rich_repr__()))
    assert "secret" not in f"{config!r} {config} {create_llm_service_from_config(config)!r}"


@pytest.mark.parametrize(
    "env, expected",
    [
        ({"LOOPWRIGHT_MODEL": "m", "OPENAI_API_KEY": "k"}, ("openai", "m", "k", "https://api.openai.com/v1")),
        (
            {"OPENAI_MODEL": "m", "OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "http://o/v1"},
            ("openai", "m", "k", "http://o/v1"),
        ),
        ({"ANTHROPIC_MODEL": "c", "ANTHROPIC_API_KEY": "a"}, ("anthropic", "c", "a", "https://api.anthropic.com")),
        (
            {"LOOPWRIGHT_MODEL": "claude-x", "ANTHROPIC_API_KEY": "a", "OPENAI_API_KEY": "k"},
            ("anthropic", "claude-x", "a", "https://api.anthropic.com"),
        ),
        (
            {"LOOPWRIGHT_MODEL": "groq:llama:8b", "GROQ_API_KEY": "g"},
            ("groq", "llama:8b", "g", "https://api.groq.com/openai/v1"),
        ),
        (
            {"LOOPWRIGHT_MODEL": "llama3:8b", "LOOPWRIGHT_BASE_URL": "http://127.0.0.1:1/v1"},
            ("openai", "llama3:8b", None, "http://127.0.0.1:1/v1"),
        ),
        (
            {
                "LOOPWRIGHT_PROVIDER": "dashscope",
                "LOOPWRIGHT_MODEL": "q",
                "LOOPWRIGHT_BASE_URL": "https://d/v1",
                "LOOPWRIGHT_API_KEY": "k",
            },
            ("dashscope", "q", "k", "https://d/v1"),
        ),
    ],
)
def test_settings_come_from_the_environment(env: dict[str, str], expected: tuple[Any, ...]) -> None:
    config = LLMProviderConfig.from_env(env=env)
    assert (config.provider, config.model, config.api_key, config.url) == expected


def test_numbers_of_the_environment_are_read_and_checked() -> None:
    env = {"X_MODEL": "m", "Y_API_KEY": "k", "X_TIMEOUT_S": "2.5", "X_MAX_OUTPUT_TOKENS": "7", "X_TEMPERATURE": "0"}
    config = LLMProviderConfig.from_env("X_", "Y_", env)
    assert (config.timeout_s, config.max_output_tokens, config.temperature) == (2.5, 7, 0.0)
    with pytest.raises(ConfigError, match="X_TIMEOUT_S must be a number"):
        LLMProviderConfig.from_env("X_", "Y_", {**env, "X_TIMEOUT_S": "soon"})


def test_an_empty_environment_says_what_to_set() -> None:
    with pytest.raises(ConfigError) as caught:
        create_llm_service_from_env(env={})
    assert "LOOPWRIGHT_MODEL or OPENAI_MODEL" in str(caught.value)
    assert "api_key" not in str(caught.value)  # whose key is needed is known once a provider was chosen


def test_a_missing_key_names_the_variable_before_other_ways() -> None:
    with pytest.raises(ConfigError, match=r"^api_key is missing: set OPENAI_API_KEY, or pass api_key="):
        create_llm_service("openai:gpt-5-mini", env={})


@pytest.mark.parametrize("env", [{}, {"OPENAI_API_KEY": "k"}, {"ANTHROPIC_API_KEY": "a"}])
@pytest.mark.parametrize("model", ["nope:x", "vendor/model:tag"])
def test_an_unknown_provider_in_the_environment_is_named_with_those_that_are_known(
    env: dict[str, str], model: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        create_llm_service_from_env(env={**env, "LOOPWRIGHT_MODEL": model})
    assert f"unknown provider {model.partition(':')[0]!r}; known are anthropic, azure" in str(caught.value)
    assert "LOOPWRIGHT_PROVIDER or LOOPWRIGHT_BASE_URL" in str(caught.value)
    with pytest.raises(ConfigError, match=r"unknown provider .* any other word needs base_url"):
        create_llm_service(model, env=env)


@pytest.mark.parametrize(
    "env",
    [
        {"LOOPWRIGHT_PROVIDER": "openai", "OPENAI_API_KEY": "k"},
        {"LOOPWRIGHT_PROVIDER": "openrouter", "OPENROUTER_API_KEY": "k"},
        {"LOOPWRIGHT_BASE_URL": "http://127.0.0.1:1/v1"},
        {"OPENAI_BASE_URL": "http://127.0.0.1:1/v1"},
    ],
)
def test_a_plain_name_with_a_colon_is_a_model_where_provider_or_address_are_set(env: dict[str, str]) -> None:
    config = LLMProviderConfig.from_env(env={**env, "LOOPWRIGHT_MODEL": "vendor/model:tag"})
    assert config.model == "vendor/model:tag"
    assert config.provider == env.get("LOOPWRIGHT_PROVIDER", "openai")


def test_a_provider_without_an_address_of_its_own_may_be_named_in_the_environment() -> None:
    env = {"LOOPWRIGHT_MODEL": "azure:mine", "LOOPWRIGHT_BASE_URL": "https://a/v1", "AZURE_OPENAI_API_KEY": "k"}
    config = LLMProviderConfig.from_env(env=env)
    assert (config.provider, config.model, config.api_key) == ("azure", "mine", "k")


@pytest.mark.parametrize(
    "model, variable, family, url",
    [
        ("openai:gpt-5-mini", "OPENAI_API_KEY", "openai", "https://api.openai.com/v1"),
        ("openai-responses:gpt-5", "OPENAI_API_KEY", "openai-responses", "https://api.openai.com/v1"),
        ("anthropic:claude-sonnet-4-5", "ANTHROPIC_API_KEY", "anthropic", "https://api.anthropic.com"),
        ("openrouter:a/b:free", "OPENROUTER_API_KEY", "openai", "https://openrouter.ai/api/v1"),
        ("mistral:small", "MISTRAL_API_KEY", "openai", "https://api.mistral.ai/v1"),
    ],
)
def test_model_strings_find_vendor_and_key(model: str, variable: str, family: str, url: str) -> None:
    config = config_of_model(model, env={variable: "k"})
    assert (config.family, config.url, config.api_key, config.model) == (family, url, "k", model.partition(":")[2])
    with pytest.raises(ConfigError, match=variable):
        create_llm_service(model, env={})


def test_a_key_set_for_one_provider_is_not_sent_to_another() -> None:
    env = {"LOOPWRIGHT_PROVIDER": "groq", "LOOPWRIGHT_API_KEY": "k"}
    assert config_of_model("groq:x", env=env).api_key == "k"
    with pytest.raises(ConfigError, match="OPENAI_API_KEY"):
        config_of_model("openai:x", env=env)


def test_ollama_needs_no_key_and_a_model_string_needs_a_provider() -> None:
    assert config_of_model("ollama:llama3:8b", env={}).model == "llama3:8b"
    with pytest.raises(ConfigError, match="provider:model"):
        create_llm_service("gpt-5", env={})


def test_reading_settings_loads_no_http_client() -> None:
    program = (
        "import sys; import loopwright.transports as t; t.create_llm_service('echo:');"
        " t.LLMProviderConfig(model='m', api_key='k'); print(any(m.startswith('httpx2') for m in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.strip() == "False"


async def test_the_echo_is_deterministic_and_streams_words() -> None:
    service = create_llm_service("echo:")
    chunks = [chunk async for chunk in service.stream(ASK)]
    assert [chunk.text for chunk in chunks] == ["say", " hello", " world", ""]
    assert chunks[-1].response == await service.complete(ASK)
    fixed = create_llm_service_from_env(
        env={"LOOPWRIGHT_PROVIDER": "echo", "LOOPWRIGHT_ECHO_REPLY": "hi", "LOOPWRIGHT_ECHO_SLEEP": "0.001"}
    )
    assert (await fixed.complete(ASK)).text == "hi"


async def test_an_echo_by_model_string_follows_the_environment_too() -> None:
    env = {"LOOPWRIGHT_ECHO_REPLY": "hi", "LOOPWRIGHT_ECHO_SLEEP": "0.001"}
    assert config_of_model("echo:", env=env).extra == {"reply": "hi", "sleep_s": 0.001}
    assert (await create_llm_service("echo:", env=env).complete(ASK)).text == "hi"
    assert config_of_model("echo:", env=env, extra={}).extra == {}
    with pytest.raises(ConfigError, match="LOOPWRIGHT_ECHO_SLEEP must be a number"):
        config_of_model("echo:", env={"LOOPWRIGHT_ECHO_SLEEP": "long"})


async def test_a_script_is_followed_step_by_step() -> None:
    whole = LLMResponse(text="third", finish_reason="stop")
    script = ScriptedLLM(
        [
            "first",
            calls(("add", {"a": 1}), ("now", "{oops"), text="wait"),
            whole,
            lambda request: f"{len(request.messages)}",
        ]
    )
    async with script:
        assert (await script.complete(ASK)).text == "first"
        second = await script.complete(ASK)
        assert [(c.id, c.name, c.arguments) for c in second.tool_calls] == [
            ("call_1_0", "add", '{"a": 1}'),
            ("call_1_1", "now", "{oops"),
        ]
        assert (second.text, second.finish_reason) == ("wait", "tool_calls")
        assert [chunk async for chunk in script.stream(ASK)][-1].response is whole
        assert (await script.complete(ASK)).text == "1"
    assert (script.requests, script.closed) == ([ASK] * 4, True)


async def test_a_scripted_error_is_raised() -> None:
    with ScriptedLLM([LLMTransientError("busy")]) as script, pytest.raises(LLMTransientError, match="busy"):
        await script.complete(ASK)


def test_a_step_that_nobody_took_is_an_error() -> None:
    with pytest.raises(ScriptError, match=r"1 step\(s\).*'left'"), ScriptedLLM(["left"]):
        pass


async def test_a_call_beyond_the_script_is_an_error_twice() -> None:
    script = ScriptedLLM([])
    with pytest.raises(ScriptError, match="beyond the 0 steps"):
        await script.complete(ASK)
    with pytest.raises(ScriptError, match=r"1 call\(s\) beyond"):
        script.assert_done()


async def test_a_gate_holds_a_call_until_the_test_says_so() -> None:
    gate, reached = asyncio.Event(), asyncio.Event()
    with ScriptedLLM([gated("late", gate, reached=reached)]) as script:
        task = asyncio.ensure_future(script.complete(ASK))
        await reached.wait()
        assert not task.done()
        gate.set()
        assert (await task).text == "late"


@pytest.mark.parametrize("key", [b"sk-secret", 5])
def test_a_key_that_is_no_text_is_refused_without_showing_it(key: Any) -> None:
    with pytest.raises(ConfigError, match="api_key must be text") as caught:
        LLMProviderConfig(model="m", api_key=key)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("value", ["secret\n", "secret\0", "sécret", "secret\ud800", b"secret", 5])
def test_a_header_that_cannot_be_sent_is_refused_without_showing_it(value: Any) -> None:
    with pytest.raises(ConfigError, match="headers: the value of x-api") as caught:
        LLMProviderConfig(model="m", api_key="k", headers={"x-api": value})
    assert "cret" not in str(caught.value)


@pytest.mark.parametrize("name", ["", "a b", "a\n", "ä", 5])
def test_a_header_name_that_is_none_is_refused(name: Any) -> None:
    with pytest.raises(ConfigError, match="headers has a name"):
        LLMProviderConfig(model="m", api_key="k", headers={name: "x"})


@pytest.mark.parametrize(
    "url", ["http://[::1", "http://h:99999/v1", "http://", "http://h:secret", "http://a b/", "http://\ud800/", 5]
)
def test_an_address_that_is_none_is_refused_at_construction(url: Any) -> None:
    with pytest.raises(ConfigError, match="base_url") as caught:
        LLMProviderConfig(model="m", api_key="k", base_url=url)
    assert "secret" not in str(caught.value)
