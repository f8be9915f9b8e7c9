// Factors of the system of one world, and its solution. For CPUs and GPUs. `System` is the struct of
// warp_kernels.solver.newton.structs.
#pragma once

#include "envelope.h"

namespace backswing::newton {

// Factorise row p, whose rows above are final. Return its pivot as a share of its diagonal entry.
template <typename Number>
BACKSWING_INLINE Number factorise_row(const Envelope<Number>& rows, int p, bool symmetric) {
    const auto step = rows.step;
    char* lower_p = rows.lower + rows.row(p);
    char* upper_p = rows.upper + rows.row(p);
    Number& end = rows.at(lower_p, p * step);
    const Number diagonal = end;
    Number pivot = diagonal;
    for (int q = rows.firsts[p]; q < p; ++q) {
        const auto row_q = rows.row(q);
        const int first = rows.firsts[p], first_q = rows.firsts[q], start = first_q > first ? first_q : first;
        const Number inverse = rows.at(rows.lower + row_q, q * step);
        Number& entry = rows.at(lower_p, q * step);
        const Number value = entry - rows.sum(lower_p, rows.upper + row_q, step, start, q);
        Number over = value;
        if (!symmetric) over = rows.at(upper_p, q * step) - rows.sum(rows.lower + row_q, upper_p, step, start, q);
        entry = value * inverse;
        rows.at(upper_p, q * step) = over;
        pivot -= entry * over;
    }
    end = Number(1) / pivot;
    return wp::abs(pivot / diagonal);
}

#ifndef __CUDA_ARCH__
constexpr int MOST_ROWS = 8, MOST_COLUMNS = 512; // at a time

// Several rows of a system that begin together, column by column: a pack has a number of each.
template <typename Number>
struct RowsTogether {
    typedef Number Pack __attribute__((ext_vector_type(MOST_ROWS)));

    const Envelope<Number>& rows;
    const int p, many, first;
    char *lower_at[MOST_ROWS], *upper_at[MOST_ROWS];
    Pack lower[MOST_COLUMNS], upper[MOST_COLUMNS];

