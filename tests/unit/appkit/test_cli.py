import pytest

from appkit.cli import ServiceSettings, service_overrides, service_parser
from appkit.settings import load
from appkit.version import __version__


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as done:
        service_parser("pvecloud-ccm", "x").parse_args(["--version"])
    assert (done.value.code, capsys.readouterr().out) == (0, f"pvecloud-ccm {__version__}\n")


def test_flags_not_given_leave_the_word_to_environment_and_default() -> None:
    arguments = service_parser("p", "x").parse_args(["--log-format", "json"])
    overrides = service_overrides(arguments)
    settings = load(ServiceSettings, env={"P_LOG_LEVEL": "debug"}, env_prefix="P_", overrides=overrides)
    assert settings == ServiceSettings(log_format="json", log_level="debug", metrics_address="")


def test_flags_are_not_guessed_from_their_beginnings(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        service_parser("p", "x").parse_args(["--metrics", ":1"])
    assert "unrecognized arguments" in capsys.readouterr().err
