"""Every function of kinematics and dynamics against Pinocchio on random forests with all joint types."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pin = pytest.importorskip("pinocchio")

from tests.dynamics.peer import Peer, check_against  # noqa: E402
from tests.dynamics.trees import Link, build, build_pinocchio, forests, zoo  # noqa: E402


def peer_of(links: list[Link], dtype: str, collapse_fixed: bool, offset: tuple[float, ...] = (0, 0, 0)) -> Peer:
    model = build(links, dtype, collapse_fixed, offset)
    return Peer(model, build_pinocchio(links, model.joint_names, offset))


@given(forests(), st.booleans(), st.integers(0, 1000))
@settings(max_examples=100)
def test_float64(links, collapse_fixed, seed):
    check_against(peer_of(links, "float64", collapse_fixed), seed, 1e-10, 1e-10)


@given(forests(), st.integers(0, 1000))
@settings(max_examples=30)
def test_float32_far_from_the_origin(links, seed):
    check_against(peer_of(links, "float32", True, (70.0, -70.0, 10.0)), seed, 1e-4, 1e-4)


@pytest.mark.parametrize("collapse_fixed", [False, True])
def test_all_joint_types(collapse_fixed, device):
    check_against(peer_of(zoo(), "float64", collapse_fixed), 0, 1e-10, 1e-10, device)
