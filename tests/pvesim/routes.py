"""Every call that the simulator answers, gathered from the handler modules. Nothing else."""

from tests.pvesim import (
    accessapi,
    agentapi,
    clusterapi,
    configread,
    configwrite,
    contentapi,
    copies,
    haapi,
    indexes,
    lifecycle,
    migration,
    nodeapi,
    poolapi,
    power,
    resize,
    snapshots,
    storageapi,
    taskapi,
)
from tests.pvesim.call import Routes

ROUTES: Routes = {
    **accessapi.ROUTES,
    **agentapi.ROUTES,
    **clusterapi.ROUTES,
    **configread.ROUTES,
    **configwrite.ROUTES,
    **contentapi.ROUTES,
    **copies.ROUTES,
    **haapi.ROUTES,
    **indexes.ROUTES,
    **lifecycle.ROUTES,
    **migration.ROUTES,
    **nodeapi.ROUTES,
    **poolapi.ROUTES,
    **power.ROUTES,
    **resize.ROUTES,
    **snapshots.ROUTES,
    **storageapi.ROUTES,
    **taskapi.ROUTES,
}
