// NEON on 64-bit ARM: pairs of float64 lanes, two to a D4.
#pragma once

// Survey and sums take turns; a block is read from the first cache.
#define SONDE_SUM_LOOP inline
inline constexpr std::size_t kStretch = 256;

struct D4 {
  float64x2_t lo, hi;
};

inline D4 fill(double value) { return {vdupq_n_f64(value), vdupq_n_f64(value)}; }
inline D4 zeros() { return fill(0.0); }
inline void store(double* out, D4 x) {
  vst1q_f64(out, x.lo);
  vst1q_f64(out + 2, x.hi);
}
inline D4 plus(D4 a, D4 b) { return {vaddq_f64(a.lo, b.lo), vaddq_f64(a.hi, b.hi)}; }
inline D4 minus(D4 a, D4 b) { return {vsubq_f64(a.lo, b.lo), vsubq_f64(a.hi, b.hi)}; }
inline D4 times(D4 a, D4 b) { return {vmulq_f64(a.lo, b.lo), vmulq_f64(a.hi, b.hi)}; }
inline D4 absolute(D4 x) { return {vabsq_f64(x.lo), vabsq_f64(x.hi)}; }
inline D4 multiply_add(D4 a, D4 b, D4 total) {
  return {vfmaq_f64(total.lo, a.lo, b.lo), vfmaq_f64(total.hi, a.hi, b.hi)};
}
inline D4 larger(D4 a, D4 b) { return {vmaxq_f64(a.lo, b.lo), vmaxq_f64(a.hi, b.hi)}; }
inline D4 divide(D4 a, D4 b) { return {vdivq_f64(a.lo, b.lo), vdivq_f64(a.hi, b.hi)}; }
inline int count_at_most(D4 x, D4 limit) {
  const uint64x2_t both = vaddq_u64(vcleq_f64(x.lo, limit.lo), vcleq_f64(x.hi, limit.hi));
  return -static_cast<int>(vaddvq_u64(both));  // true is all ones: minus one
}

inline D4 widen(const float* p) {
  const float32x4_t x = vld1q_f32(p);
  return {vcvt_f64_f32(vget_low_f32(x)), vcvt_high_f64_f32(x)};
}
inline D4 widen(const double* p) { return {vld1q_f64(p), vld1q_f64(p + 2)}; }
inline D4 widen(const std::int64_t* p) {
  return {vcvtq_f64_s64(vld1q_s64(p)), vcvtq_f64_s64(vld1q_s64(p + 2))};
}
inline D4 widen(const std::uint64_t* p) {
  return {vcvtq_f64_u64(vld1q_u64(p)), vcvtq_f64_u64(vld1q_u64(p + 2))};
}
inline D4 widen(const std::int32_t* p) {
  const int32x4_t x = vld1q_s32(p);
  return {vcvtq_f64_s64(vmovl_s32(vget_low_s32(x))), vcvtq_f64_s64(vmovl_high_s32(x))};
}
inline D4 widen(const std::uint32_t* p) {
  const uint32x4_t x = vld1q_u32(p);
  return {vcvtq_f64_u64(vmovl_u32(vget_low_u32(x))), vcvtq_f64_u64(vmovl_high_u32(x))};
}

template <bool Full>
struct Survey32 {
  float32x4_t top, bottom;
  uint32x4_t zero = vdupq_n_u32(0), negative = zero;

  explicit Survey32(float first) : top(vdupq_n_f32(first)), bottom(top) {}

  void take(const float* p, std::size_t n) {
    for (std::size_t i = 0; i < n; i += 4) {
      const float32x4_t x = vld1q_f32(p + i);
      top = vmaxq_f32(top, x);
      bottom = vminq_f32(bottom, x);
      if (Full) {
        zero = vsubq_u32(zero, vceqzq_f32(x));
        negative = vsubq_u32(negative, vcltzq_f32(x));
      }
    }
  }

  Extremes finish() const {
    return {vmaxvq_f32(top), vminvq_f32(bottom), static_cast<std::int64_t>(vaddvq_u32(zero)),
            static_cast<std::int64_t>(vaddvq_u32(negative))};
  }
};

