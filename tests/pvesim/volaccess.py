"""Who may use which volume (PVE::Storage::check_volume_access). Recorded from 9.2."""

from tests.pvesim.call import Call
from tests.pvesim.errors import die


def check_volume_access(call: Call, vmid: int | None, volid: str) -> None:
    """Raise 403 unless the caller may use the volume; a path instead of a volume id is root's alone.

    A volume of the VM itself needs nothing, else Datastore.Allocate, or Datastore.Audit and VM.Config.Disk on the owner
    (whose ACL path exists even when the VM does not).
    """
    if volid.startswith("/") or ":" not in volid:
        if call.who.is_root:
            return
        raise die("Only root can pass arbitrary filesystem paths. at /usr/share/perl5/PVE/Storage.pm line 651.")
    parsed = call.world.storages.parse(volid)
    storage_id = volid.partition(":")[0]
    path = f"/storage/{storage_id}"
    if call.may(path, "Datastore.Allocate"):
        return
    if parsed.content in ("iso", "vztmpl", "import"):
        call.require_any(path, "Datastore.AllocateSpace", "Datastore.Audit")
    elif parsed.owner is not None and parsed.owner == vmid:
        return
    elif parsed.content == "images" and parsed.owner is not None:
        call.require(path, "Datastore.Audit")
        call.require(f"/vms/{parsed.owner}", "VM.Config.Disk")
    else:
        call.require(path, "Datastore.Allocate")
