// Numbers that Python and the native code share.
// Made by `python native/generate_constants.py` from the Python definitions; do not edit.
#pragma once

namespace sonde {

// sonde/core/statistics.py: the columns of a row.
enum Column : int {
  kCount = 0,
  kNanCount = 1,
  kPositiveInfCount = 2,
  kNegativeInfCount = 3,
  kZeroCount = 4,
  kNegativeCount = 5,
  kPositiveCount = 6,
  kMax = 7,
  kMin = 8,
  kFiniteMax = 9,
  kFiniteMin = 10,
  kAvg = 11,
  kL2norm = 12,
  kStd = 13,
  kAbsMean = 14,
  kDtype = 15,
};
inline constexpr int kRowColumns = 16;

// sonde/kernels/distances.py: the columns of a row of distances.
enum PairColumn : int {
  kPairCount = 0,
  kPairFiniteCount = 1,
  kPairNanAgreed = 2,
  kPairInfAgreed = 3,
  kPairNonFiniteDisagreed = 4,
  kPairEqualCount = 5,
  kPairWithin1 = 6,
  kPairWithin5 = 7,
  kPairMaxAbsError = 8,
  kPairMeanAbsError = 9,
  kPairMaxRelativeError = 10,
  kPairMeanRelativeError = 11,
  kPairCosine = 12,
  kPairRelativeL2 = 13,
  kPairMaxUlp = 14,
  kPairL2Error = 15,
  kPairNormA = 16,
  kPairNormB = 17,
};
inline constexpr int kPairColumns = 18;

// sonde/watch/conditions/screen.py: what a test of a row asks.
enum TestKind : int {
  kTestPlain = 0,
  kTestFinite = 1,
  kTestAbove = 2,
  kTestBelow = 3,
  kTestAtLeast = 4,
  kTestShareBelow = 5,
  kTestShareAbove = 6,
  kTestAllZero = 7,
};
inline constexpr int kTestNumbers = 4;

// The same: what a test can ask about that is computed of a row.
enum DerivedColumn : int {
  kZeroPercentage = 16,
  kDeviation = 17,
  kRange = 18,
};

// sonde/adapters/torch/eager/op_tree.py: what an op does with an output's memory.
enum OutputKind : int {
  kFresh = 0,
  kAlias = 1,
  kWritten = 2,
};

// sonde/adapters/torch/eager/matcher.py: what Python sees of the module _match.
inline constexpr int kInterface = 9;

}  // namespace sonde