template <bool Full>
struct Survey64 {
  float64x2_t top, bottom;
  uint64x2_t zero = vdupq_n_u64(0), negative = zero;

  explicit Survey64(double first) : top(vdupq_n_f64(first)), bottom(top) {}

  void take(const double* p, std::size_t n) {
    for (std::size_t i = 0; i < n; i += 2) {
      const float64x2_t x = vld1q_f64(p + i);
      top = vmaxq_f64(top, x);
      bottom = vminq_f64(bottom, x);
      if (Full) {
        zero = vsubq_u64(zero, vceqzq_f64(x));
        negative = vsubq_u64(negative, vcltzq_f64(x));
      }
    }
  }

  Extremes finish() const {
    return {vmaxvq_f64(top), vminvq_f64(bottom), static_cast<std::int64_t>(vaddvq_u64(zero)),
            static_cast<std::int64_t>(vaddvq_u64(negative))};
  }
};

inline void widen_32(const Half* p, float* out) {
  for (int k = 0; k < 32; k += 4) {
    const uint16x4_t bits = vld1_u16(&p[k].bits);
    vst1q_f32(out + k, vcvt_f32_f16(vreinterpret_f16_u16(bits)));
  }
}

// The even elements of each 32, then the odd, as on the other paths.
inline void widen_32(const Brain* p, float* out) {
  for (int k = 0; k < 16; k += 4) {
    const uint32x4_t pair = vreinterpretq_u32_u16(vld1q_u16(&p[2 * k].bits));
    vst1q_f32(out + k, vreinterpretq_f32_u32(vshlq_n_u32(pair, 16)));
    vst1q_f32(out + 16 + k,
              vreinterpretq_f32_u32(vandq_u32(pair, vdupq_n_u32(0xffff0000u))));
  }
}

// Reads the raw 16 bits: see RawExtremes for why three integer extremes are enough.
template <bool Full, class T>
struct Survey16 {
  int16x8_t signed_max;
  uint16x8_t unsigned_max, unsigned_min;
  uint16x8_t zero = vdupq_n_u16(0), negative = zero;  // a block has at most 512 per lane

  explicit Survey16(T first)
      : signed_max(vdupq_n_s16(static_cast<std::int16_t>(first.bits))),
        unsigned_max(vdupq_n_u16(first.bits)),
        unsigned_min(unsigned_max) {}

  void take(const T* p, std::size_t n, float* out) {
    for (std::size_t i = 0; i < n; i += 8) {
      const uint16x8_t x = vld1q_u16(&p[i].bits);
      signed_max = vmaxq_s16(signed_max, vreinterpretq_s16_u16(x));
      unsigned_max = vmaxq_u16(unsigned_max, x);
      unsigned_min = vminq_u16(unsigned_min, x);
      if (Full) {
        zero = vsubq_u16(zero, vceqzq_u16(vshlq_n_u16(x, 1)));
        negative = vsubq_u16(negative, vcgtq_u16(x, vdupq_n_u16(0x8000)));
      }
    }
    for (std::size_t i = 0; i < n; i += 32) widen_32(p + i, out + i);
  }

  RawExtremes finish() const {
    const std::int16_t high = vmaxvq_s16(signed_max);
    const std::uint16_t far = vmaxvq_u16(unsigned_max), near = vminvq_u16(unsigned_min);
    return raw_extremes(&high, &far, &near, 1, vaddlvq_u16(zero), vaddlvq_u16(negative));
  }
};

inline double read_all(const char* p, std::size_t bytes) {
  float32x4_t a = vdupq_n_f32(0), b = a, c = a, d = a;
  for (std::size_t i = 0; i + 64 <= bytes; i += 64) {
    const auto* f = reinterpret_cast<const float*>(p + i);
    a = vaddq_f32(a, vld1q_f32(f));
    b = vaddq_f32(b, vld1q_f32(f + 4));
    c = vaddq_f32(c, vld1q_f32(f + 8));
    d = vaddq_f32(d, vld1q_f32(f + 12));
  }
  return static_cast<double>(vaddvq_f32(vaddq_f32(vaddq_f32(a, b), vaddq_f32(c, d))));
}
