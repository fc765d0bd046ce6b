// The single pass, written once over the lanes of an instruction set. Included by each path_*.cpp
// inside its own namespace, after its lanes.
//
// Every path adds element i of a block to lane i mod 16 and adds the lanes in the same order, so
// that all paths give the same bits.
#pragma once

struct Totals {
  double s[16], a[16], q[16];

  template <class T>
  void take(T value, std::size_t lane) {
    const auto x = static_cast<double>(value);
    s[lane] += x;
    a[lane] += std::fabs(x);
    q[lane] += x * x;
  }
};

inline double add_lanes(const double* lane) {
  double half[8];
  for (int k = 0; k < 8; ++k) half[k] = lane[k] + lane[k + 8];
  return ((half[0] + half[4]) + (half[2] + half[6])) + ((half[1] + half[5]) + (half[3] + half[7]));
}

// The sums of one block in sixteen lanes each: all three, or (not Full) only that of squares.
template <bool Full>
struct Sums {
  D4 s0, s1, s2, s3, a0, a1, a2, a3, q0, q1, q2, q3;

  Sums() { s0 = s1 = s2 = s3 = a0 = a1 = a2 = a3 = q0 = q1 = q2 = q3 = zeros(); }

  template <bool ExactSquare>
  static void add(D4 x, D4 one, D4& s, D4& a, D4& q) {
    if (Full) {
      // The sum goes through the multiplier (times one, which is exact): the adders are the
      // bottleneck, the multipliers are not.
      s = multiply_add(x, one, s);
      a = plus(a, absolute(x));
    }
    // Squares of up to 24 bits are exact in float64, so one rounding or two is the same.
    q = ExactSquare ? multiply_add(x, x, q) : plus(q, times(x, x));
  }

  // n is a multiple of 16. Works on copies, so that the compiler keeps them in registers.
  template <bool ExactSquare, class T>
  SONDE_SUM_LOOP void take(const T* p, std::size_t n) {
    const D4 one = fill(1.0);
    D4 t0 = s0, t1 = s1, t2 = s2, t3 = s3, b0 = a0, b1 = a1, b2 = a2, b3 = a3;
    D4 r0 = q0, r1 = q1, r2 = q2, r3 = q3;
    for (std::size_t i = 0; i < n; i += 16) {
      add<ExactSquare>(widen(p + i), one, t0, b0, r0);
      add<ExactSquare>(widen(p + i + 4), one, t1, b1, r1);
      add<ExactSquare>(widen(p + i + 8), one, t2, b2, r2);
      add<ExactSquare>(widen(p + i + 12), one, t3, b3, r3);
    }
    if (Full) {
      s0 = t0, s1 = t1, s2 = t2, s3 = t3;
      a0 = b0, a1 = b1, a2 = b2, a3 = b3;
    }
    q0 = r0, q1 = r1, q2 = r2, q3 = r3;
  }

  Totals finish() const {
    Totals totals;
    const D4 sums[12] = {s0, s1, s2, s3, a0, a1, a2, a3, q0, q1, q2, q3};
    for (int k = 0; k < 4; ++k) {
      store(totals.s + 4 * k, sums[k]);
      store(totals.a + 4 * k, sums[4 + k]);
      store(totals.q + 4 * k, sums[8 + k]);
    }
    return totals;
  }
};

// The second pass over a block: distances from its mean. `mean` is rounded; the sum of the distances,
// which should be zero, says by how much, and gives `block.sum` the digits it lost.
template <class T>
void look_again(const T* p, std::size_t n, double mean, Tally& block) {
  const D4 center = fill(mean);
  D4 s[4] = {zeros(), zeros(), zeros(), zeros()};
  D4 q[4] = {zeros(), zeros(), zeros(), zeros()};
  const std::size_t whole = n & ~std::size_t{15};
  for (std::size_t i = 0; i < whole; i += 16) {
    for (int k = 0; k < 4; ++k) {
      const D4 distance = minus(widen(p + i + 4 * k), center);
      s[k] = plus(s[k], distance);
      q[k] = plus(q[k], times(distance, distance));
    }
  }
  double sums[16], squares[16];
  for (int k = 0; k < 4; ++k) {
    store(sums + 4 * k, s[k]);
    store(squares + 4 * k, q[k]);
  }
  for (std::size_t i = whole; i < n; ++i) {
    const double distance = static_cast<double>(p[i]) - mean;
    sums[i & 15] += distance;
    squares[i & 15] += distance * distance;
  }
  const auto count = static_cast<double>(n);
  const double residue = add_lanes(sums);
  block.m2 = std::max(0.0, add_lanes(squares) - residue * residue / count);
  block.sum_rest = std::fma(mean, count, -block.sum) + residue;
  block.delicate = true;
}

// Sum of squares minus n mean^2 loses digits when the mean is much larger than the spread: then the
// block is read a second time, while it is in the cache.
inline constexpr double kCancels = 1.0 / 16;

