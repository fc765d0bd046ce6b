#include "tally.h"

#include <algorithm>

namespace sonde {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Brings the sums of `tally` to the unit 2^exponent.
void rescale(Tally& tally, int exponent) {
  const int shift = std::max(tally.exponent - exponent, kNoExponent);
  tally.sum = std::ldexp(tally.sum, shift);
  tally.sum_rest = std::ldexp(tally.sum_rest, shift);
  tally.abs_sum = std::ldexp(tally.abs_sum, shift);
  tally.square_sum = std::ldexp(tally.square_sum, 2 * shift);
  tally.m2 = std::ldexp(tally.m2, 2 * shift);
  tally.exponent = exponent;
}

// The distance between the means of two parts, exact to the last digits of both.
double fine_distance(const Tally& a, const Tally& b) {
  const auto a_count = static_cast<double>(a.count), b_count = static_cast<double>(b.count);
  const double a_mean = a.sum / a_count, b_mean = b.sum / b_count;
  const double a_rest = (std::fma(-a_mean, a_count, a.sum) + a.sum_rest) / a_count;
  const double b_rest = (std::fma(-b_mean, b_count, b.sum) + b.sum_rest) / b_count;
  return (b_mean - a_mean) + (b_rest - a_rest);
}

void add_sum(Tally& total, const Tally& part) {
  const double sum = total.sum + part.sum;
  if (total.delicate) {  // Knuth: what the addition rounded away
    const double taken = sum - total.sum;
    total.sum_rest += part.sum_rest + ((total.sum - (sum - taken)) + (part.sum - taken));
  }
  total.sum = sum;
}

void merge_sums(Tally& total, const Tally& part) {
  const auto total_count = static_cast<double>(total.count);
  const auto part_count = static_cast<double>(part.count);
  total.delicate = total.delicate || part.delicate;
  const double distance = total.delicate
                              ? fine_distance(total, part)
                              : part.sum / part_count - total.sum / total_count;
  const double weight = total_count * (part_count / (total_count + part_count));
  total.m2 += part.m2 + distance * distance * weight;
  add_sum(total, part);
  total.abs_sum += part.abs_sum;
  total.square_sum += part.square_sum;
}

// The result of a sum over elements of which some are not finite.
double propagate(const Tally& tally, bool signs_matter) {
  if (tally.nan > 0) return kNaN;
  if (!signs_matter) return kInfinity;
  if (tally.positive_inf > 0 && tally.negative_inf > 0) return kNaN;
  return tally.positive_inf > 0 ? kInfinity : -kInfinity;
}

double highest(const Tally& tally, bool any_finite) {
  if (tally.nan > 0) return kNaN;
  if (tally.positive_inf > 0) return kInfinity;
  if (any_finite) return tally.max;
  return tally.negative_inf > 0 ? -kInfinity : kNaN;
}

double lowest(const Tally& tally, bool any_finite) {
  if (tally.nan > 0) return kNaN;
  if (tally.negative_inf > 0) return -kInfinity;
  if (any_finite) return tally.min;
  return tally.positive_inf > 0 ? kInfinity : kNaN;
}

void write_extremes(const Tally& tally, DType dtype, double* row) {
  const bool any_finite = tally.count > tally.non_finite();
  if (is_wide_integer(dtype) && any_finite) {
    const std::uint64_t flip = dtype == DType::Int64 ? std::uint64_t{1} << 63 : 0;
    const std::uint64_t top = tally.wide_max ^ flip;
    const std::uint64_t bottom = tally.wide_min ^ flip;
    const bool is_signed = flip != 0;
    row[kMax] = is_signed ? static_cast<double>(static_cast<std::int64_t>(top))
                          : static_cast<double>(top);
    row[kMin] = is_signed ? static_cast<double>(static_cast<std::int64_t>(bottom))
                          : static_cast<double>(bottom);
    row[kFiniteMax] = bit_cast<double>(top);
    row[kFiniteMin] = bit_cast<double>(bottom);
    return;
  }
  // Adding +0.0 turns -0.0 into 0.0: an extreme that is zero has no sign.
  row[kMax] = highest(tally, any_finite) + 0.0;
  row[kMin] = lowest(tally, any_finite) + 0.0;
  row[kFiniteMax] = any_finite ? tally.max + 0.0 : kNaN;
  row[kFiniteMin] = any_finite ? tally.min + 0.0 : kNaN;
}

// Then avg and std are known without rounding.
bool all_equal(const Tally& tally, DType dtype) {
  return tally.count > 0 && (is_wide_integer(dtype) ? tally.wide_max == tally.wide_min
                                                    : tally.max == tally.min);
}

}  // namespace

void merge(Tally& total, const Tally& part) {
  if (part.count == 0) return;
  if (total.count == 0) {
    total = part;
    return;
  }
  if (total.non_finite() + part.non_finite() == 0) {
    if (total.exponent == part.exponent) {
      merge_sums(total, part);
    } else {
      Tally other = part;
      const int exponent = std::max(total.exponent, part.exponent);
      rescale(total, exponent);
      rescale(other, exponent);
      merge_sums(total, other);
    }
  }
  total.count += part.count;
  total.nan += part.nan;
  total.positive_inf += part.positive_inf;
  total.negative_inf += part.negative_inf;
  total.zero += part.zero;
  total.negative += part.negative;
  total.max = std::max(total.max, part.max);
  total.min = std::min(total.min, part.min);
  total.wide_max = std::max(total.wide_max, part.wide_max);
  total.wide_min = std::min(total.wide_min, part.wide_min);
}

void write_row(const Tally& tally, std::int64_t copies, DType dtype, Depth depth, double* row) {
  const auto times = [copies](std::int64_t count) { return static_cast<double>(count * copies); };
  const auto count = static_cast<double>(tally.count);
  const bool finite = tally.non_finite() == 0;
  const bool full = depth == Depth::Full;
  row[kCount] = times(tally.count);
  row[kNanCount] = times(tally.nan);
  row[kPositiveInfCount] = times(tally.positive_inf);
  row[kNegativeInfCount] = times(tally.negative_inf);
  row[kZeroCount] = full ? times(tally.zero) : kNaN;
  row[kNegativeCount] = full ? times(tally.negative) : kNaN;
  row[kPositiveCount] =
      full ? times(tally.count - tally.nan - tally.zero - tally.negative) : kNaN;
  write_extremes(tally, dtype, row);
  const double norm = std::sqrt(tally.square_sum * static_cast<double>(copies));
  row[kL2norm] = finite ? std::ldexp(norm, tally.exponent) : propagate(tally, false);
  row[kAvg] = row[kStd] = row[kAbsMean] = kNaN;
  if (full && finite && all_equal(tally, dtype)) {
    row[kAvg] = row[kMax];
    row[kStd] = 0;
    row[kAbsMean] = std::fabs(row[kMax]);
  } else if (full && tally.count > 0) {
    const double mean = (tally.sum + tally.sum_rest) / count;
    row[kAvg] = finite ? std::ldexp(mean, tally.exponent) + 0.0 : propagate(tally, true);
    row[kStd] = finite ? std::ldexp(std::sqrt(tally.m2 / count), tally.exponent) : kNaN;
    row[kAbsMean] =
        finite ? std::ldexp(tally.abs_sum / count, tally.exponent) : propagate(tally, false);
  }
  row[kDtype] = static_cast<double>(static_cast<int>(dtype));
}

}  // namespace sonde
