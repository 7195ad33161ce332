import pytest

from ccm.flags import ignored_flags, overrides_of, parse_duration, parse_flags, parse_switch

CHART = [
    "-v=2",
    "--cloud-provider=proxmox",
    "--cloud-config=/etc/proxmox/config.yaml",
    "--controllers=cloud-node,cloud-node-lifecycle",
    "--leader-elect-resource-name=cloud-controller-manager-proxmox",
    "--use-service-account-credentials",
    "--secure-port=10258",
    "--authorization-always-allow-paths=/healthz,/livez,/readyz,/metrics",
]


def test_the_arguments_of_the_peers_chart_are_taken() -> None:
    arguments = parse_flags(CHART)
    given = {name: value for name, value in overrides_of(arguments).items() if value is not None}
    assert given == {
        "cloud_config": "/etc/proxmox/config.yaml",
        "controllers": ["cloud-node", "cloud-node-lifecycle"],
        "leader_elect_resource_name": "cloud-controller-manager-proxmox",
        "secure_port": "10258",
    }
    assert ignored_flags(arguments) == ["--use-service-account-credentials", "--authorization-always-allow-paths"]


@pytest.mark.parametrize(
    ("argv", "name", "value"),
    [
        (["--leader-elect=false"], "leader_elect", False),
        (["--leader-elect"], "leader_elect", True),
        (["--leader-elect-lease-duration", "1m30s"], "leader_elect_lease_duration", 90.0),
        (["-v=4"], "log_level", "debug"),
        (["-v", "5"], "log_level", "debug"),
        (["--v=3"], "log_level", None),
        (["-v=9", "--log-level=warning"], "log_level", "warning"),
        (["--master", "https://10.0.0.1:6443"], "kube_server", "https://10.0.0.1:6443"),
    ],
)
def test_flags_are_written_as_go_writes_them(argv: list[str], name: str, value: object) -> None:
    assert overrides_of(parse_flags(argv))[name] == value


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (["--cloud-provider=aws"], "invalid choice: 'aws'"),
        (["--leader-elect=maybe"], 'must be "true" or "false"'),
        (["--leader-elect-retry-period=2"], 'must be a duration such as "15s"'),
        (["--leader-elekt"], "unrecognized arguments: --leader-elekt"),
        (["--leader"], "unrecognized arguments: --leader"),
    ],
)
def test_a_wrong_flag_is_an_error_that_names_it(argv: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        parse_flags(argv)
    assert exit_.value.code == 2
    assert text in capsys.readouterr().err


@pytest.mark.parametrize(("text", "seconds"), [("15s", 15), ("1h2m3s", 3723), ("500ms", 0.5), ("1.5s", 1.5)])
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "15", "s", "15 s", "-1s"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="duration"):
        parse_duration(text)


def test_switches() -> None:
    assert [parse_switch(text) for text in ("true", "T", "1", "False", "0")] == [True, True, True, False, False]
