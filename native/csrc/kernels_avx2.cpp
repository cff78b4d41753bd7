#include "kernels.h"

#include <cmath>
#include <cstring>

#if defined(__x86_64__)
#pragma GCC target("avx2,fma")
#define LANES 8
#define WIDE_ROWS 6
#define WIDE_VECS 2
#define PAIR_ROWS 6
#define ONE_ROWS 12
#define MOORING_ISA avx2
#define MOORING_KERNELS avx2_kernels
#include "kernels.inl"
#endif
