#include "path.h"

namespace sonde {
namespace portable {
#include "lanes_portable.h"
// The order matters: each of these builds on the one before.
#include "scan.h"
#include "scan_integers.h"
#include "scan_non_finite.h"
#include "scan_pairs.h"
#include "scan_watch.h"
#include "path_table.h"

inline bool always() { return true; }

constexpr Path kTable = SONDE_PATH_TABLE("portable", always);
}  // namespace portable

constexpr Path portable_path = portable::kTable;
}  // namespace sonde
