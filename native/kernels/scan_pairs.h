// One pass over two tensors. Included after scan.h, by each path inside its own namespace.
#pragma once

template <class T>
void widen_block(const void* elements, std::size_t n, double* out) {
  const auto* p = static_cast<const T*>(elements);
  if constexpr (std::is_arithmetic_v<T>) {
    for (std::size_t i = 0; i < n; ++i) out[i] = static_cast<double>(p[i]);
  } else if constexpr (std::is_same_v<T, Boolean>) {
    for (std::size_t i = 0; i < n; ++i) out[i] = p[i].bits != 0 ? 1.0 : 0.0;
  } else if constexpr (sizeof(T) == 1) {
    const EighthTable& table = eighth_table(T::kind);
    for (std::size_t i = 0; i < n; ++i) out[i] = static_cast<double>(table.value[p[i].bits]);
  } else {
    for (std::size_t i = 0; i < n; ++i) out[i] = static_cast<double>(to_float(p[i]));
  }
}

// Half a magnitude below the smallest normal float64 counts as that: no division by zero.
inline constexpr double kSmallest = std::numeric_limits<double>::min();

struct PairSums {
  D4 max_error, error, max_relative, relative, largest, dot, a, b, square;
  std::int64_t equal = 0, within_1 = 0, within_5 = 0;

  PairSums() {
    max_error = error = max_relative = relative = largest = dot = a = b = square = zeros();
  }

  void take(D4 x, D4 y, D4 scale) {
    const D4 distance = absolute(minus(x, y));
    const D4 magnitude = larger(absolute(x), absolute(y));
    // Of halves, because the distance of two large numbers may be beyond float64.
    const D4 half = fill(0.5), near = absolute(minus(times(x, half), times(y, half)));
    const D4 share = divide(near, larger(times(magnitude, half), fill(kSmallest)));
    max_error = larger(max_error, distance);
    error = plus(error, distance);
    max_relative = larger(max_relative, share);
    relative = plus(relative, share);
    largest = larger(largest, magnitude);
    equal += count_at_most(distance, zeros());
    within_1 += count_at_most(share, fill(0.001));
    within_5 += count_at_most(share, fill(0.005));
    const D4 u = times(x, scale), v = times(y, scale), w = minus(u, v);
    dot = plus(dot, times(u, v));
    a = plus(a, times(u, u));
    b = plus(b, times(v, v));
    square = plus(square, times(w, w));
  }
};

inline double add_four(D4 x) {
  double lane[4];
  store(lane, x);
  return (lane[0] + lane[2]) + (lane[1] + lane[3]);
}

inline double max_four(D4 x) {
  double lane[4];
  store(lane, x);
  return std::max(std::max(lane[0], lane[1]), std::max(lane[2], lane[3]));
}

// Pairs of which all are finite. Pads with zeros to a multiple of four: pairs that are equal.
inline void finite_pairs(double* a, double* b, std::size_t n, double scale, PairTally& tally) {
  const std::size_t padded = (n + 3) & ~std::size_t{3};
  for (std::size_t i = n; i < padded; ++i) a[i] = b[i] = 0.0;
  const D4 unit = fill(scale);
  PairSums sums;
  for (std::size_t i = 0; i < padded; i += 4) sums.take(widen(a + i), widen(b + i), unit);
  const auto padding = static_cast<std::int64_t>(padded - n);
  tally.finite = static_cast<std::int64_t>(n);
  tally.equal = sums.equal - padding;
  tally.within_1 = sums.within_1 - padding;
  tally.within_5 = sums.within_5 - padding;
  tally.max_abs_error = max_four(sums.max_error);
  tally.abs_error_sum = add_four(sums.error);
  tally.max_relative_error = max_four(sums.max_relative);
  tally.relative_error_sum = add_four(sums.relative);
  tally.largest = max_four(sums.largest);
  tally.dot = add_four(sums.dot);
  tally.square_sum_a = add_four(sums.a);
  tally.square_sum_b = add_four(sums.b);
  tally.square_sum_error = add_four(sums.square);
}

// Keeps the finite pairs, moved together; counts the others.
inline std::size_t drop_non_finite(double* a, double* b, std::size_t n, PairTally& tally) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const double x = a[i], y = b[i];
    if (std::isfinite(x) && std::isfinite(y)) {
      a[kept] = x;
      b[kept] = y;
      ++kept;
    } else if (std::isnan(x) && std::isnan(y)) {
      ++tally.nan_agreed;
    } else if (x == y) {
      ++tally.inf_agreed;
    }
  }
  return kept;
}

inline bool all_finite(const double* p, std::size_t n) {
  std::uint64_t bad = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const auto magnitude = bit_cast<std::uint64_t>(p[i]) & 0x7fffffffffffffffu;
    bad |= magnitude + 0x0010000000000000u;  // carries into the top bit from infinity on
  }
  return (bad >> 63) == 0;
}

// Pairs as float64, in buffers that may be changed and have room for three more.
inline void compare_block(double* a, double* b, std::size_t n, double scale, PairTally& tally) {
  tally.count = static_cast<std::int64_t>(n);
  if (!all_finite(a, n) || !all_finite(b, n)) n = drop_non_finite(a, b, n, tally);
  finite_pairs(a, b, n, scale, tally);
}

// Bits of a floating number as a signed integer that counts representable numbers from zero; zero
// and negative zero are the same.
template <class Bits>
inline std::make_signed_t<Bits> steps_from_zero(Bits bits) {
  using Steps = std::make_signed_t<Bits>;
  constexpr int kTop = static_cast<int>(sizeof(Bits)) * 8 - 1;
  const auto sign = static_cast<Steps>(static_cast<Steps>(bits) >> kTop);
  const auto magnitude = static_cast<Steps>(bits & static_cast<Bits>(~(Bits{1} << kTop)));
  return static_cast<Steps>((magnitude ^ sign) - sign);
}

// The most representable numbers between the elements of a pair, both finite.
template <class Test, bool HasSign>
std::uint64_t max_ulp(const void* left, const void* right, std::size_t n) {
  using Bits = typename Test::Bits;
  using Steps = std::conditional_t<HasSign, std::make_signed_t<Bits>, Bits>;
  const auto* a = static_cast<const Bits*>(left);
  const auto* b = static_cast<const Bits*>(right);
  Bits most = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const Steps x = HasSign ? static_cast<Steps>(steps_from_zero(a[i])) : static_cast<Steps>(a[i]);
    const Steps y = HasSign ? static_cast<Steps>(steps_from_zero(b[i])) : static_cast<Steps>(b[i]);
    const Steps high = x > y ? x : y, low = x > y ? y : x;
    const auto apart = static_cast<Bits>(static_cast<Bits>(high) - static_cast<Bits>(low));
    // Arithmetic in place of a choice: the compiler then sees a plain maximum.
    const auto first = static_cast<Bits>(Test::test(a[i]));
    const auto second = static_cast<Bits>(Test::test(b[i]));
    const auto skipped = static_cast<Bits>(first | second);
    most = std::max(most, static_cast<Bits>(apart & static_cast<Bits>(skipped - 1)));
  }
  return most;
}
