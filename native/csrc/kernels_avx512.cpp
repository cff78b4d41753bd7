#include "kernels.h"

#include <cmath>
#include <cstring>

#if defined(__x86_64__)
#pragma GCC target("avx512f,avx512dq,avx512vl,avx512bw,fma,prefer-vector-width=512")
#define LANES 16
#define WIDE_ROWS 6
#define WIDE_VECS 4
#define PAIR_ROWS 12
#define ONE_ROWS 12
#define MOORING_ISA avx512
#define MOORING_KERNELS avx512_kernels
#include "kernels.inl"
#endif
