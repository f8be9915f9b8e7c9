// C++ functions with one fault each: see tests/kernels/faults.py.
#pragma once

namespace backswing::faults {

// Add up all entries of a row, and one more.
template <typename Number>
BACKSWING_INLINE Number sum_too_many(const Array<Number>& values, int count) {
    const Entries<Number> own = row(values, 0);
    Number sum = Number(0);
    for (int k = 0; k <= count; ++k) sum += own[k];
    return sum;
}

// Write to a local array past its end.
template <typename Number>
BACKSWING_INLINE Number leave_the_stack(const Array<Number>& values, int count) {
    Number own[4] = {};
    for (int k = 0; k < count; ++k) own[k] = values.data[k];
    return own[count / 4];
}

// Read a number from an address between two.
template <typename Number>
BACKSWING_INLINE Number read_askew(const Array<Number>& values, int count) {
    return *reinterpret_cast<const Number*>(reinterpret_cast<const char*>(values.data) + count / 5);
}

} // namespace backswing::faults
