"""Warp types of one precision, and the integer codes that kernels and models share.

Every kernel module is a factory over the scalar type, called once per precision and cached:
``kinematics_kernels(wp.float32)`` and ``kinematics_kernels(wp.float64)`` compile from one source.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.cpu.array_access import access_functions, cuda_access_functions
from warp_kernels.cpu.native import header_source, with_headers
from warp_kernels.cpu.processor import target_flags

# Joint types. A continuous joint is a revolute one without limits.
FIXED = 0
REVOLUTE = 1
PRISMATIC = 2
SPHERICAL = 3
FREE = 4

# Armature of a joint with a prescribed velocity: no force changes it. Far above all masses, and its square is finite in
# float32.
PRESCRIBED_INERTIA = 1.0e16
# Inverse masses below this are those of such joints; their kinetic energy is no measure of rounding.
LEAST_INVERSE = 10.0 / PRESCRIBED_INERTIA

# Geometry types, in the order in which a candidate pair is sorted (first <= second).
PLANE = 0
SPHERE = 1
CAPSULE = 2
BOX = 3
CONVEX = 4
CYLINDER = 5
ELLIPSOID = 6
HEIGHTFIELD = 7
MESH = 8  # fixed triangles
NUM_GEOMETRY_TYPES = MESH + 1

# Kinds of actuator.
TORQUE = 0
POSITION = 1
VELOCITY = 2
AFFINE = 3
MUSCLE = 4

# Dynamics of an actuator's state: none; an integrator of the input; a filter of it, by an explicit step or by the exact
# one; activation of a muscle; integral of a
# servo's position error; current of a motor.
STATELESS = 0
INTEGRATOR = 1
FILTER = 2
EXACT_FILTER = 3
MUSCLE_FILTER = 4
PID = 5
CURRENT = 6

# Warp's own flags, without the limit on the depth to which the compiler searches for scalars that form a vector: with
# it kernels for several worlds take twice as long, to compile as well. Loops whose length isn't known aren't unrolled:
# most are short, and lane groups solve 8 to 14 % faster without.
CPU_FLAGS = "-mllvm=-inline-threshold=9000 -mllvm=-inline-cold-callsite-threshold=3000 -mllvm=-unroll-runtime=false"
# Contraction fuses a product and its sum into one instruction, which makes most kernels 1.1x faster. With "fast" the
# compiler chooses the products lane by lane. For eight floats some processors' compilers choose others in the last lane
# than in the first seven, so that a world's result would depend on its lane (poses by one unit in the last place). So
# in float32 kernels for several worlds contract only products and sums of one expression, in all lanes alike.
CONTRACTION = "fast"
LANE_CONTRACTION = {wp.float32: "on", wp.float64: "fast"}

# Worlds per lane group of the kernels of kinematics and dynamics on a CPU, see :mod:`warp_kernels.algebra`: those of
# :class:`sim.torch.Robot`, of the free functions of :mod:`sim`, and those of a simulator with many worlds.
LANES = 8

# C++ of :mod:`warp_kernels.algebra` for several worlds.
ALGEBRA_HEADERS = ("algebra/lane_arithmetic.h", "algebra/entries.h", "algebra/whole_frames.h")
# Code before the source of every module of kernels: of those for one world, and of those for several.
BUILD_OPTIONS = wp.ModuleBuildOptions(
    extra_cpu_preamble=access_functions(), extra_cuda_preamble=cuda_access_functions()
)
LANE_BUILD_OPTIONS = wp.ModuleBuildOptions(extra_cpu_preamble=access_functions() + header_source(ALGEBRA_HEADERS))
# The compiler of CUDA 13.4 miscompiles adjoints of large functions that it calls out of line: they read arguments from
# wrong addresses, and kernels ended with illegal accesses. Inlined into the kernels they are right, and take a third of
# the stack.
INLINED = """#undef WP_NOINLINE
#define WP_NOINLINE
#undef CUDA_CALLABLE
#define CUDA_CALLABLE __forceinline__ __device__
"""
INLINED_BUILD_OPTIONS = BUILD_OPTIONS.merged(wp.ModuleBuildOptions(extra_cuda_preamble=INLINED))

DTYPES = {"float32": wp.float32, "float64": wp.float64}


@functools.cache
def warp_types(scalar: Any) -> SimpleNamespace:
    """Return the types of one precision.

    ``spatial`` is a 6-vector, angular part first. ``inertia`` is a spatial inertia with ten entries about the reference
    point: mass, the first moment ``m c`` (3), then Ixx, Iyy, Izz, Ixy, Ixz, Iyz of the rotational inertia about that
    point.
    """
    return SimpleNamespace(
        scalar=scalar,
        vec2=wp.types.vector(2, scalar),
        vec3=wp.types.vector(3, scalar),
        vec5=wp.types.vector(5, scalar),
        quat=wp.types.quaternion(scalar),
        mat33=wp.types.matrix((3, 3), scalar),
        transform=wp.types.transformation(scalar),
        spatial=wp.types.vector(6, scalar),
        inertia=wp.types.vector(10, scalar),
        articulated=wp.types.vector(21, scalar),
    )


@functools.cache
def lane_types(scalar: Any, lanes: int = 1) -> SimpleNamespace:
    """Return the types of one precision for lane groups of ``lanes`` worlds, see :mod:`warp_kernels.algebra`.

    With one lane those of :func:`warp_types`, and ``real``, the scalar. With several a ``real`` is a vector with an
    entry for each world, everything else a matrix with a row for each component; mat33 has its nine row by row.

    ``states2d``, ``states3d`` and ``states4d`` are types of arguments of kernels: arrays of the user [world, ...]. With
    several lanes they are references to such an array, :class:`sim.arrays.array_refs.ArrayRef`.
    """
    if lanes == 1:
        states = {f"states{n}d": wp.array(dtype=scalar, ndim=n) for n in (2, 3, 4)}
        return SimpleNamespace(real=scalar, **states, **vars(warp_types(scalar)))
    rows = {"vec3": 3, "quat": 4, "mat33": 9, "transform": 7, "spatial": 6, "inertia": 10, "articulated": 21}
    types = {name: wp.types.matrix((count, lanes), scalar) for name, count in rows.items()}
    states = {f"states{n}d": wp.array(dtype=wp.int64) for n in (2, 3, 4)}
    return SimpleNamespace(scalar=scalar, real=wp.types.vector(lanes, scalar), **states, **types)


def most_registers(scalar: Any) -> int | None:
    """Return a limit on the registers of a GPU for the longest kernels over worlds, in single precision.

    With at most 128 a multiprocessor has capacity for sixteen groups of threads: 65,536 worlds fit on an H100 at once,
    which makes a step of the standing quadruped 1.08x faster. In double precision too much would spill to memory.
    """
    return 128 if scalar is wp.float32 else None


def kernel_module(
    name: str,
    scalar: Any,
    lanes: int = 1,
    looping: bool = False,
    inlined: bool = False,
    headers: tuple[str, ...] = (),
) -> wp.Module:
    """Return the Warp module of the kernels of one file in one precision.

    Args:
        name: of the file.
        scalar: the precision.
        lanes: worlds of a lane group.
        looping: whether its kernels over contacts loop, see :func:`warp_kernels.variants.looped_over_slots`.
        inlined: whether on CUDA all functions are inlined into the kernels, which is required if Warp generates
            adjoints.
        headers: C++ headers of its native functions, see :mod:`warp_kernels.cpu.native`.
    """
    suffix = (f"x{lanes}" if lanes > 1 else "") + (".looping" if looping else "")
    module = wp.get_module(f"backswing.{name}.{scalar.__name__}{suffix}")
    # One index per thread of a GPU: without a loop over more of them kernels take up to a third fewer registers.
    preamble = LANE_BUILD_OPTIONS if lanes > 1 else INLINED_BUILD_OPTIONS if inlined else BUILD_OPTIONS
    wp.set_module_options(
        {"default_grid_stride": False, "extra_build_options": with_headers(preamble, headers)}, module
    )
    contraction = LANE_CONTRACTION[scalar] if lanes > 1 else CONTRACTION
    flags = f"{target_flags()} {CPU_FLAGS} -ffp-contract={contraction}"
    wp.set_module_options({"cpu_compiler_flags": flags}, module)
    return module
