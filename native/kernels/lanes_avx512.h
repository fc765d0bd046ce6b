// AVX-512: survey in 512-bit registers with mask counting; sums in 256-bit registers, because the
// memory form of vcvtps2pd needs no shuffle only at that width, and there are 32 of them.
#pragma once

// Survey and sums share one loop: there are registers for both.
#define SONDE_SUM_LOOP inline
inline constexpr std::size_t kStretch = 32;

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
  return _mm_popcnt_u32(_mm256_cmp_pd_mask(x, limit, _CMP_LE_OQ));
}

inline D4 widen(const float* p) { return _mm256_cvtps_pd(_mm_loadu_ps(p)); }
inline D4 widen(const double* p) { return _mm256_loadu_pd(p); }
inline D4 widen(const std::int32_t* p) {
  return _mm256_cvtepi32_pd(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
inline D4 widen(const std::uint32_t* p) {
  return _mm256_cvtepu32_pd(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
inline D4 widen(const std::int64_t* p) {
  return _mm256_cvtepi64_pd(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
inline D4 widen(const std::uint64_t* p) {
  return _mm256_cvtepu64_pd(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}

template <bool Full>
struct Survey32 {
  __m512 top, bottom;
  std::uint64_t zero = 0, negative = 0;

  explicit Survey32(float first) : top(_mm512_set1_ps(first)), bottom(top) {}

  void take(const float* p, std::size_t n) {
    const __m512 nought = _mm512_setzero_ps();
    for (std::size_t i = 0; i < n; i += 32) {
      const __m512 x = _mm512_loadu_ps(p + i);
      const __m512 y = _mm512_loadu_ps(p + i + 16);
      top = _mm512_max_ps(_mm512_max_ps(top, x), y);
      bottom = _mm512_min_ps(_mm512_min_ps(bottom, x), y);
      if (Full) {
        zero += static_cast<unsigned>(_mm_popcnt_u32(
            _mm512_kunpackw(_mm512_cmp_ps_mask(x, nought, _CMP_EQ_OQ),
                            _mm512_cmp_ps_mask(y, nought, _CMP_EQ_OQ))));
        negative += static_cast<unsigned>(_mm_popcnt_u32(
            _mm512_kunpackw(_mm512_cmp_ps_mask(x, nought, _CMP_LT_OQ),
                            _mm512_cmp_ps_mask(y, nought, _CMP_LT_OQ))));
      }
    }
  }

  Extremes finish() const {
    return {_mm512_reduce_max_ps(top), _mm512_reduce_min_ps(bottom),
            static_cast<std::int64_t>(zero), static_cast<std::int64_t>(negative)};
  }
};

template <bool Full>
struct Survey64 {
  __m512d top, bottom;
  std::uint64_t zero = 0, negative = 0;

  explicit Survey64(double first) : top(_mm512_set1_pd(first)), bottom(top) {}

  void take(const double* p, std::size_t n) {
    const __m512d nought = _mm512_setzero_pd();
    for (std::size_t i = 0; i < n; i += 16) {
      const __m512d x = _mm512_loadu_pd(p + i);
      const __m512d y = _mm512_loadu_pd(p + i + 8);
      top = _mm512_max_pd(_mm512_max_pd(top, x), y);
      bottom = _mm512_min_pd(_mm512_min_pd(bottom, x), y);
      if (Full) {
        zero += static_cast<unsigned>(_mm_popcnt_u32(
            _mm512_kunpackb(_mm512_cmp_pd_mask(x, nought, _CMP_EQ_OQ),
                            _mm512_cmp_pd_mask(y, nought, _CMP_EQ_OQ))));
        negative += static_cast<unsigned>(_mm_popcnt_u32(
            _mm512_kunpackb(_mm512_cmp_pd_mask(x, nought, _CMP_LT_OQ),
                            _mm512_cmp_pd_mask(y, nought, _CMP_LT_OQ))));
      }
    }
  }

  Extremes finish() const {
    return {_mm512_reduce_max_pd(top), _mm512_reduce_min_pd(bottom),
            static_cast<std::int64_t>(zero), static_cast<std::int64_t>(negative)};
  }
};

// Functions, not lambdas, wherever vectors are passed: GCC does not give lambdas inside templates
// the instruction set of the file.
inline __m256i low_half(__m512i x) { return _mm512_castsi512_si256(x); }
inline __m256i high_half(__m512i x) { return _mm512_extracti64x4_epi64(x, 1); }
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

inline void widen_32(const Half* p, __m512i, float* out) {
  for (int k = 0; k < 32; k += 8) {
    const auto* source = reinterpret_cast<const __m128i*>(p + k);
    _mm256_storeu_ps(out + k, _mm256_cvtph_ps(_mm_loadu_si128(source)));
  }
}

inline void widen_32(const Brain*, __m512i x, float* out) {
  _mm512_storeu_si512(out, _mm512_slli_epi32(x, 16));
  _mm512_storeu_si512(out + 16, _mm512_and_si512(x, _mm512_set1_epi32(-65536)));
}

// Reads the raw 16 bits: see RawExtremes for why three integer extremes are enough.
template <bool Full, class T>
struct Survey16 {
  __m512i signed_max, unsigned_max, unsigned_min;
  std::uint64_t zero = 0, negative = 0;

  explicit Survey16(T first)
      : signed_max(_mm512_set1_epi16(static_cast<short>(first.bits))),
        unsigned_max(signed_max),
        unsigned_min(signed_max) {}

  void take(const T* p, std::size_t n, float* out) {
    const __m512i magnitude = _mm512_set1_epi16(0x7fff);
    const __m512i negative_zero = _mm512_set1_epi16(-0x8000);
    for (std::size_t i = 0; i < n; i += 32) {
      const __m512i x = _mm512_loadu_si512(p + i);
      signed_max = _mm512_max_epi16(signed_max, x);
      unsigned_max = _mm512_max_epu16(unsigned_max, x);
      unsigned_min = _mm512_min_epu16(unsigned_min, x);
      if (Full) {
        zero += static_cast<unsigned>(_mm_popcnt_u32(_mm512_testn_epi16_mask(x, magnitude)));
        negative +=
            static_cast<unsigned>(_mm_popcnt_u32(_mm512_cmpgt_epu16_mask(x, negative_zero)));
      }
      widen_32(p + i, x, out + i);
    }
  }

  RawExtremes finish() const {
    return fold_extremes(_mm256_max_epi16(low_half(signed_max), high_half(signed_max)),
                         _mm256_max_epu16(low_half(unsigned_max), high_half(unsigned_max)),
                         _mm256_min_epu16(low_half(unsigned_min), high_half(unsigned_min)), zero,
                         negative);
  }
};

// In 256-bit loads: those read memory faster than 512-bit ones.
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
