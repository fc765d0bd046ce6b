// Which instructions the processor and the operating system offer.
#pragma once

namespace sonde {

bool has_avx2();    // with FMA and F16C
bool has_avx512();  // F, BW, VL and DQ, besides the above

}  // namespace sonde
