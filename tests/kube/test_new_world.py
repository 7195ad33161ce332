"""What happens after a test that left something: the next one gets a new pvesim world and a clean cluster."""

from tests.kube.space import Space, claim, pod


def test_a_dirty_bench_is_made_new(space: Space) -> None:
    space.apply([claim("data"), pod("app", "data")])
    space.wait_running("app")

    space.abandon()

    space.api.wait("nothing is left", lambda: not space.leftovers(), 20)
    again = Space(space.bench, "after_a_dirty_test")
    again.make()
    again.apply([claim("data"), pod("app", "data")])
    again.wait_running("app")
    again.remove()
    again.check_clean()
