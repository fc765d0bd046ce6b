// What the library computes, independent of Python.
#pragma once

#include <vector>

#include "layout.h"
#include "path.h"

namespace sonde {

// The paths this processor runs, the fastest first.
const std::vector<const Path*>& available_paths();

// The path in use. `choose_path` gives false when no available path has the name.
const Path& current_path();
bool choose_path(const char* name);

// Upper bound of threads one call may use; 1 at first. More than one is used only for more than
// kPiece elements. The result does not depend on it. Gives the previous limit.
int set_thread_limit(int limit);

// Elements one thread takes at a time, and that are summed up apart.
inline constexpr std::int64_t kPiece = std::int64_t{1} << 20;

// One row of kRowColumns float64 for the elements of `layout` (from any_order).
void summarize(const Layout& layout, DType dtype, Depth depth, double* row);

// The same for `count` elements that follow each other.
void summarize_run(const void* address, std::int64_t count, DType dtype, Depth depth, double* row);

// How many elements are NaN or infinite.
std::int64_t count_non_finite(const Layout& layout, DType dtype);

// One row of kPairColumns float64: how the elements of the two tensors differ.
void compare(const PairLayout& layout, DType first, DType second, double* row);

// How many elements are in low <= x <= high; NaN is not.
std::int64_t count_between(const Layout& layout, DType dtype, double low, double high);

// How far a tensor's values are from its previous values, and how many elements changed by more
// than absolute + relative * |before|.
ChangeTally tally_change(const PairLayout& layout, DType now, DType before, double relative,
                         double absolute);

// Copies elements begin <= i < end of `layout` (from logical_order) to `out`, without gaps.
void copy_range(const Layout& layout, std::int64_t begin, std::int64_t end, char* out);

Layout single_run(const void* address, std::int64_t count, int itemsize);

}  // namespace sonde
