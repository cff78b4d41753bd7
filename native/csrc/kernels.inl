// The kernels, for vectors of LANES floats; MOORING_ISA names the instance. Included by kernels_*.cpp only.
//
// Tiles of a product keep the arithmetic units busy and their sums in registers: WIDE_ROWS rows of WIDE_VECS vectors,
// PAIR_ROWS rows of two vectors, ONE_ROWS rows of one.
namespace mooring {
namespace MOORING_ISA {

typedef float vec __attribute__((vector_size(LANES * 4)));
typedef float loose __attribute__((vector_size(LANES * 4), aligned(4), may_alias));
typedef int32_t ints __attribute__((vector_size(LANES * 4)));
#define INLINE static inline __attribute__((always_inline))

INLINE vec load(const float* p) { return (vec) * (const loose*)p; }
INLINE void store(float* p, vec v) { *(loose*)p = (loose)v; }
INLINE vec load(const float* p, int64_t count) {
  vec v = {};
  std::memcpy(&v, p, count * sizeof(float));
  return v;
}
INLINE void store(float* p, vec v, int64_t count) { std::memcpy(p, &v, count * sizeof(float)); }
INLINE vec fill(float f) { return vec{} + f; }
INLINE vec larger(vec a, vec b) { return a > b ? a : b; }

// Calls body(offset, load, store) for each full vector of LANES numbers, and once for the remainder.
template <class Body>
INLINE void each(int64_t count, Body body) {
  int64_t i = 0;
  for (; i + LANES <= count; i += LANES) body(i, LANES);
  if (i < count) body(i, count - i);
}
INLINE vec take(const float* p, int64_t count) { return count == LANES ? load(p) : load(p, count); }
INLINE void put(float* p, vec v, int64_t count) {
  if (count == LANES) store(p, v);
  else store(p, v, count);
}

// The exponential with relative error below 2e-7; zero below the normal range, NaN for NaN.
INLINE vec exponential(vec x) {
  const vec lowest = fill(-87.3f), highest = fill(88.7f);
  vec y = x < lowest ? lowest : x;
  y = y > highest ? highest : y;
  vec scaled = y * 1.44269504088896341f;
  ints whole = __builtin_convertvector(scaled + (scaled < 0.f ? fill(-0.5f) : fill(0.5f)), ints);
  vec n = __builtin_convertvector(whole, vec);
  vec r = y - n * 0.693359375f;
  r = r + n * 2.12194440e-4f;
  vec p = fill(1.9875691500e-4f);
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.f;
  ints half = whole >> 1, bits = (half + 127) << 23, others = (whole - half + 127) << 23;
  p = p * (vec)bits * (vec)others;
  p = x < lowest ? fill(0.f) : p;
  p = x > highest ? fill(__builtin_inff()) : p;
  return x == x ? p : x;
}

// Absolute error below 2e-7: the result is added to features of magnitude one.
INLINE vec hyperbolic_tangent(vec x) { return 1.f - 2.f / (exponential(2.f * x) + 1.f); }

// Distribution function and density of the normal distribution (Abramowitz and Stegun 7.1.26).
INLINE vec normal(vec x, vec& density) {
  vec z = (x < 0.f ? -x : x) * 0.70710678118654752f;
  vec e = exponential(-z * z), t = 1.f / (1.f + 0.3275911f * z);
  vec tail = 0.5f * ((((1.061405429f * t - 1.453152027f) * t + 1.421413741f) * t - 0.284496736f) * t + 0.254829592f) * t * e;
  density = e * 0.3989422804014327f;
  return x < 0.f ? tail : 1.f - tail;
}

// c (+)= a @ b, or a.T @ b, for ROWS rows and VECS vectors of columns. The last vector is shifted back to `shift` columns
// before its place, so that it ends with the matrix, and only its new columns are stored.
template <bool TRANSPOSED, int ROWS, int VECS>
INLINE void tile(int64_t k, const float* a, int64_t lda, const float* b, int64_t ldb, float* c, int64_t ldc, bool add,
                 int64_t shift) {
  vec sums[ROWS][VECS];
  for (int i = 0; i < ROWS; i++)
    for (int v = 0; v < VECS; v++) sums[i][v] = fill(0.f);
  const int64_t last = (VECS - 1) * LANES - shift;
  for (int64_t p = 0; p < k; p++) {
    vec right[VECS];
    for (int v = 0; v < VECS; v++) right[v] = load(b + p * ldb + (v < VECS - 1 ? v * LANES : last));
    for (int i = 0; i < ROWS; i++) {
      vec left = fill(TRANSPOSED ? a[p * lda + i] : a[i * lda + p]);
      for (int v = 0; v < VECS; v++) sums[i][v] += left * right[v];
    }
  }
  for (int i = 0; i < ROWS; i++)
    for (int v = 0; v < VECS; v++) {
      float* place = c + i * ldc + (v < VECS - 1 ? v * LANES : last);
      vec sum = sums[i][v];
      if (v < VECS - 1 || shift == 0) {
        store(place, add ? load(place) + sum : sum);
      } else {
        for (int64_t lane = shift; lane < LANES; lane++) place[lane] = add ? place[lane] + sum[lane] : sum[lane];
      }
    }
}

template <bool TRANSPOSED, int ROWS, int VECS>
INLINE void columns(int64_t m, int64_t k, const float* a, int64_t lda, const float* b, int64_t ldb, float* c,
                    int64_t ldc, bool add, int64_t shift) {
  const int64_t step = TRANSPOSED ? 1 : lda;
  int64_t i = 0;
  for (; i + ROWS <= m; i += ROWS) tile<TRANSPOSED, ROWS, VECS>(k, a + i * step, lda, b, ldb, c + i * ldc, ldc, add, shift);
  if (i + 4 <= m) {
    tile<TRANSPOSED, 4, VECS>(k, a + i * step, lda, b, ldb, c + i * ldc, ldc, add, shift);
    i += 4;
  }
  for (; i < m; i++) tile<TRANSPOSED, 1, VECS>(k, a + i * step, lda, b, ldb, c + i * ldc, ldc, add, shift);
}

// c [m, n] (+)= a [m, k] @ b [k, n], or with a [k, m] transposed.
template <bool TRANSPOSED>
static void multiply(int64_t m, int64_t n, int64_t k, const float* a, int64_t lda, const float* b, int64_t ldb, float* c,
                     int64_t ldc, bool add) {
  if (n < LANES) {  // fewer columns than a vector has lanes
    for (int64_t i = 0; i < m; i++) {
      float* row = c + i * ldc;
      vec sum = add ? load(row, n) : fill(0.f);
      for (int64_t p = 0; p < k; p++) sum += (TRANSPOSED ? a[p * lda + i] : a[i * lda + p]) * load(b + p * ldb, n);
      store(row, sum, n);
    }
    return;
  }
  int64_t j = 0;
#if WIDE_VECS > 2
  for (; j + WIDE_VECS * LANES <= n; j += WIDE_VECS * LANES)
    columns<TRANSPOSED, WIDE_ROWS, WIDE_VECS>(m, k, a, lda, b + j, ldb, c + j, ldc, add, 0);
#endif
  for (; j + 2 * LANES <= n; j += 2 * LANES)
    columns<TRANSPOSED, PAIR_ROWS, 2>(m, k, a, lda, b + j, ldb, c + j, ldc, add, 0);
  for (; j + LANES <= n; j += LANES) columns<TRANSPOSED, ONE_ROWS, 1>(m, k, a, lda, b + j, ldb, c + j, ldc, add, 0);
  if (j < n) columns<TRANSPOSED, ONE_ROWS, 1>(m, k, a, lda, b + j, ldb, c + j, ldc, add, LANES - (n - j));
}

// [m, n] -> [n, m].
static void transpose(int64_t m, int64_t n, const float* a, float* out) {
  for (int64_t i0 = 0; i0 < m; i0 += 16)
    for (int64_t j = 0; j < n; j++)
      for (int64_t i = i0; i < (i0 + 16 < m ? i0 + 16 : m); i++) out[j * m + i] = a[i * n + j];
}

static void add_columns(int64_t m, int64_t n, const float* a, float* sums) {
  each(n, [&](int64_t j, int64_t count) {
    vec sum = take(sums + j, count);
    for (int64_t i = 0; i < m; i++) sum += take(a + i * n + j, count);
    put(sums + j, sum, count);
  });
}

// exp(scores - top) with the maximum top of each column; returns the maxima and the sums.
static void exponentials(int64_t nodes, int64_t rows, const float* scores, float* out, float* top, float* mass) {
  each(rows, [&](int64_t j, int64_t count) {
    vec most = fill(-__builtin_inff()), sum = fill(0.f);
    for (int64_t i = 0; i < nodes; i++) {
      vec score = take(scores + i * rows + j, count);
      most = score > most ? score : most;
    }
    vec origin = most == -__builtin_inff() ? fill(0.f) : most;
    for (int64_t i = 0; i < nodes; i++) {
      vec weight = exponential(take(scores + i * rows + j, count) - origin);
      sum += weight;
      put(out + i * rows + j, weight, count);
    }
    put(top + j, most, count);
    put(mass + j, sum, count);
  });
}

static void write(const Write& w, const Segment& s, float* scratch) {
  const int64_t rows = w.batch.rows, width = w.batch.width;
  float* mass = scratch;
  float* weights = mass + rows;
  for (int64_t graph = s.first_graph; graph < s.last_graph; graph++) {
    const bool whole = s.part < 0;
    const int64_t begin = whole ? w.batch.ptr[graph] : s.first_node, end = whole ? w.batch.ptr[graph + 1] : s.last_node;
    float* content = whole ? w.content + graph * rows * width : w.part_content + s.part * rows * width;
    float* top = whole ? w.top + graph * rows : w.part_top + s.part * rows;
    exponentials(end - begin, rows, w.scores + begin * rows, weights, top, mass);
    multiply<true>(rows, width, end - begin, weights, rows, w.values + begin * width, width, content, width, false);
    if (!whole) {
      std::memcpy(w.part_mass + s.part * rows, mass, rows * sizeof(float));
      continue;
    }
    for (int64_t row = 0; row < rows; row++) {
      const bool nothing = mass[row] == 0.f;
      const float share = nothing ? 1.f : 1.f / mass[row];
      each(width, [&](int64_t j, int64_t count) {
        put(content + row * width + j, take(content + row * width + j, count) * share, count);
      });
      w.rest[graph * rows + row] = std::log(mass[row]);
      if (nothing) top[row] = 0.f;
    }
  }
}

static void write_grad(const WriteGrad& w, const Segment& s, float* scratch) {
  const int64_t rows = w.batch.rows, width = w.batch.width;
  float* table = scratch;
  float* weights = table + rows * width;
  float* slopes = weights + s.nodes() * rows;
  for (int64_t graph = s.first_graph; graph < s.last_graph; graph++) {
    const bool whole = s.part < 0;
    const int64_t begin = whole ? w.batch.ptr[graph] : s.first_node, end = whole ? w.batch.ptr[graph + 1] : s.last_node;
    const int64_t nodes = end - begin;
    if (nodes == 0) continue;
    const float* grad = w.grad_content + graph * rows * width;
    const float *top = w.top + graph * rows, *rest = w.rest + graph * rows, *offset = w.offset + graph * rows;
    const float* scores = w.scores + begin * rows;
    each(rows, [&](int64_t j, int64_t count) {
      vec most = take(top + j, count), others = take(rest + j, count);
      others = others == -__builtin_inff() ? fill(0.f) : others;
      for (int64_t i = 0; i < nodes; i++)
        put(weights + i * rows + j, exponential(take(scores + i * rows + j, count) - most - others), count);
    });
    if (w.grad_values)
      multiply<false>(nodes, width, rows, weights, rows, grad, width, w.grad_values + begin * width, width, false);
    if (!w.grad_scores) continue;
    transpose(rows, width, grad, table);
    multiply<false>(nodes, rows, width, w.values + begin * width, width, table, rows, slopes, rows, false);
    float* out = w.grad_scores + begin * rows;
    each(rows, [&](int64_t j, int64_t count) {
      vec less = take(offset + j, count);
      for (int64_t i = 0; i < nodes; i++)
        put(out + i * rows + j, take(weights + i * rows + j, count) * (take(slopes + i * rows + j, count) - less), count);
    });
  }
}

INLINE vec rotate(vec v, int by) {
  ints places;
  for (int lane = 0; lane < LANES; lane++) places[lane] = (lane + by) & (LANES - 1);
  return __builtin_shuffle(v, places);
}

// Softmax of the scores of one node over slots, per head.
INLINE void softmax(int64_t rows, int64_t heads, const float* scores, float* out) {
  if (rows % LANES == 0 && LANES % heads == 0) {
    vec most = load(scores);
    for (int64_t j = LANES; j < rows; j += LANES) most = larger(most, load(scores + j));
    for (int64_t by = LANES / 2; by >= heads; by /= 2) most = larger(most, rotate(most, by));
    vec sum = fill(0.f);
    for (int64_t j = 0; j < rows; j += LANES) {
      vec weight = exponential(load(scores + j) - most);
      sum += weight;
      store(out + j, weight);
    }
    for (int64_t by = LANES / 2; by >= heads; by /= 2) sum += rotate(sum, by);
    vec share = 1.f / sum;
    for (int64_t j = 0; j < rows; j += LANES) store(out + j, load(out + j) * share);
    return;
  }
  for (int64_t head = 0; head < heads; head++) {
    float most = scores[head];
    for (int64_t row = head + heads; row < rows; row += heads) most = scores[row] > most ? scores[row] : most;
    for (int64_t row = head; row < rows; row += heads) out[row] = scores[row] - most;
  }
  each(rows, [&](int64_t j, int64_t count) { put(out + j, exponential(take(out + j, count)), count); });
  for (int64_t head = 0; head < heads; head++) {
    float sum = 0.f;
    for (int64_t row = head; row < rows; row += heads) sum += out[row];
    for (int64_t row = head; row < rows; row += heads) out[row] /= sum;
  }
}

// Replaces the gradients of the weights of one node by those of its scores.
INLINE void softmax_grad(int64_t rows, int64_t heads, const float* weights, float* grad) {
  if (rows % LANES == 0 && LANES % heads == 0) {
    vec sum = fill(0.f);
    for (int64_t j = 0; j < rows; j += LANES) sum += load(grad + j) * load(weights + j);
    for (int64_t by = LANES / 2; by >= heads; by /= 2) sum += rotate(sum, by);
    for (int64_t j = 0; j < rows; j += LANES) store(grad + j, load(weights + j) * (load(grad + j) - sum));
    return;
  }
  for (int64_t head = 0; head < heads; head++) {
    float sum = 0.f;
    for (int64_t row = head; row < rows; row += heads) sum += grad[row] * weights[row];
    for (int64_t row = head; row < rows; row += heads) grad[row] = weights[row] * (grad[row] - sum);
  }
}

// Calls body(graph, first node, nodes) for each graph of the segment.
template <class Body>
INLINE void each_graph(const int64_t* ptr, const Segment& s, Body body) {
  if (s.part >= 0) return body(s.first_graph, s.first_node, s.nodes());
  for (int64_t graph = s.first_graph; graph < s.last_graph; graph++) body(graph, ptr[graph], ptr[graph + 1] - ptr[graph]);
}

static void read(const Read& r, const Segment& s, float* scratch) {
  const int64_t rows = r.batch.rows, width = r.batch.width, nodes = s.nodes(), first = s.first_node;
  float* weights = scratch;
  for (int64_t i = 0; i < nodes; i++) softmax(rows, r.heads, r.scores + (first + i) * rows, weights + i * rows);
  const Film* film = r.film;
  float* context = film ? film->before : r.context;
  if (film) {
    for (int64_t i = 0; i < nodes; i++) std::memcpy(context + (first + i) * width, film->node_bias, width * sizeof(float));
    multiply<false>(nodes, width, film->channels, film->x + first * film->channels, film->channels, film->node_weight,
                    width, context + first * width, width, true);
  }
  each_graph(r.batch.ptr, s, [&](int64_t graph, int64_t begin, int64_t count) {
    multiply<false>(count, width, rows, weights + (begin - first) * rows, rows, r.values + graph * rows * width, width,
                    context + begin * width, width, film != nullptr);
  });
  if (!film) return;
  const int64_t channels = film->channels;
  float* hidden = weights + nodes * rows;
  each(nodes * width, [&](int64_t i, int64_t count) {
    vec density, x = take(film->before + first * width + i, count);
    put(hidden + i, x * normal(x, density), count);
  });
  float* bounds = film->bounds ? film->bounds + first * 2 * channels : hidden + nodes * width;
  for (int64_t i = 0; i < nodes; i++) std::memcpy(bounds + i * 2 * channels, film->film_bias, 2 * channels * sizeof(float));
  multiply<false>(nodes, 2 * channels, width, hidden, width, film->film_weight, 2 * channels, bounds, 2 * channels, true);
  for (int64_t i = 0; i < nodes; i++) {
    const float* x = film->x + (first + i) * channels;
    float *gamma = bounds + i * 2 * channels, *beta = gamma + channels, *out = film->out + (first + i) * channels;
    each(channels, [&](int64_t j, int64_t count) {
      vec scale = hyperbolic_tangent(take(gamma + j, count)), plus = hyperbolic_tangent(take(beta + j, count));
      vec node = take(x + j, count);
      put(out + j, node + 0.5f * scale * node + plus, count);
      if (film->bounds) put(gamma + j, scale, count), put(beta + j, plus, count);
    });
  }
}

// Computes the gradients of Slot-FiLM for a segment; returns the gradient of the context, [nodes, width].
static float* film_grad(const FilmGrad& f, const Segment& s, int64_t width, float* scratch) {
  const int64_t channels = f.channels, films = 2 * channels, nodes = s.nodes(), first = s.first_node;
  float *context = scratch, *hidden = context + nodes * width, *slopes = hidden + nodes * width;
  float* scratch_bounds = slopes + nodes * films;
  const float* before = f.before + first * width;
  each(nodes * width, [&](int64_t i, int64_t count) {
    vec density, x = take(before + i, count);
    put(hidden + i, x * normal(x, density), count);
  });
  const float* bounds = f.bounds ? f.bounds + first * films : scratch_bounds;
  if (!f.bounds) {
    for (int64_t i = 0; i < nodes; i++) std::memcpy(scratch_bounds + i * films, f.film_bias, films * sizeof(float));
    multiply<false>(nodes, films, width, hidden, width, f.film_weight_transposed, films, scratch_bounds, films, true);
    each(nodes * films, [&](int64_t i, int64_t count) {
      put(scratch_bounds + i, hyperbolic_tangent(take(scratch_bounds + i, count)), count);
    });
  }
  for (int64_t i = 0; i < nodes; i++) {
    const float *x = f.x + (first + i) * channels, *grad = f.grad_out + (first + i) * channels;
    const float *gamma = bounds + i * films, *beta = gamma + channels;
    float* slope = slopes + i * films;
    each(channels, [&](int64_t j, int64_t count) {
      vec scale = take(gamma + j, count), plus = take(beta + j, count), g = take(grad + j, count);
      put(slope + j, 0.5f * g * take(x + j, count) * (1.f - scale * scale), count);
      put(slope + channels + j, g * (1.f - plus * plus), count);
      if (f.grad_x) put(f.grad_x + (first + i) * channels + j, g + 0.5f * scale * g, count);
    });
  }
  multiply<false>(nodes, width, films, slopes, films, f.film_weight, width, context, width, false);
  each(nodes * width, [&](int64_t i, int64_t count) {
    vec density, x = take(before + i, count), share = normal(x, density);
    put(context + i, take(context + i, count) * (share + x * density), count);
  });
  multiply<true>(films, width, nodes, slopes, films, hidden, width, f.grad_film_weight, width, true);
  add_columns(nodes, films, slopes, f.grad_film_bias);
  multiply<true>(width, channels, nodes, context, width, f.x + first * channels, channels, f.grad_node_weight, channels, true);
  add_columns(nodes, width, context, f.grad_node_bias);
  if (f.grad_x)
    multiply<false>(nodes, channels, width, context, width, f.node_weight, channels, f.grad_x + first * channels, channels,
                    true);
  return context;
}

static void read_grad(const ReadGrad& r, const Segment& s, float* scratch) {
  const int64_t rows = r.batch.rows, width = r.batch.width, nodes = s.nodes(), first = s.first_node;
  float *table = scratch, *weights = table + rows * width;
  const float* grad = r.grad_context + first * width;
  if (r.film) grad = film_grad(*r.film, s, width, weights + nodes * rows);
  for (int64_t i = 0; i < nodes; i++) softmax(rows, r.heads, r.scores + (first + i) * rows, weights + i * rows);
  each_graph(r.batch.ptr, s, [&](int64_t graph, int64_t begin, int64_t count) {
    const float *own = grad + (begin - first) * width, *shares = weights + (begin - first) * rows;
    if (r.grad_values) {
      float* place = s.part < 0 ? r.grad_values + graph * rows * width : r.part_grad_values + s.part * rows * width;
      multiply<true>(rows, width, count, shares, rows, own, width, place, width, false);
    }
    if (!r.grad_scores || count == 0) return;
    float* out = r.grad_scores + begin * rows;
    transpose(rows, width, r.values + graph * rows * width, table);
    multiply<false>(count, rows, width, own, width, table, rows, out, rows, false);
    for (int64_t i = 0; i < count; i++) softmax_grad(rows, r.heads, shares + i * rows, out + i * rows);
  });
}

static void product(const Product& p, const Segment& s, float* scratch) {
  each_graph(p.ptr, s, [&](int64_t graph, int64_t begin, int64_t count) {
    if (count == 0) return;
    transpose(p.outer, p.inner, p.table + graph * p.outer * p.inner, scratch);
    multiply<false>(count, p.outer, p.inner, p.a + begin * p.inner, p.inner, scratch, p.outer, p.out + begin * p.outer,
                    p.outer, false);
  });
}

static void product_grad(const Product& p, const Segment& s, float*) {
  each_graph(p.ptr, s, [&](int64_t graph, int64_t begin, int64_t count) {
    const float* grad = p.grad_out + begin * p.outer;
    const int64_t size = p.outer * p.inner;
    if (p.grad_a)
      multiply<false>(count, p.inner, p.outer, grad, p.outer, p.table + graph * size, p.inner, p.grad_a + begin * p.inner,
                      p.inner, false);
    if (!p.grad_table) return;
    float* place = s.part < 0 ? p.grad_table + graph * size : p.part_grad_table + s.part * size;
    multiply<true>(p.outer, p.inner, count, grad, p.outer, p.a + begin * p.inner, p.inner, place, p.inner, false);
  });
}

}  // namespace MOORING_ISA

extern const Kernels MOORING_KERNELS;
const Kernels MOORING_KERNELS = {MOORING_ISA::write,     MOORING_ISA::write_grad, MOORING_ISA::read,
                                 MOORING_ISA::read_grad, MOORING_ISA::product,    MOORING_ISA::product_grad};

}  // namespace mooring
