#if defined(__aarch64__)

#include <arm_neon.h>

#include "path.h"

namespace sonde {
namespace neon {
#include "lanes_neon.h"
// The order matters: each of these builds on the one before.
#include "scan.h"
#include "scan_integers.h"
#include "scan_non_finite.h"
#include "scan_pairs.h"
#include "scan_watch.h"
#include "path_table.h"

inline bool always() { return true; }  // NEON is part of 64-bit ARM

constexpr Path kTable = SONDE_PATH_TABLE("neon", always);
}  // namespace neon

constexpr Path neon_path = neon::kTable;
}  // namespace sonde

#endif
