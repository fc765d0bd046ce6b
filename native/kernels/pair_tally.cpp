#include "pair_tally.h"

#include <algorithm>

namespace sonde {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Two tensors of zeros point the same way; with one of them there is no common direction.
double cosine(double dot, double norm_a, double norm_b) {
  if (norm_a == 0 && norm_b == 0) return 1.0;
  if (norm_a == 0 || norm_b == 0) return 0.0;
  // The larger first, so that the order of the tensors does not matter.
  const double share = dot / std::max(norm_a, norm_b) / std::min(norm_a, norm_b);
  return std::max(-1.0, std::min(1.0, share));
}

double relative(double error, double norm) {
  if (error == 0) return 0.0;
  return norm == 0 ? kInfinity : error / norm;
}

}  // namespace

void merge_pairs(PairTally& total, const PairTally& part) {
  total.count += part.count;
  total.finite += part.finite;
  total.nan_agreed += part.nan_agreed;
  total.inf_agreed += part.inf_agreed;
  total.equal += part.equal;
  total.within_1 += part.within_1;
  total.within_5 += part.within_5;
  total.max_abs_error = std::max(total.max_abs_error, part.max_abs_error);
  total.abs_error_sum += part.abs_error_sum;
  total.max_relative_error = std::max(total.max_relative_error, part.max_relative_error);
  total.relative_error_sum += part.relative_error_sum;
  total.largest = std::max(total.largest, part.largest);
  total.dot += part.dot;
  total.square_sum_a += part.square_sum_a;
  total.square_sum_b += part.square_sum_b;
  total.square_sum_error += part.square_sum_error;
  total.max_ulp = std::max(total.max_ulp, part.max_ulp);
}

double better_scale(const PairTally& tally) {
  constexpr double kHuge = 0x1p480, kTiny = 0x1p-480;
  if (tally.largest > kHuge) return 0x1p-600;
  return tally.largest > 0 && tally.largest < kTiny ? 0x1p600 : 0.0;
}

void write_pair_row(const PairTally& tally, double scale, std::int64_t copies, bool has_ulp,
                    double* row) {
  const auto times = [copies](std::int64_t count) { return static_cast<double>(count * copies); };
  row[kPairCount] = times(tally.count);
  row[kPairFiniteCount] = times(tally.finite);
  row[kPairNanAgreed] = times(tally.nan_agreed);
  row[kPairInfAgreed] = times(tally.inf_agreed);
  row[kPairNonFiniteDisagreed] =
      times(tally.count - tally.finite - tally.nan_agreed - tally.inf_agreed);
  row[kPairEqualCount] = times(tally.equal);
  row[kPairWithin1] = times(tally.within_1);
  row[kPairWithin5] = times(tally.within_5);
  for (int column = kPairMaxAbsError; column < kPairColumns; ++column) row[column] = kNaN;
  if (tally.finite == 0) return;
  const auto finite = static_cast<double>(tally.finite);
  const double norm_a = std::sqrt(tally.square_sum_a), norm_b = std::sqrt(tally.square_sum_b);
  const double error = std::sqrt(tally.square_sum_error);
  const double stretch = std::sqrt(static_cast<double>(copies)) / scale;
  row[kPairMaxAbsError] = tally.max_abs_error;
  row[kPairMeanAbsError] = tally.abs_error_sum / finite;
  row[kPairMaxRelativeError] = tally.max_relative_error;
  row[kPairMeanRelativeError] = tally.relative_error_sum / finite;
  row[kPairCosine] = tally.equal == tally.finite ? 1.0 : cosine(tally.dot, norm_a, norm_b);
  row[kPairRelativeL2] = relative(error, norm_b);
  if (has_ulp) row[kPairMaxUlp] = static_cast<double>(tally.max_ulp);
  row[kPairL2Error] = error * stretch;
  row[kPairNormA] = norm_a * stretch;
  row[kPairNormB] = norm_b * stretch;
}

}  // namespace sonde
