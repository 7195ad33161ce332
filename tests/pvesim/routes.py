"""Every call that the simulator answers, gathered from the handler modules. Nothing else."""

from tests.pvesim import (
    accessapi,
    clusterapi,
    configread,
    configwrite,
    contentapi,
    nodeapi,
    power,
    resize,
    storageapi,
    taskapi,
)
from tests.pvesim.call import Routes

ROUTES: Routes = {
    **accessapi.ROUTES,
    **clusterapi.ROUTES,
    **nodeapi.ROUTES,
    **storageapi.ROUTES,
    **contentapi.ROUTES,
    **configread.ROUTES,
    **configwrite.ROUTES,
    **resize.ROUTES,
    **power.ROUTES,
    **taskapi.ROUTES,
}
