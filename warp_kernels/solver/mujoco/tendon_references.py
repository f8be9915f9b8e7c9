"""References of the constraints of tendons under MuJoCo's law; differentiated by Warp's own adjoint."""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.constraints.shared import row_functions
from warp_kernels.solver.mujoco.references import reference_functions
from warp_kernels.solver.structs import TendonRows
from warp_kernels.solver.tendons.rows import LOSS, TIED, tendon_row_functions
from warp_kernels.types import kernel_module, warp_types


@functools.cache
def tendon_reference_kernels(scalar: Any) -> SimpleNamespace:
    """The kernel of one precision, over (constraint, world)."""
    t = warp_types(scalar)
    vec2, vec3, vec5 = t.vec2, t.vec3, t.vec5
    common, f, law = row_functions(scalar), tendon_row_functions(scalar), reference_functions(scalar)
    module = kernel_module("mujoco_tendon_references", scalar, inlined=True)
    zero = scalar(0.0)

    @wp.kernel(module=module)
    def tendon_references(
        # Model
        tendon_rows: TendonRows,
        tied_reference: wp.array(dtype=vec2),
        tendon_inverse_weight: wp.array(dtype=scalar),
        tendon_limit_solref: wp.array(dtype=vec2),
        tendon_limit_solimp: wp.array(dtype=vec5),
        tendon_loss_solref: wp.array(dtype=vec2),
        tendon_loss_solimp: wp.array(dtype=vec5),
        tendon_coupling_solref: wp.array(dtype=vec2),
        tendon_coupling_solimp: wp.array(dtype=vec5),
        dt: scalar,
        # Parameters
        tendon_lower_limit: wp.array2d(dtype=scalar),
        tendon_upper_limit: wp.array2d(dtype=scalar),
        tendon_limit_margin: wp.array2d(dtype=scalar),
        tendon_friction_loss: wp.array2d(dtype=scalar),
        tendon_polynomial: wp.array2d(dtype=vec5),
        solref: wp.array2d(dtype=vec2),
        solimp: wp.array2d(dtype=vec5),
        # Data in
        tendon_length: wp.array2d(dtype=scalar),
        # Data out
        tendon_position: wp.array2d(dtype=vec2),
        tendon_reference: wp.array2d(dtype=vec3),
        tendon_bound: wp.array2d(dtype=scalar),
    ):
        """Zero where a limit is not reached."""
        i, world = wp.tid()
        kind = tendon_rows.kind[i]
        tendon = tendon_rows.tendon[i]
        coupling = tendon_rows.coupling[i]
        found = f.violation(
            kind, tendon, tendon_rows.other[i], coupling, world, tied_reference, tendon_lower_limit,
            tendon_upper_limit, tendon_limit_margin, tendon_polynomial, tendon_length,
        )  # fmt: skip
        x = found[0]
        bound = zero
        result = vec3()
        weight = tendon_inverse_weight[tendon]
        if kind == LOSS:
            bound = dt * common.value_of(tendon_friction_loss, world, tendon)
            softness = law.solref_of(tendon_loss_solref[tendon], solref, world)
            stiffening = law.solimp_of(tendon_loss_solimp[tendon], solimp, world)
            result = law.reference(softness, stiffening, zero, weight, dt)
        elif kind == TIED:
            bound = scalar(wp.inf)
            if tendon_rows.other[i] >= 0:
                weight += tendon_inverse_weight[tendon_rows.other[i]]
            softness = law.solref_of(tendon_coupling_solref[coupling], solref, world)
            stiffening = law.solimp_of(tendon_coupling_solimp[coupling], solimp, world)
            result = law.reference(softness, stiffening, x, weight, dt)
        elif x < zero:
            softness = law.solref_of(tendon_limit_solref[tendon], solref, world)
            stiffening = law.solimp_of(tendon_limit_solimp[tendon], solimp, world)
            result = law.reference(softness, stiffening, x, weight, dt)
        tendon_position[i, world] = found
        tendon_reference[i, world] = result
        tendon_bound[i, world] = bound

    return SimpleNamespace(module=module, tendon_references=tendon_references)
