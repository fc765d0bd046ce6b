// Path: the functions of the kernels, compiled for one instruction set.
#pragma once

#include <algorithm>

#include "pair_tally.h"
#include "tally.h"

namespace sonde {

// Elements summed before parts are merged: small enough to be still in the first-level cache when a
// second pass is needed, large enough that the cost of merging does not matter.
inline constexpr std::size_t kBlock = 4096;

// What a survey of finite elements finds.
struct Extremes {
  double max;
  double min;
  std::int64_t zero;
  std::int64_t negative;
};

// The same for 16-bit floats, as bits.
struct RawExtremes {
  std::uint16_t max;
  std::uint16_t min;
  std::int64_t zero;
  std::int64_t negative;
};

// Sign-magnitude bits sort as integers without any conversion: read as signed, the largest is the
// maximum if any element has no sign; read as unsigned, the largest is the minimum if any element
// has one. Where all elements share a sign, the smallest unsigned is the other extreme.
inline RawExtremes raw_extremes(const std::int16_t* signed_max, const std::uint16_t* unsigned_max,
                                const std::uint16_t* unsigned_min, int lanes, std::uint64_t zero,
                                std::uint64_t negative) {
  std::int16_t high = signed_max[0];
  std::uint16_t far = unsigned_max[0];
  std::uint16_t near = unsigned_min[0];
  for (int k = 1; k < lanes; ++k) {
    high = std::max(high, signed_max[k]);
    far = std::max(far, unsigned_max[k]);
    near = std::min(near, unsigned_min[k]);
  }
  return {high >= 0 ? static_cast<std::uint16_t>(high) : near, far >= 0x8000u ? far : near,
          static_cast<std::int64_t>(zero), static_cast<std::int64_t>(negative)};
}

// The differences between a tensor's values now and its previous values.
struct ChangeTally {
  double moved_sum = 0;     // of |now - before|
  std::int64_t apart = 0;   // pairs that moved by more than the tolerance
};

struct Path {
  using Scan = void (*)(const void* elements, std::size_t count, Tally& total);
  using Widen = void (*)(const void* elements, std::size_t count, double* out);
  using Ulp = std::uint64_t (*)(const void* a, const void* b, std::size_t count);
  using Counter = std::int64_t (*)(const void* elements, std::size_t count);
  using Between = std::int64_t (*)(const void* elements, std::size_t count, double low,
                                   double high);

  const char* name;
  bool (*runs_here)();
  Scan full[kDTypeCount];
  Scan outline[kDTypeCount];
  Counter non_finite[kDTypeCount];
  Widen widen[kDTypeCount];
  Ulp max_ulp[kDTypeCount];  // null for bool and integers
  void (*compare)(double* a, double* b, std::size_t count, double scale, PairTally& tally);
  Between between[kDTypeCount];
  void (*change)(double* now, double* before, std::size_t count, double relative, double absolute,
                 ChangeTally& tally);
  double (*read_all)(const char* bytes, std::size_t count);
};

extern const Path portable_path;
#if defined(__x86_64__)
extern const Path avx2_path;
extern const Path avx512_path;
#elif defined(__aarch64__)
extern const Path neon_path;
#endif

}  // namespace sonde
