// How two tensors differ, element by element.
#pragma once

#include "element.h"
#include "shared/constants.h"

namespace sonde {

// Everything but the counts is over pairs of which both are finite. The sums of products are of
// elements times `scale` of the comparison.
struct PairTally {
  std::int64_t count = 0;
  std::int64_t finite = 0;
  std::int64_t nan_agreed = 0;
  std::int64_t inf_agreed = 0;
  std::int64_t equal = 0;
  std::int64_t within_1 = 0;
  std::int64_t within_5 = 0;
  double max_abs_error = 0;
  double abs_error_sum = 0;
  double max_relative_error = 0;
  double relative_error_sum = 0;
  double largest = 0;  // the largest magnitude on either side
  double dot = 0;
  double square_sum_a = 0;
  double square_sum_b = 0;
  double square_sum_error = 0;
  std::uint64_t max_ulp = 0;
};

void merge_pairs(PairTally& total, const PairTally& part);

// Whether products left the range of float64: then compare again with this scale; else 0.
double better_scale(const PairTally& tally);

void write_pair_row(const PairTally& tally, double scale, std::int64_t copies, bool has_ulp,
                    double* row);

}  // namespace sonde
