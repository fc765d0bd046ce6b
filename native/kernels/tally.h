// Tally: the statistics of the elements read so far. Two tallies can be merged, and a tally is
// written as a row of kRowColumns float64.
#pragma once

#include "element.h"
#include "shared/constants.h"

namespace sonde {

// Sums are kept in units of a power of two, so that squares of huge or tiny float64 stay in range:
// sum and abs_sum in 2^exponent, square_sum and m2 in 4^exponent. Every other type has exponent 0.
// The sums mean nothing once a non-finite element was seen: the results then follow from counts.
struct Tally {
  std::int64_t count = 0;
  std::int64_t nan = 0;
  std::int64_t positive_inf = 0;
  std::int64_t negative_inf = 0;
  std::int64_t zero = 0;
  std::int64_t negative = 0;  // below zero, -inf included
  double max = -std::numeric_limits<double>::infinity();  // over finite elements
  double min = std::numeric_limits<double>::infinity();
  std::uint64_t wide_max = 0;  // int64 and uint64, as keys that sort as unsigned
  std::uint64_t wide_min = ~std::uint64_t{0};
  double sum = 0;
  double sum_rest = 0;  // rounding error of `sum`; only where `delicate`
  double abs_sum = 0;
  double square_sum = 0;
  double m2 = 0;  // sum of squared distances from the mean
  int exponent = 0;
  bool delicate = false;  // the mean is much larger than the spread: means are compared with all digits

  std::int64_t non_finite() const { return nan + positive_inf + negative_inf; }
};

// The exponent of a part that holds only zeros: any other part decides the unit.
inline constexpr int kNoExponent = -8192;

// Adds `part` to `total` (Chan, Golub and LeVeque for the spread).
void merge(Tally& total, const Tally& part);

// Which columns were computed: all, or only counts of non-finite, extremes and the norm; columns
// that were not computed are NaN.
enum class Depth { Full, Outline };

// Writes one row; every element counts as `copies` elements (dimensions expanded with stride 0).
void write_row(const Tally& tally, std::int64_t copies, DType dtype, Depth depth, double* row);

}  // namespace sonde
