// The functions of this path, one per element type in the order of DType. Included last.
#pragma once

#define SONDE_SCANS(FULL)                                                                     \
  {                                                                                           \
    scan_integers<Boolean>, scan_integers<std::int8_t>, scan_integers<std::int16_t>,          \
        scan_integers<std::int32_t>, scan_integers<std::int64_t>, scan_integers<std::uint8_t>, \
        scan_integers<std::uint16_t>, scan_integers<std::uint32_t>,                           \
        scan_integers<std::uint64_t>, scan_floats<FULL, Half>, scan_floats<FULL, Brain>,      \
        scan_floats<FULL, float>, scan_floats<FULL, double>,                                  \
        scan_floats<FULL, Eighth<DType::Float8E4M3FN>>,                                       \
        scan_floats<FULL, Eighth<DType::Float8E4M3FNUZ>>,                                     \
        scan_floats<FULL, Eighth<DType::Float8E5M2>>,                                         \
        scan_floats<FULL, Eighth<DType::Float8E5M2FNUZ>>,                                     \
        scan_floats<FULL, Eighth<DType::Float8E8M0FNU>>                                       \
  }

#define SONDE_PATH_TABLE(NAME, RUNS_HERE)                                                      \
  {                                                                                            \
    NAME, RUNS_HERE, SONDE_SCANS(true), SONDE_SCANS(false),                                    \
        {none, none, none, none, none, none, none, none, none,                                 \
         count_non_finite<NotFiniteHalf>, count_non_finite<NotFiniteBrain>,                    \
         count_non_finite<NotFinite32>, count_non_finite<NotFinite64>,                         \
         count_non_finite<NotFiniteE4M3>, count_non_finite<NotFiniteIs<0x80>>,                 \
         count_non_finite<NotFiniteE5M2>, count_non_finite<NotFiniteIs<0x80>>,                 \
         count_non_finite<NotFiniteIs<0xff>>},                                                 \
        {widen_block<Boolean>, widen_block<std::int8_t>, widen_block<std::int16_t>,            \
         widen_block<std::int32_t>, widen_block<std::int64_t>, widen_block<std::uint8_t>,      \
         widen_block<std::uint16_t>, widen_block<std::uint32_t>, widen_block<std::uint64_t>,   \
         widen_block<Half>, widen_block<Brain>, widen_block<float>, widen_block<double>,       \
         widen_block<Eighth<DType::Float8E4M3FN>>, widen_block<Eighth<DType::Float8E4M3FNUZ>>, \
         widen_block<Eighth<DType::Float8E5M2>>, widen_block<Eighth<DType::Float8E5M2FNUZ>>,   \
         widen_block<Eighth<DType::Float8E8M0FNU>>},                                           \
        {nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,      \
         max_ulp<NotFiniteHalf, true>, max_ulp<NotFiniteBrain, true>,                          \
         max_ulp<NotFinite32, true>, max_ulp<NotFinite64, true>,                               \
         max_ulp<NotFiniteE4M3, true>, max_ulp<NotFiniteIs<0x80>, true>,                       \
         max_ulp<NotFiniteE5M2, true>, max_ulp<NotFiniteIs<0x80>, true>,                       \
         max_ulp<NotFiniteIs<0xff>, false>},                                                   \
        compare_block,                                                                         \
        {count_between<Boolean>, count_between<std::int8_t>, count_between<std::int16_t>,      \
         count_between<std::int32_t>, count_between<std::int64_t>,                             \
         count_between<std::uint8_t>, count_between<std::uint16_t>,                            \
         count_between<std::uint32_t>, count_between<std::uint64_t>, count_between<Half>,      \
         count_between<Brain>, count_between<float>, count_between<double>,                    \
         count_between<Eighth<DType::Float8E4M3FN>>,                                           \
         count_between<Eighth<DType::Float8E4M3FNUZ>>,                                         \
         count_between<Eighth<DType::Float8E5M2>>,                                             \
         count_between<Eighth<DType::Float8E5M2FNUZ>>,                                         \
         count_between<Eighth<DType::Float8E8M0FNU>>},                                         \
        change_block, read_all                                                                 \
  }