    // Read `many` rows from p on. Packs beyond them repeat the last one, and aren't stored.
    BACKSWING_MEMBER RowsTogether(const Envelope<Number>& rows, int p, int many, bool symmetric)
        : rows(rows), p(p), many(many), first(rows.firsts[p]) {
        for (int r = 0; r < MOST_ROWS; ++r) {
            const auto begin = rows.row(p + (r < many ? r : many - 1)) + first * rows.step;
            lower_at[r] = rows.lower + begin;
            upper_at[r] = rows.upper + begin;
        }
        for (int m = 0; m < p + many - first; ++m) {
            lower[m] = read(lower_at, m);
            if (!symmetric) upper[m] = read(upper_at, m);
        }
    }
    BACKSWING_MEMBER Pack read(char* const* at, int m) const {
        Pack numbers;
        for (int r = 0; r < MOST_ROWS; ++r) numbers[r] = rows.at(at[r], m * rows.step);
        return numbers;
    }
    // Store column m of the rows from r on.
    BACKSWING_MEMBER void store(int m, int r) const {
        for (; r < many; ++r) {
            rows.at(lower_at[r], m * rows.step) = lower[m][r];
            rows.at(upper_at[r], m * rows.step) = upper[m][r];
        }
    }
    // Return the sum of packs times the numbers of a row, from column `start` to `end`. Four sums are independent.
    template <typename Other>
    BACKSWING_MEMBER static Pack products(const Pack* packs, const Other& other, int start, int end) {
        Pack sum[4] = {0, 0, 0, 0};
        int m = start;
        for (; m + 4 <= end; m += 4)
            for (int k = 0; k < 4; ++k) sum[k] += packs[m + k] * other(m + k);
        for (; m < end; ++m) sum[0] += packs[m] * other(m);
        return (sum[0] + sum[1]) + (sum[2] + sum[3]);
    }
    // Eliminate column q, which is that of a row above.
    BACKSWING_MEMBER void eliminate(int q, bool symmetric) {
        const auto row_q = rows.row(q) + first * rows.step;
        char *lower_q = rows.lower + row_q, *upper_q = rows.upper + row_q;
        const int m = q - first, begins = rows.firsts[q] - first, start = begins > 0 ? begins : 0;
        const auto along = [&](char* row) { return [=](int k) { return rows.at(row, k * rows.step); }; };
        lower[m] -= products(lower, along(upper_q), start, m);
        upper[m] = symmetric ? lower[m] : upper[m] - products(upper, along(lower_q), start, m);
        lower[m] *= rows.at(lower_q, m * rows.step);
        store(m, 0);
    }
    // Eliminate the column of row p + r. Return the pivot as a share of the diagonal entry.
    BACKSWING_MEMBER Number eliminate_own(int r, bool symmetric) {
        const int m = p + r - first;
        const auto of_row = [&](const Pack* packs) { return [=](int k) { return packs[k][r]; }; };
        const Number diagonal = lower[m][r];
        lower[m] -= products(lower, of_row(upper), 0, m);
        upper[m] = symmetric ? lower[m] : upper[m] - products(upper, of_row(lower), 0, m);
        const Number pivot = lower[m][r], inverse = Number(1) / pivot;
        lower[m] *= inverse;
        store(m, r + 1);
        rows.at(lower_at[r], m * rows.step) = inverse;
        return wp::abs(pivot / diagonal);
    }
};

// Factorise as many rows from p on as begin together, and no further than `end`. The smallest share of a pivot becomes
// `least`. Return their number.
template <typename Number>
BACKSWING_INLINE int factorise_rows(const Envelope<Number>& rows, int p, int end, bool symmetric, Number& least) {
    int many = 1;
    while (many < MOST_ROWS && p + many < end && rows.firsts[p + many] == rows.firsts[p]) ++many;
    if (many == 1 || p + many - rows.firsts[p] > MOST_COLUMNS) {
        least = wp::min(least, factorise_row(rows, p, symmetric));
        return 1;
    }
    RowsTogether<Number> together(rows, p, many, symmetric);
    for (int q = rows.firsts[p]; q < p; ++q) together.eliminate(q, symmetric);
    for (int r = 0; r < many; ++r) least = wp::min(least, together.eliminate_own(r, symmetric));
    return many;
}
#endif

// Factorise nv indices from `begin` on as L U without pivoting, L with a unit diagonal. With `symmetric` the entries
// above the diagonal aren't read. Return the smallest pivot, as a share of its diagonal entry.
template <typename Number, typename System>
BACKSWING_INLINE Number factorise(int begin, int nv, bool symmetric, const System& system, int world) {
    const Envelope<Number> rows(system, world);
    Number least = 1;
#ifdef __CUDA_ARCH__
    for (int p = begin; p < begin + nv; ++p) least = wp::min(least, factorise_row(rows, p, symmetric));
#else
    for (int p = begin; p < begin + nv;) p += factorise_rows(rows, p, begin + nv, symmetric, least);
#endif
    return least;
}

// Solve L U x = x in place, x in elimination order, of which nv from `begin` on count.
template <typename Number, typename System>
BACKSWING_INLINE void solve(int begin, int nv, const System& system, const Array<Number>& x_array, int world) {
    const Envelope<Number> rows(system, world);
    const auto x = column(x_array, world);
    for (int p = begin; p < begin + nv; ++p)
        x[p] -= rows.sum(rows.lower + rows.row(p), x.at, x.step, rows.firsts[p], p);
    for (int p = begin + nv - 1; p >= begin; --p) {
        const auto row = rows.row(p);
        const Number value = x[p] * rows.at(rows.lower + row, p * rows.step);
        x[p] = value;
        for (int q = rows.firsts[p]; q < p; ++q) x[q] -= rows.at(rows.upper + row, q * rows.step) * value;
    }
}

} // namespace backswing::newton
