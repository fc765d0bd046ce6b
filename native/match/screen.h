// Whether a tensor's row of statistics alone shows that no watch condition has anything to tell.
//
// Says the same as sonde/conditions (`clears`), or less: what is nearer to a threshold than
// rounding can tell is left to Python.
#pragma once

#include <cmath>
#include <vector>

namespace sonde_screen {

// Columns of a row, as in sonde/core/statistics.py.
enum Column { kCount, kNan, kPositiveInf, kNegativeInf, kZeros, kNegatives, kPositives, kMax, kMin };
constexpr int kStd = 13;
constexpr int kColumns = 16;

// Numbers and kinds of tests as in sonde/conditions/screen.py.
constexpr int kZeroPercentage = 16;
constexpr int kDeviation = 17;
constexpr int kRange = 18;
enum Kind { kPlain, kFinite, kAbove, kBelow, kAtLeast, kShareBelow, kShareAbove, kAllZero };
constexpr int kTestNumbers = 4;  // kind, and up to three numbers
constexpr double kMargin = 1e-12;

inline bool is_finite(const double* row) {
  return row[kNan] + row[kPositiveInf] + row[kNegativeInf] == 0;
}

inline double measured(const double* row, int what) {
  switch (what) {
    case kZeroPercentage:
      return 100 * row[kZeros] / row[kCount];
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
  if (high == 0 && row[kMin] >= low) return 100 * (row[kZeros] + row[kNegatives]) / count;
  if (low == 0 && row[kMax] <= high) return 100 * (row[kZeros] + row[kPositives]) / count;
  return -1;
}

// Whether what the test asks about is surely not so. Of a NaN nothing is sure.
inline bool is_sure(const double* test, const double* row) {
  if (test[0] == kPlain) return row[kCount] > 0 && is_finite(row);
  if (test[0] == kFinite) return is_finite(row);
  if (test[0] == kAllZero) return row[kMax] > 0 || row[kMin] < 0;
  if (test[0] == kShareBelow || test[0] == kShareAbove) {
    const double found = share(row, test[1], test[2]);
    const double margin = found * kMargin;
    if (test[0] == kShareBelow) return test[3] <= 0 || (found >= 0 && found - margin >= test[3]);
    return test[3] >= 100 || (found >= 0 && found + margin <= test[3]);
  }
  const double value = measured(row, static_cast<int>(test[1]));
  const double margin = std::fabs(value) * kMargin;
  if (test[0] == kAbove) return value + margin <= test[2];
  if (test[0] == kBelow) return value - margin >= test[2];
  return value + margin < test[2];
}

// Numbers of watches, of the conditions of each, of the tests of each, each before what it counts.
// A watch is passed when one of its conditions is surely not so, a condition is when all its tests
// say so.
using Screen = std::vector<double>;

inline bool is_valid(const Screen& screen) {
  size_t at = 0;
  auto next = [&](double most) {
    if (at >= screen.size() || !(screen[at] >= 0 && screen[at] <= most)) return -1;
    return static_cast<int>(screen[at++]);
  };
  int watches = next(1e6);
  for (int w = 0; w < watches; ++w) {
    int conditions = next(1e6);
    if (conditions < 0) return false;
    for (int c = 0; c < conditions; ++c) {
      int tests = next(1e6);
      if (tests < 0) return false;
      for (int t = 0; t < tests; ++t, at += kTestNumbers) {
        if (at + kTestNumbers > screen.size()) return false;
        const double kind = screen[at], what = screen[at + 1];
        if (!(kind >= kPlain && kind <= kAllZero)) return false;
        if (kind >= kAbove && kind <= kAtLeast && !(what >= 0 && what <= kRange)) return false;
      }
    }
  }
  return watches >= 0 && at == screen.size();
}

inline bool passes(const Screen& screen, const double* row) {
  const double* at = screen.data();
  for (int watches = static_cast<int>(*at++); watches > 0; --watches) {
    bool is_passed = false;
    for (int conditions = static_cast<int>(*at++); conditions > 0; --conditions) {
      bool is_clear = true;
      for (int tests = static_cast<int>(*at++); tests > 0; --tests, at += kTestNumbers)
        is_clear = is_clear && is_sure(at, row);
      is_passed = is_passed || is_clear;
    }
    if (!is_passed) return false;
  }
  return true;
}

}  // namespace sonde_screen
