"""What the tests that measure share: they run on the release build and print what they saw."""
import os

import pytest


@pytest.fixture(autouse=True)
def release(build):
    if os.path.basename(build) in ("asan", "tsan"):
        pytest.skip("figures are taken on the release build")


def figure(text, *args):
    print("\nfigure: " + text % args)


def percentile(times, p):
    return sorted(times)[min(len(times) - 1, int(len(times) * p / 100))]