template <bool Full, class Again>
void set_sums(Again elements, std::size_t n, const Totals& totals, Tally& block) {
  block.square_sum = add_lanes(totals.q);
  if (!Full) return;
  block.sum = add_lanes(totals.s);
  block.abs_sum = add_lanes(totals.a);
  if (block.max == block.min) return;  // no spread
  const double mean = block.sum / static_cast<double>(n);
  block.m2 = block.square_sum - block.sum * mean;
  if (block.m2 < kCancels * block.square_sum) look_again(elements(), n, mean, block);
}

// Counts and extremes of a block in which some element is not finite. Its sums mean nothing.
template <class T, class Bits, class Key>
void careful_block(const T* p, std::size_t n, Tally& block) {
  constexpr int kTop = static_cast<int>(sizeof(Bits)) * 8 - 1;
  constexpr Bits kMagnitude = static_cast<Bits>(~(Bits{1} << kTop));
  const Bits infinity = bit_cast<Bits>(std::numeric_limits<T>::infinity());
  const Key lowest = std::numeric_limits<Key>::min(), highest = std::numeric_limits<Key>::max();
  Key top = lowest, bottom = highest;
  Bits nan = 0, positive_inf = 0, negative_inf = 0, zero = 0, negative = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const Bits bits = bit_cast<Bits>(p[i]);
    const Bits magnitude = bits & kMagnitude;
    const bool finite = magnitude < infinity;
    const auto plain = static_cast<Key>(bits);
    const Key key = plain ^ ((plain >> kTop) & static_cast<Key>(kMagnitude));
    const Key up = finite ? key : lowest, down = finite ? key : highest;
    top = up > top ? up : top;
    bottom = down < bottom ? down : bottom;
    nan += magnitude > infinity;
    positive_inf += bits == infinity;
    negative_inf += bits == (infinity | ~kMagnitude);
    zero += magnitude == 0;
    negative += (bits > static_cast<Bits>(~kMagnitude)) & (magnitude <= infinity);
  }
  block.nan = static_cast<std::int64_t>(nan);
  block.positive_inf = static_cast<std::int64_t>(positive_inf);
  block.negative_inf = static_cast<std::int64_t>(negative_inf);
  block.zero = static_cast<std::int64_t>(zero);
  block.negative = static_cast<std::int64_t>(negative);
  if (static_cast<std::int64_t>(n) == block.non_finite()) return;
  const Key magnitude = static_cast<Key>(kMagnitude);
  block.max = static_cast<double>(bit_cast<T>(top ^ ((top >> kTop) & magnitude)));
  block.min = static_cast<double>(bit_cast<T>(bottom ^ ((bottom >> kTop) & magnitude)));
}

// float64 whose squares leave the range: the same sums in units of a power of two.
template <bool Full>
void scaled_block(const double* p, std::size_t n, Tally& block) {
  const double largest = std::max(std::fabs(block.max), std::fabs(block.min));
  block.exponent = largest == 0 ? kNoExponent : std::ilogb(largest);
  if (largest == 0) return;
  // Two steps, because 2^1074 is no float64.
  const double scale = std::ldexp(1.0, -block.exponent / 2);
  const double rest = std::ldexp(1.0, -block.exponent + block.exponent / 2);
  double scaled[kBlock];
  for (std::size_t i = 0; i < n; ++i) scaled[i] = p[i] * scale * rest;
  Totals totals{};
  for (std::size_t i = 0; i < n; ++i) totals.take(scaled[i], i & 15);
  set_sums<Full>([&scaled] { return static_cast<const double*>(scaled); }, n, totals, block);
}

inline constexpr double kHuge = 0x1p480, kTiny = 0x1p-480;

// `elements()` returns the block again, for the second pass, which most blocks do not need.
template <bool Full, class Again>
void conclude(Again elements, std::size_t n, const Extremes& found, const Totals& totals,
              Tally& block) {
  using T = std::remove_const_t<std::remove_pointer_t<decltype(elements())>>;
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  using Key = std::make_signed_t<Bits>;
  block.count = static_cast<std::int64_t>(n);
  // An element that is not finite makes the sum of squares so: no test per element is needed.
  if (!std::isfinite(add_lanes(totals.q))) {
    careful_block<T, Bits, Key>(elements(), n, block);
    if (block.non_finite() > 0) return;
  } else {
    block.max = found.max;
    block.min = found.min;
    block.zero = found.zero;
    block.negative = found.negative;
  }
  if constexpr (sizeof(T) == 8) {
    const double largest = std::max(std::fabs(block.max), std::fabs(block.min));
    if (!(largest <= kHuge && largest >= kTiny)) {
      scaled_block<Full>(elements(), n, block);
      return;
    }
  }
  set_sums<Full>(elements, n, totals, block);
}

template <class T>
void add_tail(T value, std::size_t lane, Extremes& found, Totals& totals) {
  const auto x = static_cast<double>(value);
  found.max = x > found.max ? x : found.max;
  found.min = x < found.min ? x : found.min;
  found.zero += x == 0;
  found.negative += x < 0;
  totals.take(x, lane);
}

