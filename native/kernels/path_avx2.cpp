#if defined(__x86_64__)

#include <immintrin.h>

#include "cpu.h"
#include "path.h"

// Everything from here on may use the instructions; nothing above may, because the linker could
// keep that copy of an inline function for code that runs on older processors. GCC makes templates
// at the end of the file, so the setting stays in force until there.
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c,popcnt"))), apply_to = function)
#else
#pragma GCC target("avx2,fma,f16c,popcnt")
#endif

namespace sonde {
namespace avx2 {
#include "lanes_avx2.h"
// The order matters: each of these builds on the one before.
#include "scan.h"
#include "scan_integers.h"
#include "scan_non_finite.h"
#include "scan_pairs.h"
#include "scan_watch.h"
#include "path_table.h"

constexpr Path kTable = SONDE_PATH_TABLE("avx2", has_avx2);
}  // namespace avx2

// Constant: made by the compiler, not by code that runs when the library is loaded.
constexpr Path avx2_path = avx2::kTable;
}  // namespace sonde

#if defined(__clang__)
#pragma clang attribute pop
#endif

#endif
