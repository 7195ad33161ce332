"""The privileges and built-in roles of Proxmox VE 9.2 (recorded; PVE::AccessControl), and how release 8 has them.

Data only. Release 8 was not recorded: one VM.Monitor there is what VM.GuestAgent.Unrestricted and its kin are in 9.
"""

from collections.abc import Collection

_VM_ADMIN = [
    "VM.Config.Disk", "VM.Config.CPU", "VM.Config.Memory", "VM.Config.Network", "VM.Config.HWType", "VM.Config.Options",
    "VM.Allocate", "VM.Clone", "VM.Migrate", "VM.Snapshot", "VM.Snapshot.Rollback", "VM.Replicate",
    "VM.GuestAgent.Unrestricted",
]  # fmt: skip
_VM_USER = [
    "VM.Config.CDROM", "VM.Config.Cloudinit", "VM.Console", "VM.Backup", "VM.PowerMgmt", "VM.GuestAgent.FileRead",
    "VM.GuestAgent.FileWrite", "VM.GuestAgent.FileSystemMgmt",
]  # fmt: skip
_VM_AUDIT = ["VM.Audit", "VM.GuestAgent.Audit"]
_SYS_ROOT = ["Sys.PowerMgmt", "Sys.Modify", "Sys.Incoming", "Sys.AccessNetwork"]
_SYS_ADMIN = ["Sys.Console", "Sys.Syslog"]
_STORE_USER = ["Datastore.AllocateSpace", "Datastore.Audit"]
_STORE_ADMIN = ["Datastore.Allocate", "Datastore.AllocateTemplate", *_STORE_USER]
_USER_ADMIN = ["User.Modify", "Group.Allocate", "Realm.AllocateUser"]
_AUDIT = [*_VM_AUDIT, "Sys.Audit", "Datastore.Audit", "Pool.Audit", "SDN.Audit", "Mapping.Audit"]
_SDN_ADMIN = ["SDN.Allocate", "SDN.Audit", "SDN.Use"]
_POOL_ADMIN = ["Pool.Allocate", "Pool.Audit"]
_MAPPING_ADMIN = ["Mapping.Modify", "Mapping.Use", "Mapping.Audit"]

ALL_PRIVILEGES: frozenset[str] = frozenset(
    [*_VM_ADMIN, *_VM_USER, *_AUDIT, *_SYS_ROOT, *_SYS_ADMIN, *_STORE_ADMIN, *_USER_ADMIN, "Realm.Allocate",
     *_SDN_ADMIN, *_POOL_ADMIN, *_MAPPING_ADMIN, "Permissions.Modify"]
)  # fmt: skip
BUILTIN_ROLES: dict[str, frozenset[str]] = {
    "Administrator": ALL_PRIVILEGES,
    "NoAccess": frozenset(),
    "PVEAdmin": frozenset(
        [
            *_VM_ADMIN,
            *_VM_USER,
            *_AUDIT,
            *_SYS_ADMIN,
            *_STORE_ADMIN,
            *_USER_ADMIN,
            *_SDN_ADMIN,
            *_POOL_ADMIN,
            *_MAPPING_ADMIN,
        ]
    ),
    "PVEAuditor": frozenset(_AUDIT),
    "PVEDatastoreAdmin": frozenset(_STORE_ADMIN),
    "PVEDatastoreUser": frozenset(_STORE_USER),
    "PVEMappingAdmin": frozenset(_MAPPING_ADMIN),
    "PVEMappingAudit": frozenset(["Mapping.Audit"]),
    "PVEMappingUser": frozenset(["Mapping.Audit", "Mapping.Use"]),
    "PVEPoolAdmin": frozenset(_POOL_ADMIN),
    "PVEPoolUser": frozenset(["Pool.Audit"]),
    "PVESDNAdmin": frozenset(_SDN_ADMIN),
    "PVESDNUser": frozenset(["SDN.Audit", "SDN.Use"]),
    "PVESysAdmin": frozenset(["Sys.Audit", *_SYS_ADMIN]),
    "PVETemplateUser": frozenset(["VM.Audit", "VM.Clone"]),
    "PVEUserAdmin": frozenset(_USER_ADMIN),
    "PVEVMAdmin": frozenset([*_VM_ADMIN, *_VM_USER, *_VM_AUDIT]),
    "PVEVMUser": frozenset([*_VM_USER, *_VM_AUDIT]),
}
MONITOR = "VM.Monitor"
_NOT_IN_8 = "VM.Replicate"


def in_release_8(privileges: Collection[str]) -> frozenset[str]:
    """The same privileges as release 8 names them."""
    kept = {one for one in privileges if not one.startswith("VM.GuestAgent.") and one != _NOT_IN_8}
    return frozenset(kept | ({MONITOR} if "VM.GuestAgent.Unrestricted" in privileges else set()))
