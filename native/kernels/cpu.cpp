#include "cpu.h"

#if defined(__x86_64__)

#include <cpuid.h>

namespace sonde {
namespace {

struct Features {
  unsigned base = 0;      // leaf 1, ecx
  unsigned extended = 0;  // leaf 7, ebx
  unsigned saved = 0;     // registers the operating system keeps across a task switch
};

bool has(unsigned word, int bit) { return (word >> bit & 1u) != 0; }

Features read_features() {
  Features features;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0) return features;
  features.base = c;
  if (has(c, 27)) {
    unsigned low = 0, high = 0;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    features.saved = low;
  }
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) != 0) features.extended = b;
  return features;
}

}  // namespace

bool has_avx2() {
  const Features features = read_features();
  const bool saved = (features.saved & 0x06u) == 0x06u;
  const bool fma = has(features.base, 12), f16c = has(features.base, 29);
  return saved && fma && f16c && has(features.extended, 5);
}

bool has_avx512() {
  const Features features = read_features();
  const bool saved = (features.saved & 0xe6u) == 0xe6u;
  const bool f = has(features.extended, 16), dq = has(features.extended, 17);
  const bool bw = has(features.extended, 30), vl = has(features.extended, 31);
  return has_avx2() && saved && f && dq && bw && vl;
}

}  // namespace sonde

#endif
