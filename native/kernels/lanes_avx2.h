// AVX2 with FMA and F16C: everything in 256-bit registers, counts as integer lanes.
#pragma once

// Sixteen registers hold the sums or the survey, not both: long turns, and the sum loop is a
// function of its own so that the compiler does not spill inside it.
#define SONDE_SUM_LOOP __attribute__((noinline))
inline constexpr std::size_t kStretch = 1024;

using D4 = __m256d;

inline D4 zeros() { return _mm256_setzero_pd(); }
inline D4 fill(double value) { return _mm256_set1_pd(value); }
inline void store(double* out, D4 x) { _mm256_storeu_pd(out, x); }
inline D4 plus(D4 total, D4 x) { return _mm256_add_pd(total, x); }
inline D4 minus(D4 x, D4 y) { return _mm256_sub_pd(x, y); }
inline D4 times(D4 x, D4 y) { return _mm256_mul_pd(x, y); }
inline D4 absolute(D4 x) { return _mm256_andnot_pd(_mm256_set1_pd(-0.0), x); }
inline D4 multiply_add(D4 x, D4 y, D4 total) { return _mm256_fmadd_pd(x, y, total); }
inline D4 larger(D4 x, D4 y) { return _mm256_max_pd(x, y); }
inline D4 divide(D4 x, D4 y) { return _mm256_div_pd(x, y); }
inline int count_at_most(D4 x, D4 limit) {
  const int mask = _mm256_movemask_pd(_mm256_cmp_pd(x, limit, _CMP_LE_OQ));
  return _mm_popcnt_u32(static_cast<unsigned>(mask));
}

