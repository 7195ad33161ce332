"""Every call that the simulator answers, gathered from the handler modules. Nothing else."""

from tests.pvesim import clusterapi, configread, configwrite, contentapi, nodeapi, power, resize, storageapi, taskapi
from tests.pvesim.call import Routes

ROUTES: Routes = {
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