// The hot loops are functions of their own: the compiler then spares them the registers that the
// rest of the work would take.

// n is a multiple of 32, as below.
template <bool Full, class T>
__attribute__((noinline)) void take_floats(const T* p, std::size_t n, Extremes& found,
                                           Totals& totals) {
  std::conditional_t<sizeof(T) == 4, Survey32<Full>, Survey64<Full>> survey(p[0]);
  Sums<Full> sums;
  const std::size_t steady = n / kStretch * kStretch;
  for (std::size_t i = 0; i < steady; i += kStretch) {
    survey.take(p + i, kStretch);
    sums.template take<sizeof(T) == 4>(p + i, kStretch);
  }
  if (steady < n) {
    survey.take(p + steady, n - steady);
    sums.template take<sizeof(T) == 4>(p + steady, n - steady);
  }
  found = survey.finish();
  totals = sums.finish();
}

// float16 and bfloat16: surveyed as bits, widened to float32, summed as such. What is summed was
// widened kLag elements ago, so that it has left the store buffer; survey and sums in one loop keep
// all units of the processor busy.
inline constexpr std::size_t kLag = std::max<std::size_t>(kStretch, 128);

struct Widened {
  alignas(64) float ring[2 * kLag];

  float* at(std::size_t i) { return ring + (i & (2 * kLag - 1)); }
};

template <bool Full, class T>
__attribute__((noinline)) void take_steadily(const T* p, std::size_t n, Widened& wide,
                                             Survey16<Full, T>& survey, Sums<Full>& sums) {
  Survey16<Full, T> look = survey;
  Sums<Full> total = sums;
  for (std::size_t i = 0; i < n; i += kStretch) {
    look.take(p + i + kLag, kStretch, wide.at(i + kLag));
    total.template take<true>(wide.at(i), kStretch);
  }
  survey = look;
  sums = total;
}

template <bool Full, class T>
void take_halves(const T* p, std::size_t n, RawExtremes& found, Totals& totals) {
  Widened wide;
  Survey16<Full, T> survey(p[0]);
  Sums<Full> sums;
  const std::size_t ahead = std::min(n, kLag);
  const std::size_t steady = (n - ahead) / kStretch * kStretch;
  for (std::size_t i = 0; i < ahead; i += 32) survey.take(p + i, 32, wide.at(i));
  take_steadily(p, steady, wide, survey, sums);
  for (std::size_t i = steady + ahead; i < n; i += 32) survey.take(p + i, 32, wide.at(i));
  for (std::size_t i = steady; i < n; i += 32) sums.template take<true>(wide.at(i), 32);
  found = survey.finish();
  totals = sums.finish();
}

template <bool Full, class T>
void float_block(const T* p, std::size_t n, Tally& block) {
  Extremes found;
  Totals totals;
  const std::size_t whole = n & ~std::size_t{31};
  take_floats<Full>(p, whole, found, totals);
  for (std::size_t i = whole; i < n; ++i) add_tail(p[i], i & 15, found, totals);
  conclude<Full>([p] { return p; }, n, found, totals, block);
}

template <bool Full, class T>
void half_block(const T* p, std::size_t n, Tally& block) {
  RawExtremes raw;
  Totals totals;
  const std::size_t whole = n & ~std::size_t{31};
  take_halves<Full>(p, whole, raw, totals);
  Extremes found{static_cast<double>(to_float(T{raw.max})),
                 static_cast<double>(to_float(T{raw.min})), raw.zero, raw.negative};
  for (std::size_t i = whole; i < n; ++i) add_tail(to_float(p[i]), i & 15, found, totals);
  alignas(64) float again[kBlock];
  const auto widened = [&] {
    for (std::size_t i = 0; i < n; ++i) again[i] = to_float(p[i]);
    return static_cast<const float*>(again);
  };
  conclude<Full>(widened, n, found, totals, block);
}

// Eight-bit floats: looked up in their table of 256 float32, then as float32.
template <bool Full, class T>
void eighth_block(const T* p, std::size_t n, Tally& block) {
  alignas(64) float wide[kBlock];
  const EighthTable& table = eighth_table(T::kind);
  for (std::size_t i = 0; i < n; ++i) wide[i] = table.value[p[i].bits];
  float_block<Full>(wide, n, block);
}

template <bool Full, class T>
void block_of(const T* p, std::size_t n, Tally& block) {
  if constexpr (std::is_floating_point_v<T>) {
    float_block<Full>(p, n, block);
  } else if constexpr (sizeof(T) == 2) {
    half_block<Full>(p, n, block);
  } else {
    eighth_block<Full>(p, n, block);
  }
}

template <bool Full, class T>
void scan_floats(const void* elements, std::size_t count, Tally& total) {
  const auto* p = static_cast<const T*>(elements);
  for (std::size_t i = 0; i < count; i += kBlock) {
    Tally block;
    block_of<Full>(p + i, std::min(kBlock, count - i), block);
    merge(total, block);
  }
}
