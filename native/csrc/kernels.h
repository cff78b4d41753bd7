// Kernels for one segment of a batch: consecutive whole graphs, or a part of one graph, of at most a few hundred nodes.
//
// kernels.inl implements these functions once; every kernels_*.cpp compiles it for one instruction set. Matrices are
// row-major float32. A row of the scores holds slot * heads + head.
#pragma once
#include <cstdint>

namespace mooring {

struct Segment {
  int64_t first_graph, last_graph;  // half-open
  int64_t first_node, last_node;    // half-open
  int64_t part;                     // row of the buffers of partial results, or -1 for whole graphs
  int64_t nodes() const { return last_node - first_node; }
};

struct Batch {
  const int64_t* ptr;  // [graphs + 1]
  int64_t rows, width; // slots * heads, and the width of the values
};

struct Write {
  Batch batch;
  const float *scores, *values;        // [nodes, rows], [nodes, width]
  float *content, *top, *rest;         // [graphs, rows, width], [graphs, rows] twice
  float *part_content, *part_top, *part_mass;
};

struct WriteGrad {
  Batch batch;
  const float *scores, *values, *top, *rest;
  const float *grad_content, *offset;  // [graphs, rows, width], [graphs, rows]
  float *grad_scores, *grad_values;    // either may be null
};

// Slot-FiLM: an affine map of the nodes plus their contexts, a gelu, then a bounded modulation.
struct Film {
  int64_t channels;
  const float *x, *node_weight, *node_bias, *film_weight, *film_bias;  // weights transposed: [in, out]
  float *before, *bounds, *out;        // [nodes, width], [nodes, 2 * channels] or null, [nodes, channels]
};

struct FilmGrad {
  int64_t channels;
  const float *x, *node_weight, *film_weight;            // weights as stored: [out, in]
  const float *film_weight_transposed, *film_bias;       // for bounds that were not saved
  const float *before, *bounds, *grad_out;
  float *grad_x;
  float *grad_node_weight, *grad_node_bias, *grad_film_weight, *grad_film_bias;  // sums of one task, accumulated
};

struct Read {
  Batch batch;
  int64_t heads;
  const float *scores, *values;        // [nodes, rows], [graphs, rows, width]
  float *context;                      // [nodes, width]; not with film
  const Film* film;
};

struct ReadGrad {
  Batch batch;
  int64_t heads;
  const float *scores, *values, *grad_context;
  float *grad_scores, *grad_values, *part_grad_values;  // values: [graphs, rows, width], or null
  const FilmGrad* film;
};

struct Product {  // out = a @ table of the graph; gradients of both
  const int64_t* ptr;
  int64_t inner, outer;
  const float *a, *table;              // [nodes, inner], [graphs, outer, inner]
  float *out;                          // [nodes, outer]
  const float *grad_out;
  float *grad_a, *grad_table, *part_grad_table;
};

struct Kernels {
  void (*write)(const Write&, const Segment&, float* scratch);
  void (*write_grad)(const WriteGrad&, const Segment&, float* scratch);
  void (*read)(const Read&, const Segment&, float* scratch);
  void (*read_grad)(const ReadGrad&, const Segment&, float* scratch);
  void (*product)(const Product&, const Segment&, float* scratch);
  void (*product_grad)(const Product&, const Segment&, float* scratch);
};

// Number of floats of scratch that any of the functions needs for a segment.
inline int64_t scratch_size(int64_t nodes, int64_t rows, int64_t width, int64_t channels) {
  return 2 * nodes * rows + rows * width + nodes * (2 * width + 4 * channels) + 256;
}

extern const Kernels base_kernels;
#if defined(__x86_64__)
extern const Kernels avx2_kernels;
extern const Kernels avx512_kernels;
#endif

}  // namespace mooring
