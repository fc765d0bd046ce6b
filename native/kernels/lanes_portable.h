// Plain C++ any compiler can vectorise as far as its target allows: integer reductions instead of
// floating ones, because those may be reordered.
#pragma once

// Survey and sums take turns.
#define SONDE_SUM_LOOP inline
inline constexpr std::size_t kStretch = 1024;

struct D4 {
  double v[4];
};

template <class F>
inline D4 each(F f) {
  return {{f(0), f(1), f(2), f(3)}};
}

inline D4 zeros() { return {{0, 0, 0, 0}}; }
inline D4 fill(double value) { return {{value, value, value, value}}; }
inline void store(double* out, D4 x) { std::memcpy(out, x.v, sizeof x.v); }
inline D4 plus(D4 a, D4 b) {
  return each([&](int k) { return a.v[k] + b.v[k]; });
}
inline D4 minus(D4 a, D4 b) {
  return each([&](int k) { return a.v[k] - b.v[k]; });
}
inline D4 times(D4 a, D4 b) {
  return each([&](int k) { return a.v[k] * b.v[k]; });
}
inline D4 absolute(D4 a) {
  return each([&](int k) { return std::fabs(a.v[k]); });
}
// Two roundings where the other paths have one: used only where the product is exact.
inline D4 multiply_add(D4 a, D4 b, D4 total) {
  return each([&](int k) { return total.v[k] + a.v[k] * b.v[k]; });
}
inline D4 larger(D4 a, D4 b) {
  return each([&](int k) { return a.v[k] > b.v[k] ? a.v[k] : b.v[k]; });
}
inline D4 divide(D4 a, D4 b) {
  return each([&](int k) { return a.v[k] / b.v[k]; });
}
inline int count_at_most(D4 x, D4 limit) {
  int count = 0;
  for (int k = 0; k < 4; ++k) count += x.v[k] <= limit.v[k];
  return count;
}

template <class T>
inline D4 widen(const T* p) {
  return each([&](int k) { return static_cast<double>(p[k]); });
}

// Bits of a float as a signed integer that sorts like the float (-0.0 just below 0.0).
inline std::int32_t sorting_key(float x) {
  const auto bits = bit_cast<std::int32_t>(x);
  return bits ^ ((bits >> 31) & 0x7fffffff);
}
inline std::int64_t sorting_key(double x) {
  const auto bits = bit_cast<std::int64_t>(x);
  return bits ^ ((bits >> 63) & std::numeric_limits<std::int64_t>::max());
}
inline float from_key(std::int32_t key) {
  return bit_cast<float>(key ^ ((key >> 31) & 0x7fffffff));
}
inline double from_key(std::int64_t key) {
  return bit_cast<double>(key ^ ((key >> 63) & std::numeric_limits<std::int64_t>::max()));
}

template <bool Full, class T, class Key>
struct PlainSurvey {
  Key top, bottom;
  std::int64_t zero = 0, negative = 0;

  explicit PlainSurvey(T first) : top(sorting_key(first)), bottom(top) {}

  void take(const T* p, std::size_t n) {
    Key high = top, low = bottom, zeros_seen = 0, negatives_seen = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const Key key = sorting_key(p[i]);
      high = key > high ? key : high;
      low = key < low ? key : low;
      if (Full) {
        zeros_seen += key == 0 || key == -1;
        negatives_seen += key < -1;
      }
    }
    top = high;
    bottom = low;
    zero += zeros_seen;
    negative += negatives_seen;
  }

  Extremes finish() const { return {from_key(top), from_key(bottom), zero, negative}; }
};

template <bool Full>
using Survey32 = PlainSurvey<Full, float, std::int32_t>;
template <bool Full>
using Survey64 = PlainSurvey<Full, double, std::int64_t>;

inline void widen_all(const Half* p, std::size_t n, float* out) {
  for (std::size_t i = 0; i < n; ++i) out[i] = to_float(p[i]);
}

// The even elements of each 32, then the odd, as the vector paths do.
inline void widen_all(const Brain* p, std::size_t n, float* out) {
  for (std::size_t i = 0; i < n; i += 32) {
    for (std::size_t k = 0; k < 16; ++k) {
      out[i + k] = to_float(p[i + 2 * k]);
      out[i + 16 + k] = to_float(p[i + 2 * k + 1]);
    }
  }
}

// Reads the raw 16 bits: see RawExtremes for why three integer extremes are enough.
template <bool Full, class T>
struct Survey16 {
  std::int16_t signed_max;
  std::uint16_t unsigned_max, unsigned_min;
  std::uint64_t zero = 0, negative = 0;

  explicit Survey16(T first)
      : signed_max(static_cast<std::int16_t>(first.bits)),
        unsigned_max(first.bits),
        unsigned_min(first.bits) {}

  void take(const T* p, std::size_t n, float* out) {
    std::int16_t high = signed_max;
    std::uint16_t far = unsigned_max, near = unsigned_min, zeros_seen = 0, negatives_seen = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const std::uint16_t bits = p[i].bits;
      const auto as_signed = static_cast<std::int16_t>(bits);
      high = as_signed > high ? as_signed : high;
      far = bits > far ? bits : far;
      near = bits < near ? bits : near;
      if (Full) {
        zeros_seen = static_cast<std::uint16_t>(zeros_seen + ((bits & 0x7fff) == 0));
        negatives_seen = static_cast<std::uint16_t>(negatives_seen + (bits > 0x8000));
      }
    }
    signed_max = high;
    unsigned_max = far;
    unsigned_min = near;
    zero += zeros_seen;
    negative += negatives_seen;
    widen_all(p, n, out);
  }

  RawExtremes finish() const {
    return raw_extremes(&signed_max, &unsigned_max, &unsigned_min, 1, zero, negative);
  }
};

inline double read_all(const char* p, std::size_t bytes) {
  std::uint64_t total = 0;
  for (std::size_t i = 0; i + 8 <= bytes; i += 8) {
    std::uint64_t word;
    std::memcpy(&word, p + i, 8);
    total += word;
  }
  return static_cast<double>(total);
}
