"""A vital task that breaks is noticed; one that is cancelled or done is nobody's business."""

import asyncio

from shoal.host.tasks import vital


def test_what_is_told() -> None:
    async def scene() -> list[BaseException]:
        told: list[BaseException] = []

        async def breaks() -> None:
            raise ValueError("broken")

        async def ends() -> None:
            await asyncio.sleep(0)

        tasks = [
            vital(breaks(), "a", told.append),
            vital(ends(), "b", told.append),
            vital(asyncio.sleep(60), "c", told.append),
        ]
        tasks[2].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)
        return told

    assert [str(error) for error in asyncio.run(scene())] == ["broken"]
