"""The simulation harness: both controllers, a simulated Proxmox VE and Kubernetes, one process, virtual time, one seed.

`python -m tests.sim.harness --seed 1 --ops 20000`. A run is a row of episodes of a few hundred operations, each on a
world of its own; a seed names all that happens. `ops` draws what is done, `co` behaves as Kubernetes does, `admin` as
those who work on the same cluster, `faults` and `wire` as networks do; `invariants` looks at the true state after every
step, `episode` puts it together, `shrink` finds the few operations that break it, `plants` proves that it would.
"""
