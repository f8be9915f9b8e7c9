// Checks of teams in rehearsals on a CPU, where one thread does the work of a team: tests/team_checks.py defines the
// order of the items, BACKSWING_TEAM_ORDER.
//
// Between two calls of sync() no two items may access the same number, unless both only read it. What is outside of
// loops over items all threads do, so that no item may write what is read there; what follows a loop counts as its last
// item, up to the next sync(). What native functions read by operator[] of Entries is seen, what they write isn't.
#pragma once

#include "arrays.h"

#ifdef BACKSWING_TEAM_ORDER

// How many faults there were; of the last one its kind, the phase, that is the number of calls of sync() before it, and
// the two items.
extern "C" {
WP_API int team_fault[5];
}

namespace backswing::team {

// Kinds of fault, and the item of what all threads do: the same as in tests/team_checks.py.
constexpr int MEETING = 1;
constexpr int SYNC_IN_LOOP = 2;
constexpr int FULL = 3;
constexpr int EVERY = -1;

struct Checks {
    // The first and the last access to a number in a phase; `other` is another item than the first one.
    struct Access {
        const void* at;
        int phase, item, other;
        bool written;
    };

    // A power of two. Numbers of earlier phases give way.
    static constexpr int SIZE = 1 << 16;
    Access accesses[SIZE];
    int phase, of_world, item;
    bool in_loop;

    void note_fault(int kind, int one, int other) {
        team_fault[0] += 1;
        team_fault[1] = kind;
        team_fault[2] = phase - of_world;
        team_fault[3] = one;
        team_fault[4] = other;
    }

    void begin_world() {
        of_world = ++phase;
        item = EVERY;
        in_loop = false;
    }

    int begin_item(int k, int index) {
        if (k > 0 && !in_loop) note_fault(SYNC_IN_LOOP, item, index);
        in_loop = true;
        item = index;
        return index;
    }

    void end_phase() {
        ++phase;
        item = EVERY;
        in_loop = false;
    }

    void note_number(const char* at, bool writes) {
        wp::uint64 slot = (reinterpret_cast<wp::uint64>(at) >> 2) * 0x9E3779B97F4A7C15ull >> 48;
        for (int tries = 0; tries < SIZE; ++tries, slot = (slot + 1) % SIZE) {
            Access& found = accesses[slot];
            if (found.phase != phase) {
                found = {at, phase, item, item, writes};
                return;
            }
            if (found.at != at) continue;
            const bool alone = found.item == item && found.other == item && item != EVERY;
            if (!alone && (writes || found.written))
                note_fault(MEETING, found.item == item ? found.other : found.item, item);
            if (found.item != item) found.other = item;
            found.written = found.written || writes;
            return;
        }
        note_fault(FULL, item, item);
    }

    template <typename T>
    void note(const T& entry, bool writes) {
        if (phase == 0) return;
        const char* at = reinterpret_cast<const char*>(&entry);
        for (unsigned k = 0; k < sizeof(T); k += 4) note_number(at + k, writes);
    }
};

static Checks checks;

} // namespace backswing::team

namespace backswing {

#define BACKSWING_NOTE_ENTRIES(T)                                                                                      \
    template <>                                                                                                        \
    inline T& Entries<T>::operator[](int k) const {                                                                    \
        T& entry = *reinterpret_cast<T*>(at + k * step);                                                               \
        team::checks.note(entry, false);                                                                               \
        return entry;                                                                                                  \
    }
BACKSWING_NOTE_ENTRIES(wp::float32)
BACKSWING_NOTE_ENTRIES(wp::float64)
BACKSWING_NOTE_ENTRIES(Vec3<wp::float32>)
BACKSWING_NOTE_ENTRIES(Vec3<wp::float64>)

} // namespace backswing

// Kernels load entries from addresses and store them by these functions, for which a compiler prefers the following.
namespace wp {

template <typename T, typename... Indices>
inline T* address(const array_t<T>& values, int i, Indices... further) __attribute__((enable_if(true, "preferred"))) {
    T& entry = index(values, i, further...);
    backswing::team::checks.note(entry, false);
    return &entry;
}

template <typename T>
inline void store_entry(T& entry, T value) {
    backswing::team::checks.note(entry, true);
    entry = value;
}

template <typename T>
inline void array_store(const array_t<T>& values, int i, T value) __attribute__((enable_if(true, "preferred"))) {
    store_entry(index(values, i), value);
}

template <typename T>
inline void array_store(const array_t<T>& values, int i, int j, T value) __attribute__((enable_if(true, "preferred"))) {
    store_entry(index(values, i, j), value);
}

template <typename T>
inline void array_store(const array_t<T>& values, int i, int j, int k, T value)
    __attribute__((enable_if(true, "preferred"))) {
    store_entry(index(values, i, j, k), value);
}

} // namespace wp

#endif
