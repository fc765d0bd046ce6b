#if defined(__x86_64__)

#include <immintrin.h>

#include "cpu.h"
#include "path.h"

// Everything from here on may use the instructions; nothing above may, because the linker could
// keep that copy of an inline function for code that runs on older processors. GCC makes templates
// at the end of the file, so the setting stays in force until there.
#if defined(__clang__)
#pragma clang attribute push(                                                            \
    __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c,popcnt"))), \
    apply_to = function)
#else
// GCC 12 finds its own _mm512_undefined_ps() uninitialised (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c,popcnt")
#endif

namespace sonde {
namespace avx512 {
#include "lanes_avx512.h"
// The order matters: each of these builds on the one before.
#include "scan.h"
#include "scan_integers.h"
#include "scan_non_finite.h"
#include "scan_pairs.h"
#include "scan_watch.h"
#include "path_table.h"

constexpr Path kTable = SONDE_PATH_TABLE("avx512", has_avx512);
}  // namespace avx512

// Constant: made by the compiler, not by code that runs when the library is loaded.
constexpr Path avx512_path = avx512::kTable;
}  // namespace sonde

#if defined(__clang__)
#pragma clang attribute pop
#endif

#endif
