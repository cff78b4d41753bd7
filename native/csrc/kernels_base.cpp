// For any processor: vectors of four floats, as in SSE2 and NEON.
#include "kernels.h"

#include <cmath>
#include <cstring>

#define LANES 4
#define WIDE_ROWS 4
#define WIDE_VECS 2
#define PAIR_ROWS 4
#define ONE_ROWS 8
#define MOORING_ISA base
#define MOORING_KERNELS base_kernels
#include "kernels.inl"
