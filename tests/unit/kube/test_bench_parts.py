"""The bench's pure parts, and those that only need sockets."""

import hashlib
import json
from pathlib import Path

import httpx

from tests.kube.images import Registry, build_image
from tests.kube.place import Place
from tests.kube.registrar import message_types
from tests.kube.reports import Outcome, read_report, write_outcomes
from tests.kube.setting import WORKERS, world
from tests.pvesim.worldfile import build_world


def test_registration_messages_have_the_numbers_of_the_kubelets_protocol() -> None:
    types = message_types()
    info = types["PluginInfo"](type="CSIPlugin", name="n", endpoint="e", supported_versions=["1.0.0", "2"])
    assert info.SerializeToString() == b"\x0a\x09CSIPlugin\x12\x01n\x1a\x01e\x22\x051.0.0\x22\x012"
    status = types["RegistrationStatus"].FromString(b"\x08\x01\x12\x02no")
    assert (status.plugin_registered, status.error) == (True, "no")


def test_registry_serves_an_image_under_any_name() -> None:
    image = build_image({"bin/sh": b"#!", "bin/ls": "/bin/sh"}, ["/bin/sh"])
    registry = Registry({"busybox": image})
    registry.start()
    try:
        with httpx.Client(base_url=registry.url, trust_env=False) as client:
            assert client.get("/v2/").status_code == 200
            for name in ("library/busybox/manifests/latest?ns=docker.io", "busybox/manifests/1.36"):
                manifest = client.get(f"/v2/{name}")
                assert manifest.content == image.manifest
                assert manifest.headers["Docker-Content-Digest"] == f"sha256:{_sha(image.manifest)}"
            for layer in json.loads(image.manifest)["layers"]:
                blob = client.get(f"/v2/library/busybox/blobs/{layer['digest']}").content
                assert layer == {"mediaType": layer["mediaType"], "digest": f"sha256:{_sha(blob)}", "size": len(blob)}
            assert client.head("/v2/library/other/manifests/latest").status_code == 404
    finally:
        registry.close()


def test_images_are_the_same_each_time() -> None:
    assert build_image({"a": b"x"}, []) == build_image({"a": b"x"}, [])


def test_places_do_not_overlap() -> None:
    places = [Place(number) for number in range(8)]
    subnets = [each.pod_subnet(worker.vmid) for each in places for worker in WORKERS]
    assert len(set(subnets)) == len(subnets)
    # The path of a unix socket holds 107 characters.
    longest = places[0].folder / "k113" / "plugins_registry" / "csi.proxmox.sinextra.dev-reg.sock"
    assert len(str(longest)) < 107


async def test_world_has_each_worker_on_its_host() -> None:
    made = build_world(world("3d1219c7-c4c5-404a-aa1f-6d2a48adfda4"))
    assert {(vm.vmid, vm.node) for vm in made.vms.values()} == {(each.vmid, each.host) for each in WORKERS}
    await made.aclose()


def test_report_of_a_suite(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(
        '<testsuites><testsuite><testcase name="[It] a" time="1.5"/>'
        '<testcase name="[It] b" time="0"><skipped/></testcase>'
        '<testcase name="[It] c" time="1"><failure message="why"/></testcase><testcase name="[BeforeSuite]" time="0"/>'
        "</testsuite></testsuites>",
        encoding="utf-8",
    )
    outcome = read_report(report)
    assert outcome == Outcome(["a"], ["b"], {"c": "why"}, 2.5)
    write_outcomes(tmp_path / "build" / "out.json", {"mount": outcome})
    counts = json.loads((tmp_path / "build" / "out.json").read_text())["mount"]["counts"]
    assert counts == {"passed": 1, "failed": 1, "skipped": 1}


def _sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
