"""Request budgets with a warm inventory; task polls and background requests are told apart by pvesim's log."""

from tests.sim.csi_controller.scene import GIB, Scene


async def test_the_life_of_a_volume(scene: Scene) -> None:
    with scene.counted() as spent:
        volume = await scene.create()
    assert spent.foreground == 1
    with scene.counted() as spent:
        again = await scene.create()
    assert again == volume
    assert spent.foreground == 2
    with scene.counted() as spent:
        context = await scene.publish(volume)
    assert spent.foreground <= 3
    assert scene.is_live(volume, 111)
    with scene.counted() as spent:
        assert await scene.publish(volume) == context
    assert spent.foreground == 1
    with scene.counted() as spent:
        await scene.expand(volume, 2 * GIB)
    assert spent.foreground <= 3
    with scene.counted() as spent:
        await scene.expand(volume, 2 * GIB)
    assert spent.foreground == 1
    with scene.counted() as spent:
        await scene.unpublish(volume)
    assert spent.foreground <= 3
    assert scene.attachments() == {}
    with scene.counted() as spent:
        await scene.unpublish(volume)
    assert spent.foreground == 1
    with scene.counted() as spent:
        await scene.delete(volume)
    assert spent.foreground <= 2
    assert scene.volids() == []
    with scene.counted() as spent:
        await scene.delete(volume)
    assert spent.foreground <= 2
