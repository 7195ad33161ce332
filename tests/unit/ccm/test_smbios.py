import pytest

from ccm.smbios import Smbios, canonical_uuid, parse_smbios, same_machine, swapped_uuid

UUID = "e1b85c47-2f6d-4d0a-8c3e-7f9a4b6d5c13"
SWAPPED = "475cb8e1-6d2f-0a4d-8c3e-7f9a4b6d5c13"


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        ("", Smbios()),
        (f"uuid={UUID}", Smbios(uuid=UUID)),
        (f"uuid={UUID.upper()},base64=1,sku=YzEubWVkaXVt", Smbios(uuid=UUID.upper(), sku="c1.medium")),
        (f"base64=1,sku=c21hbGw=,uuid={UUID}", Smbios(uuid=UUID, sku="small")),
        (f"base64=1,sku=dDMuc21hbGw=,uuid={UUID}", Smbios(uuid=UUID, sku="t3.small")),
        (f"uuid={UUID},sku=small", Smbios(uuid=UUID, sku="small")),
        (f"uuid={UUID},sku=YzEubWVkaXVt", Smbios(uuid=UUID, sku="c1.medium")),
        (f"uuid={UUID},base64=1,sku=small", Smbios(uuid=UUID, sku="")),
        ("manufacturer=UHJveG1veA==,base64=1", Smbios()),
        ("nonsense", Smbios()),
    ],
)
def test_smbios1_is_read(option: str, expected: Smbios) -> None:
    assert parse_smbios(option) == expected


@pytest.mark.parametrize(
    "written",
    [UUID, UUID.upper(), UUID.replace("-", ""), f" {UUID}\n", SWAPPED, SWAPPED.replace("-", "").upper(), f"{{{UUID}}}"],
)
def test_every_way_to_write_one_uuid_is_the_same_machine(written: str) -> None:
    assert same_machine(written, UUID)
    assert same_machine(UUID, written)


@pytest.mark.parametrize(
    "other",
    [
        "",
        "e1b85c47-2f6d-4d0a-8c3e-7f9a4b6d5c14",
        "not-a-uuid",
        "00000000-0000-0000-0000-000000000000",
        "135c6d4b-9a7f-3e8c-0a4d-6d2f475cb8e1",
    ],
)
def test_another_uuid_or_none_is_not(other: str) -> None:
    assert not same_machine(other, UUID)
    assert not same_machine(UUID, other)


@pytest.mark.parametrize("none", ["", "00000000-0000-0000-0000-000000000000", "ffffffffffffffffffffffffffffffff"])
def test_two_machines_without_a_uuid_are_not_the_same(none: str) -> None:
    assert canonical_uuid(none) == ""
    assert not same_machine(none, none)


def test_swapping_is_its_own_inverse() -> None:
    digits = canonical_uuid(UUID)
    assert swapped_uuid(digits) == canonical_uuid(SWAPPED)
    assert swapped_uuid(swapped_uuid(digits)) == digits
