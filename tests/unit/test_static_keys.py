"""Keys from a text, a file, the environment: a bad one is refused, named by its line and never shown."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from loopwright.model.errors import ConfigError
from loopwright.stores.static_keys import StaticKeys

A, B = base64.b64encode(b"a" * 32).decode(), base64.b64encode(b"b" * 32).decode()


def test_the_last_line_is_the_current_key_and_the_others_stay_known() -> None:
    keys = StaticKeys.from_text(f"# ours\n\n2026-01 {A}\n 2026-12   {B}\n")
    assert (keys.current, keys.key("2026-01"), keys.key("2026-12")) == ("2026-12", b"a" * 32, b"b" * 32)
    assert keys.key("2025") is None
    assert repr(keys) == "StaticKeys(2026-01, 2026-12; current 2026-12)"


@pytest.mark.parametrize(
    "text", ["", "# nothing", "x", f"x {A} y", "x !!!", "x AAAA", f"x {A[:-4]}", f"x {A}\nx {B}", f"{A}"]
)
def test_a_bad_text_is_refused_and_no_key_is_shown(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        StaticKeys.from_text(text)
    assert A[:20] not in str(caught.value)


def test_the_current_key_must_be_among_them() -> None:
    assert StaticKeys({"a": b"a" * 32, "b": b"b" * 32}, current="a").current == "a"
    with pytest.raises(ConfigError, match="'c' is not among 'a'"):
        StaticKeys({"a": b"a" * 32}, current="c")


def test_the_environment_names_a_file_or_holds_the_lines(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text(f"f {A}\n")
    assert StaticKeys.from_environment({}) is None
    for env, current in (({"LOOPWRIGHT_KEY_FILE": str(path)}, "f"), ({"LOOPWRIGHT_KEYS": f"e {A}"}, "e")):
        keys = StaticKeys.from_environment(env)
        assert keys is not None
        assert keys.current == current
    with pytest.raises(ConfigError, match="both set"):
        StaticKeys.from_environment({"LOOPWRIGHT_KEY_FILE": str(path), "LOOPWRIGHT_KEYS": f"e {A}"})
    with pytest.raises(ConfigError, match="cannot be read"):
        StaticKeys.from_environment({"LOOPWRIGHT_KEY_FILE": str(tmp_path / "none")})
