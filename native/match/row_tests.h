// Tests of a tensor's row of statistics: whether the row alone shows that no watch condition is met.
//
// Agrees with sonde/watch/conditions (`clears`), except that values so near a threshold that rounding
// decides are left to Python.
#pragma once

#include "shared/constants.h"

#include <cmath>
#include <vector>

namespace sonde_match {

using namespace sonde;  // the constants

constexpr double kMargin = 1e-12;

inline bool is_finite(const double* row) {
  return row[kNanCount] + row[kPositiveInfCount] + row[kNegativeInfCount] == 0;
}

inline double column_value(const double* row, int what) {
  switch (what) {
    case kZeroPercentage:
      return 100 * row[kZeroCount] / row[kCount];
    case kDeviation:
      return row[kCount] < 2 ? 0.0 : row[kStd] * std::sqrt(row[kCount] / (row[kCount] - 1));
    case kRange:
      return row[kMax] - row[kMin];
    default:
      return row[what];
  }
}

// Per cent of the elements within bounds; negative if the row does not tell.
inline double share(const double* row, double low, double high) {
  const double count = row[kCount];
  if (row[kMin] >= low && row[kMax] <= high) return 100;
  if (row[kMax] < low || row[kMin] > high) return 0;
  if (high == 0 && row[kMin] >= low) return 100 * (row[kZeroCount] + row[kNegativeCount]) / count;
  if (low == 0 && row[kMax] <= high) return 100 * (row[kZeroCount] + row[kPositiveCount]) / count;
  return -1;
}

// Whether the tested condition is certainly false; with a NaN nothing is certain.
inline bool is_sure(const double* test, const double* row) {
  if (test[0] == kTestPlain) return row[kCount] > 0 && is_finite(row);
  if (test[0] == kTestFinite) return is_finite(row);
  if (test[0] == kTestAllZero) return row[kMax] > 0 || row[kMin] < 0;
  if (test[0] == kTestShareBelow || test[0] == kTestShareAbove) {
    const double found = share(row, test[1], test[2]);
    const double margin = found * kMargin;
    if (test[0] == kTestShareBelow) return test[3] <= 0 || (found >= 0 && found - margin >= test[3]);
    return test[3] >= 100 || (found >= 0 && found + margin <= test[3]);
  }
  const double value = column_value(row, static_cast<int>(test[1]));
  const double margin = std::fabs(value) * kMargin;
  if (test[0] == kTestAbove) return value + margin <= test[2];
  if (test[0] == kTestBelow) return value - margin >= test[2];
  return value + margin < test[2];
}

// A nested list: the number of watches, then for each the number of its conditions, then for each
// the number of its tests and the tests. A watch passes if one of its conditions is certainly false;
// a condition is certainly false if all its tests say so.
using RowTests = std::vector<double>;

inline bool is_valid(const RowTests& tests) {
  size_t at = 0;
  auto next = [&](double most) {
    if (at >= tests.size() || !(tests[at] >= 0 && tests[at] <= most)) return -1;
    return static_cast<int>(tests[at++]);
  };
  int watches = next(1e6);
  for (int w = 0; w < watches; ++w) {
    int conditions = next(1e6);
    if (conditions < 0) return false;
    for (int c = 0; c < conditions; ++c) {
      int count = next(1e6);
      if (count < 0) return false;
      for (int t = 0; t < count; ++t, at += kTestNumbers) {
        if (at + kTestNumbers > tests.size()) return false;
        const double kind = tests[at], what = tests[at + 1];
        if (!(kind >= kTestPlain && kind <= kTestAllZero)) return false;
        if (kind >= kTestAbove && kind <= kTestAtLeast && !(what >= 0 && what <= kRange)) return false;
      }
    }
  }
  return watches >= 0 && at == tests.size();
}

inline bool passes(const RowTests& tests, const double* row) {
  const double* at = tests.data();
  for (int watches = static_cast<int>(*at++); watches > 0; --watches) {
    bool is_passed = false;
    for (int conditions = static_cast<int>(*at++); conditions > 0; --conditions) {
      bool is_clear = true;
      for (int count = static_cast<int>(*at++); count > 0; --count, at += kTestNumbers)
        is_clear = is_clear && is_sure(at, row);
      is_passed = is_passed || is_clear;
    }
    if (!is_passed) return false;
  }
  return true;
}

}  // namespace sonde_match
