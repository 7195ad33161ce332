from pathlib import Path
from typing import Any

import pytest
from pydantic import AliasChoices, Field, SecretStr

from appkit import logs
from appkit.settings import Settings, SettingsError, load, parse_yaml


class Cluster(Settings):
    region: str
    url: str = ""
    token_secret: SecretStr | None = None


class Rotating(Settings):
    token_secret_file: Path | None = None
    token_secret: SecretStr | None = None


class Network(Settings):
    mode: str = "default"
    cidrs: tuple[str, ...] = ()


class Example(Settings):
    clusters: tuple[Cluster, ...] = ()
    network: Network = Network()
    controller_vm_id: int = Field(default=0, validation_alias=AliasChoices("controllerVmID", "controllerVMID"))
    log_level: str = "info"
    password: SecretStr | None = None


def write(folder: Path, text: str, name: str = "config.yaml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def problems(file: Path | None = None, **arguments: Any) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        load(Example, file=file, **arguments)
    return [each.replace(str(file), "FILE") for each in caught.value.problems]


def test_nothing_given_is_the_defaults() -> None:
    assert load(Example) == Example()


def test_later_sources_win_key_by_key(tmp_path: Path) -> None:
    file = write(tmp_path, "log_level: debug\nnetwork: {mode: qemu, cidrs: [10.0.0.0/8]}\ncontrollerVmID: 1\n")
    env = {"P_NETWORK__CIDRS": "[a, b]", "P_CONTROLLERVMID": "2", "P_LOG_LEVEL": "warning", "OTHER": "x"}
    overrides = {"log_level": "error", "network.mode": "auto", "password": None}
    settings = load(Example, file=file, env=env, env_prefix="P_", overrides=overrides)
    assert settings == Example(log_level="error", network=Network(mode="auto", cidrs=("a", "b")), controller_vm_id=2)


def test_an_alias_in_a_later_source_replaces_the_other_spelling(tmp_path: Path) -> None:
    file = write(tmp_path, "controllerVmID: 1\n")
    assert load(Example, file=file, overrides={"controllerVMID": 7}).controller_vm_id == 7


def test_every_problem_at_once_with_source_key_and_advice(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        "clusters:\n- {regin: r1, url: [1]}\n- {region: r2}\nnetwork: {mod: qemu}\ncontrollerVMID: many\n",
    )
    assert problems(file, env={"P_LOG_LEVL": "x"}, env_prefix="P_", overrides={"network.cidrs": "no list"}) == [
        "FILE: clusters[0].region: is required",
        "FILE: clusters[0].url: must be a text",
        'FILE: clusters[0].regin: unknown key, did you mean "region"?',
        "command line: network.cidrs: must be a list",
        'FILE: network.mod: unknown key, did you mean "mode"?',
        "FILE: controllerVMID: Input should be a valid integer, unable to parse string as an integer",
        'environment variable P_LOG_LEVL: log_levl: unknown key, did you mean "log_level"?',
    ]


def test_a_key_like_no_other_gets_no_guess() -> None:
    assert problems(overrides={"zzz": 1}) == ["command line: zzz: unknown key"]


def test_kubernetes_service_variables_are_not_settings() -> None:
    env = {
        "P_SERVICE_HOST": "10.0.0.1",
        "P_SERVICE_PORT": "1",
        "P_SERVICE_PORT_HTTPS": "1",
        "P_PORT": "tcp://x",
        "P_PORT_443_TCP": "x",
        "P_PORT_443_TCP_ADDR": "x",
        "P_CSI_SERVICE_HOST": "x",
        "P_CSI_PORT_1_UDP_PROTO": "x",
    }
    assert load(Example, env=env, env_prefix="P_") == Example()


@pytest.mark.parametrize("where", ["file", "environment", "command line"])
def test_a_secret_from_a_file_by_any_source(tmp_path: Path, where: str) -> None:
    path = write(tmp_path, "  s3cr3t-of-file\n", "secret")
    file = write(tmp_path, f"password_file: {path}\n") if where == "file" else None
    env = {"P_PASSWORD_FILE": str(path)} if where == "environment" else {}
    overrides = {"password_file": str(path)} if where == "command line" else {}
    settings = load(Example, file=file, env=env, env_prefix="P_", overrides=overrides)
    assert settings.password is not None
    assert settings.password.get_secret_value() == "s3cr3t-of-file"


def test_secret_files_deep_in_lists(tmp_path: Path) -> None:
    path = write(tmp_path, "deep-secret", "secret")
    settings = load(Example, file=write(tmp_path, f"clusters:\n- region: r\n  token_secret_file: {path}\n"))
    assert settings.clusters[0].token_secret == SecretStr("deep-secret")


def test_secret_file_mistakes(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        "password_file: /does/not/exist\nclusters:\n- {region: a, token_secret: x, token_secret_file: y}\n"
        "- {region: b, token_secret_file: 5}\n- {region: c, token_secrt_file: z}\n",
    )
    assert problems(file) == [
        "FILE: password_file: /does/not/exist cannot be read: No such file or directory",
        "FILE: clusters[0].token_secret_file: give either this or token_secret, not both",
        "FILE: clusters[1].token_secret_file: must be the path of a file",
        'FILE: clusters[2].token_secrt_file: unknown key, did you mean "token_secret_file"?',
    ]


def test_a_model_that_declares_the_file_key_keeps_it(tmp_path: Path) -> None:
    path = write(tmp_path, "x", "secret")
    settings = load(Rotating, overrides={"token_secret_file": str(path)})
    assert (settings.token_secret_file, settings.token_secret) == (path, None)


def test_the_file_itself(tmp_path: Path) -> None:
    assert problems(tmp_path / "none") == ["FILE: cannot be read: No such file or directory"]
    assert problems(write(tmp_path, "- a\n")) == ["FILE: must be a mapping of keys, not a list"]
    assert problems(write(tmp_path, "just text")) == ["FILE: must be a mapping of keys, not a single value"]
    assert load(Example, file=write(tmp_path, "# only a comment\n")) == Example()
    assert problems(write(tmp_path, "a: 1\nlog_level: x\nlog_level: y\n")) == [
        'FILE: line 3, column 1: not valid YAML: key "log_level" stands twice'
    ]
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe")
    assert problems(binary) == ["FILE: is not UTF-8 text"]


def test_no_error_repeats_a_value(tmp_path: Path) -> None:
    secret = "s3cr3t-misplaced"
    texts = [
        f"password: [{secret}]\n",
        f"log_level: {{a: {secret}}}\nclusters: {secret}\ncontrollerVmID: {secret}\n",
        f"password: '{secret}\n",
        f"{{password: {secret}: :\n",
        f"clusters:\n- {secret}\n",
        f"clusters:\n- region: {{x: {secret}}}\n  token_secret: {{y: {secret}}}\n",
    ]
    for text in texts:
        for problem in problems(write(tmp_path, text)):
            assert secret not in problem
    assert secret not in str(problems(env={"P_NETWORK__CIDRS": f"[{secret}"}, env_prefix="P_"))


def test_secrets_that_were_loaded_are_masked_in_logs(tmp_path: Path) -> None:
    settings = load(
        Example,
        file=write(tmp_path, "password: masked-after-load\nclusters:\n- {region: r, token_secret: nested-too}\n"),
    )
    assert "masked-after-load" not in repr(settings)
    assert logs.mask("x masked-after-load y nested-too") == "x [redacted] y [redacted]"


def test_settings_are_frozen() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Example().log_level = "x"


def test_yaml_knows_no_objects_and_keeps_merge_keys() -> None:
    with pytest.raises(ValueError, match="line 1, column 1: not valid YAML"):
        parse_yaml("!!python/object/apply:os.system [ls]")
    assert parse_yaml("a: &x {k: 1}\nb: {<<: *x, l: 2}") == {"a": {"k": 1}, "b": {"k": 1, "l": 2}}


class Listed(Settings):
    entries: tuple[Cluster, ...] = Field(min_length=1)


def test_what_only_follows_from_another_problem_is_not_told(tmp_path: Path) -> None:
    def told(text: str) -> list[str]:
        file = write(tmp_path, text)
        with pytest.raises(SettingsError) as caught:
            load(Listed, file=file)
        return [each.replace(str(file), "FILE") for each in caught.value.problems]

    assert told("entries: [{}]\n") == ["FILE: entries[0].region: is required"]
    assert told("entries: []\n") == ["FILE: entries: must have at least 1 entry"]
    assert [each for each in told("entries: [\n") if "is required" in each] == []
    with pytest.raises(SettingsError, match="entries: is required: give --entries"):
        load(Listed)