inline D4 widen(const float* p) { return _mm256_cvtps_pd(_mm_loadu_ps(p)); }
inline D4 widen(const double* p) { return _mm256_loadu_pd(p); }
inline D4 widen(const std::int32_t* p) {
  return _mm256_cvtepi32_pd(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
// No conversion instruction before AVX-512: four scalar ones.
template <class T>
inline D4 widen(const T* p) {
  return _mm256_setr_pd(static_cast<double>(p[0]), static_cast<double>(p[1]),
                        static_cast<double>(p[2]), static_cast<double>(p[3]));
}

inline std::int64_t sum_of_lanes_32(__m256i counts) {
  alignas(32) std::int32_t lane[8];
  _mm256_store_si256(reinterpret_cast<__m256i*>(lane), counts);
  std::int64_t total = 0;
  for (const std::int32_t count : lane) total += count;
  return total;
}

template <bool Full>
struct Survey32 {
  __m256 top, bottom;
  __m256i zero = _mm256_setzero_si256(), negative = zero;

  explicit Survey32(float first) : top(_mm256_set1_ps(first)), bottom(top) {}

  void count(__m256 x) {
    const __m256 nought = _mm256_setzero_ps();
    const __m256 is_zero = _mm256_cmp_ps(x, nought, _CMP_EQ_OQ);
    const __m256 is_negative = _mm256_cmp_ps(x, nought, _CMP_LT_OQ);
    zero = _mm256_sub_epi32(zero, _mm256_castps_si256(is_zero));
    negative = _mm256_sub_epi32(negative, _mm256_castps_si256(is_negative));
  }

  void take(const float* p, std::size_t n) {
    __m256 top_too = top, bottom_too = bottom;
    for (std::size_t i = 0; i < n; i += 16) {
      const __m256 x = _mm256_loadu_ps(p + i);
      const __m256 y = _mm256_loadu_ps(p + i + 8);
      top = _mm256_max_ps(top, x);
      bottom = _mm256_min_ps(bottom, x);
      top_too = _mm256_max_ps(top_too, y);
      bottom_too = _mm256_min_ps(bottom_too, y);
      if (Full) {
        count(x);
        count(y);
      }
    }
    top = _mm256_max_ps(top, top_too);
    bottom = _mm256_min_ps(bottom, bottom_too);
  }

  Extremes finish() const {
    alignas(32) float high[8], low[8];
    _mm256_store_ps(high, top);
    _mm256_store_ps(low, bottom);
    Extremes result{high[0], low[0], sum_of_lanes_32(zero), sum_of_lanes_32(negative)};
    for (int k = 1; k < 8; ++k) {
      result.max = high[k] > result.max ? high[k] : result.max;
      result.min = low[k] < result.min ? low[k] : result.min;
    }
    return result;
  }
};

template <bool Full>
struct Survey64 {
  __m256d top, bottom;
  __m256i zero = _mm256_setzero_si256(), negative = zero;

  explicit Survey64(double first) : top(_mm256_set1_pd(first)), bottom(top) {}

  void take(const double* p, std::size_t n) {
    const __m256d nought = _mm256_setzero_pd();
    for (std::size_t i = 0; i < n; i += 4) {
      const __m256d x = _mm256_loadu_pd(p + i);
      top = _mm256_max_pd(top, x);
      bottom = _mm256_min_pd(bottom, x);
      if (Full) {
        const __m256d is_zero = _mm256_cmp_pd(x, nought, _CMP_EQ_OQ);
        const __m256d is_negative = _mm256_cmp_pd(x, nought, _CMP_LT_OQ);
        zero = _mm256_sub_epi64(zero, _mm256_castpd_si256(is_zero));
        negative = _mm256_sub_epi64(negative, _mm256_castpd_si256(is_negative));
      }
    }
  }

  Extremes finish() const {
    alignas(32) double high[4], low[4];
    alignas(32) std::int64_t zeros_of[4], negatives_of[4];
    _mm256_store_pd(high, top);
    _mm256_store_pd(low, bottom);
    _mm256_store_si256(reinterpret_cast<__m256i*>(zeros_of), zero);
    _mm256_store_si256(reinterpret_cast<__m256i*>(negatives_of), negative);
    Extremes result{high[0], low[0], zeros_of[0], negatives_of[0]};
    for (int k = 1; k < 4; ++k) {
      result.max = high[k] > result.max ? high[k] : result.max;
      result.min = low[k] < result.min ? low[k] : result.min;
      result.zero += zeros_of[k];
      result.negative += negatives_of[k];
    }
    return result;
  }
};

// Functions, not lambdas, wherever vectors are passed: GCC does not give lambdas inside templates
// the instruction set of the file.
inline __m128i low_half(__m256i x) { return _mm256_castsi256_si128(x); }
inline __m128i high_half(__m256i x) { return _mm256_extracti128_si256(x, 1); }

inline RawExtremes fold_extremes(__m256i signed_max, __m256i unsigned_max, __m256i unsigned_min,
                                 std::uint64_t zero, std::uint64_t negative) {
  alignas(16) std::int16_t top[8];
  alignas(16) std::uint16_t far[8], near[8];
  _mm_store_si128(reinterpret_cast<__m128i*>(top),
                  _mm_max_epi16(low_half(signed_max), high_half(signed_max)));
  _mm_store_si128(reinterpret_cast<__m128i*>(far),
                  _mm_max_epu16(low_half(unsigned_max), high_half(unsigned_max)));
  _mm_store_si128(reinterpret_cast<__m128i*>(near),
                  _mm_min_epu16(low_half(unsigned_min), high_half(unsigned_min)));
  return raw_extremes(top, far, near, 8, zero, negative);
}

inline void widen_32(const Half* p, __m256i, __m256i, float* out) {
  for (int k = 0; k < 32; k += 8) {
    const auto* source = reinterpret_cast<const __m128i*>(p + k);
    _mm256_storeu_ps(out + k, _mm256_cvtph_ps(_mm_loadu_si128(source)));
  }
}

// The even elements, then the odd: one shift and one mask, no shuffle.
inline void widen_32(const Brain*, __m256i x, __m256i y, float* out) {
  const __m256i odd = _mm256_set1_epi32(-65536);
  auto* to = reinterpret_cast<__m256i*>(out);
  _mm256_storeu_si256(to, _mm256_slli_epi32(x, 16));
  _mm256_storeu_si256(to + 1, _mm256_slli_epi32(y, 16));
  _mm256_storeu_si256(to + 2, _mm256_and_si256(x, odd));
  _mm256_storeu_si256(to + 3, _mm256_and_si256(y, odd));
}

// Reads the raw 16 bits: see RawExtremes for why three integer extremes are enough.
template <bool Full, class T>
struct Survey16 {
  __m256i signed_max, unsigned_max, unsigned_min;
  __m256i zero = _mm256_setzero_si256(), negative = zero;  // a block has at most 256 per lane

  explicit Survey16(T first)
      : signed_max(_mm256_set1_epi16(static_cast<short>(first.bits))),
        unsigned_max(signed_max),
        unsigned_min(signed_max) {}

  void take_16(__m256i x) {
    const __m256i sign = _mm256_set1_epi16(-0x8000);
    const __m256i nought = _mm256_setzero_si256();
    signed_max = _mm256_max_epi16(signed_max, x);
    unsigned_max = _mm256_max_epu16(unsigned_max, x);
    unsigned_min = _mm256_min_epu16(unsigned_min, x);
    if (Full) {
      const __m256i is_zero = _mm256_cmpeq_epi16(_mm256_add_epi16(x, x), nought);
      const __m256i is_negative = _mm256_cmpgt_epi16(_mm256_xor_si256(x, sign), nought);
      zero = _mm256_sub_epi16(zero, is_zero);
      negative = _mm256_sub_epi16(negative, is_negative);
    }
  }

  void take(const T* p, std::size_t n, float* out) {
    for (std::size_t i = 0; i < n; i += 32) {
      const __m256i x = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + i));
      const __m256i y = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + i + 16));
      take_16(x);
      take_16(y);
      widen_32(p + i, x, y, out + i);
    }
  }

  static std::uint64_t sum_of_lanes_16(__m256i counts) {
    const __m256i pairs = _mm256_madd_epi16(counts, _mm256_set1_epi16(1));
    return static_cast<std::uint64_t>(sum_of_lanes_32(pairs));
  }

  RawExtremes finish() const {
    return fold_extremes(signed_max, unsigned_max, unsigned_min, sum_of_lanes_16(zero),
                         sum_of_lanes_16(negative));
  }
};

inline double read_all(const char* p, std::size_t bytes) {
  __m256 a = _mm256_setzero_ps(), b = a, c = a, d = a;
  for (std::size_t i = 0; i + 128 <= bytes; i += 128) {
    const auto* f = reinterpret_cast<const float*>(p + i);
    a = _mm256_add_ps(a, _mm256_loadu_ps(f));
    b = _mm256_add_ps(b, _mm256_loadu_ps(f + 8));
    c = _mm256_add_ps(c, _mm256_loadu_ps(f + 16));
    d = _mm256_add_ps(d, _mm256_loadu_ps(f + 24));
  }
  alignas(32) float lane[8];
  _mm256_store_ps(lane, _mm256_add_ps(_mm256_add_ps(a, b), _mm256_add_ps(c, d)));
  double total = 0;
  for (const float part : lane) total += static_cast<double>(part);
  return total;
}
