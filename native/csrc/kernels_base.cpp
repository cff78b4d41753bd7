// For any processor: vectors of four floats, as SSE2 and NEON have them.
#include "kernels.h"

#include <cmath>
#include <cstring>

#define LANES 4
#define MOST_ROWS 4
#define MOST_VECS 2
#define MOORING_ISA base
#define MOORING_KERNELS base_kernels
#include "kernels.inl"
