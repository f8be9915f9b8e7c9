"""A row that yields as a spring and damper: its softness and its bias.

With stiffness k, damping c and time step h, a row with softness 1 / (h (h k + c)) on the diagonal and the bias
k x / (h k + c) gives the impulse h (-k (x + h v) - c v), v being its velocity after the step: a spring and damper, integrated
implicitly (Smith, *Open Dynamics Engine: User Guide*, 2006, section 3.8; Catto, *Soft Constraints*, GDC 2011). While the distance
x is positive nothing touches: the bias is x / h then, so that neither spring nor damper acts before they meet.
"""

import functools
from types import SimpleNamespace
from typing import Any

import warp as wp

from warp_kernels.types import warp_types


@functools.cache
def compliance_functions(scalar: Any) -> SimpleNamespace:
    """Warp functions of compliant rows for one precision. A row with infinite stiffness is hard."""
    vec3 = warp_types(scalar).vec3

    @wp.func
    def softness(stiffness: scalar, damping: scalar, dt: scalar):
        """What a compliant row has on its diagonal [1/kg]."""
        return scalar(1.0) / (dt * (dt * stiffness + damping))

    @wp.func
    def compliant_bias(distance: scalar, stiffness: scalar, damping: scalar, dt: scalar):
        bias = distance / dt
        if distance < scalar(0.0):
            bias = stiffness * distance / (dt * stiffness + damping)
        return bias

    @wp.func
    def compliance_adjoint(
        distance: scalar, stiffness: scalar, damping: scalar, dt: scalar, bias_bar: scalar, softness_bar: scalar
    ):
        """Adjoints of distance, stiffness and damping."""
        total = dt * stiffness + damping
        distance_bar = bias_bar / dt
        stiffness_bar = -softness_bar / (total * total)
        damping_bar = stiffness_bar / dt
        if distance < scalar(0.0):
            distance_bar = bias_bar * stiffness / total
            stiffness_bar += bias_bar * distance * damping / (total * total)
            damping_bar -= bias_bar * distance * stiffness / (total * total)
        return vec3(distance_bar, stiffness_bar, damping_bar)

    return SimpleNamespace(softness=softness, compliant_bias=compliant_bias, compliance_adjoint=compliance_adjoint)
