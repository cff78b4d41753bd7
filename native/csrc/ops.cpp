// The registered operators: shapes, segments, threads and sums over parts. The arithmetic is in kernels.inl.
//
// Results do not depend on the number of threads: the partition depends on the batch only, and parts are summed in order.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <tuple>
#include <vector>

#include "kernels.h"

namespace mooring {
namespace {

using at::Tensor;

// Nodes per segment: with 128 channels the features and scores of a segment fit into the L2 cache.
constexpr int64_t NODES = 256;
// Largest number of partial sums of a sum over all nodes.
constexpr int64_t TASKS = 16;

const Kernels& kernels() {
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
  static const Kernels& chosen = [] () -> const Kernels& {
    const char* isa = std::getenv("MOORING_NATIVE_ISA");
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw");
    if (isa && !std::strcmp(isa, "base")) return base_kernels;
    if (avx2 && isa && !std::strcmp(isa, "avx2")) return avx2_kernels;
    return avx512 ? avx512_kernels : avx2 ? avx2_kernels : base_kernels;
  }();
  return chosen;
#else
  return base_kernels;
#endif
}

struct Segments {
  std::vector<Segment> all;
  int64_t parts = 0;

  explicit Segments(const Tensor& ptr) {
    const int64_t* at = ptr.const_data_ptr<int64_t>();
    const int64_t graphs = ptr.numel() - 1;
    for (int64_t graph = 0; graph < graphs;) {
      int64_t last = graph + 1;
      if (at[last] - at[graph] > NODES) {
        for (int64_t node = at[graph]; node < at[last]; node += NODES)
          all.push_back({graph, last, node, std::min(node + NODES, at[last]), parts++});
      } else {
        while (last < graphs && at[last + 1] - at[graph] <= NODES) last++;
        all.push_back({graph, last, at[graph], at[last], -1});
      }
      graph = last;
    }
  }

  int64_t tasks() const { return std::min<int64_t>(TASKS, all.size()); }

  // Calls body(task, segment, scratch) for the segments of each task in turn, tasks in parallel.
  template <class Body>
  void each(int64_t tasks, int64_t scratch, Body body) const {
    const int64_t count = all.size();
    at::parallel_for(0, tasks, 1, [&](int64_t begin, int64_t end) {
      std::unique_ptr<float[]> buffer(new float[scratch]);
      for (int64_t task = begin; task < end; task++)
        for (int64_t i = count * task / tasks; i < count * (task + 1) / tasks; i++) body(task, all[i], buffer.get());
    });
  }

  // Calls body(graph, first part, last part) for every graph that is split into parts.
  template <class Body>
  void each_split(Body body) const {
    for (size_t i = 0; i < all.size();) {
      size_t last = i + 1;
      if (all[i].part >= 0) {
        while (last < all.size() && all[last].part >= 0 && all[last].first_graph == all[i].first_graph) last++;
        body(all[i].first_graph, all[i].part, all[last - 1].part + 1);
      }
      i = last;
    }
  }
};

float* data(const Tensor& tensor) { return tensor.defined() ? tensor.mutable_data_ptr<float>() : nullptr; }
const float* cdata(const Tensor& tensor) { return tensor.const_data_ptr<float>(); }

void expect(const char* who, const Tensor& tensor, at::IntArrayRef shape, const char* name) {
  TORCH_CHECK(tensor.scalar_type() == at::kFloat && tensor.is_contiguous() && tensor.sizes() == shape, who, ": ", name,
              " is ", tensor.scalar_type(), " ", tensor.sizes(), " but contiguous float32 ", shape, " was expected.");
}

void expect_ptr(const char* who, const Tensor& ptr, int64_t nodes) {
  TORCH_CHECK(ptr.scalar_type() == at::kLong && ptr.dim() == 1 && ptr.numel() > 0 && ptr.is_contiguous(), who,
              ": ptr is ", ptr.scalar_type(), " ", ptr.sizes(), " but int64 [graphs + 1] was expected.");
  const int64_t* at = ptr.const_data_ptr<int64_t>();
  bool rising = at[0] == 0 && at[ptr.numel() - 1] == nodes;
  for (int64_t i = 1; i < ptr.numel(); i++) rising &= at[i] >= at[i - 1];
  TORCH_CHECK(rising, who, ": ptr must rise from 0 to the number of nodes, ", nodes, ".");
}

// Adds the rows of `parts` from first to last to `out`, in their order.
void add_parts(const float* parts, int64_t first, int64_t last, int64_t size, float* out) {
  std::memcpy(out, parts + first * size, size * sizeof(float));
  for (int64_t part = first + 1; part < last; part++)
    for (int64_t i = 0; i < size; i++) out[i] += parts[part * size + i];
}

std::tuple<Tensor, Tensor, Tensor> write(const Tensor& scores, const Tensor& values, const Tensor& ptr) {
  const int64_t nodes = scores.size(0), rows = scores.size(1), width = values.size(1), graphs = ptr.numel() - 1;
  expect("write", scores, {nodes, rows}, "scores");
  expect("write", values, {nodes, width}, "values");
  expect_ptr("write", ptr, nodes);
  const Segments segments(ptr);
  Tensor content = at::empty({graphs, rows, width}, scores.options());
  Tensor top = at::empty({graphs, rows}, scores.options()), rest = at::empty_like(top);
  Tensor part_content = at::empty({segments.parts, rows, width}, scores.options());
  Tensor part_top = at::empty({segments.parts, rows}, scores.options()), part_mass = at::empty_like(part_top);
  const Write args{{ptr.const_data_ptr<int64_t>(), rows, width}, cdata(scores), cdata(values), data(content), data(top),
                   data(rest), data(part_content), data(part_top), data(part_mass)};
  segments.each(segments.tasks(), scratch_size(NODES, rows, width, 0),
                [&](int64_t, const Segment& s, float* scratch) { kernels().write(args, s, scratch); });
  segments.each_split([&](int64_t graph, int64_t first, int64_t last) {
    for (int64_t row = 0; row < rows; row++) {
      float most = -INFINITY, mass = 0.f;
      for (int64_t part = first; part < last; part++) most = std::max(most, args.part_top[part * rows + row]);
      const float origin = most == -INFINITY ? 0.f : most;
      float* sum = args.content + (graph * rows + row) * width;
      std::memset(sum, 0, width * sizeof(float));
      for (int64_t part = first; part < last; part++) {
        const float shrink = std::exp(args.part_top[part * rows + row] - origin);
        mass += shrink * args.part_mass[part * rows + row];
        const float* partial = args.part_content + (part * rows + row) * width;
        for (int64_t j = 0; j < width; j++) sum[j] += shrink * partial[j];
      }
      const float share = mass == 0.f ? 1.f : 1.f / mass;
      for (int64_t j = 0; j < width; j++) sum[j] *= share;
      args.top[graph * rows + row] = origin;
      args.rest[graph * rows + row] = std::log(mass);
    }
  });
  return {content, top, rest};
}

std::tuple<Tensor, Tensor> write_grad(const Tensor& grad_content, const Tensor& offset, const Tensor& scores,
                                      const Tensor& values, const Tensor& top, const Tensor& rest, const Tensor& ptr,
                                      bool need_scores, bool need_values) {
  const int64_t nodes = scores.size(0), rows = scores.size(1), width = values.size(1), graphs = ptr.numel() - 1;
  expect("write_grad", scores, {nodes, rows}, "scores");
  expect("write_grad", values, {nodes, width}, "values");
  expect("write_grad", grad_content, {graphs, rows, width}, "grad_content");
  for (const Tensor& each : {offset, top, rest}) expect("write_grad", each, {graphs, rows}, "a statistic");
  expect_ptr("write_grad", ptr, nodes);
  const Segments segments(ptr);
  Tensor grad_scores = at::empty({need_scores ? nodes : 0, rows}, scores.options());
  Tensor grad_values = at::empty({need_values ? nodes : 0, width}, scores.options());
  const WriteGrad args{{ptr.const_data_ptr<int64_t>(), rows, width}, cdata(scores), cdata(values), cdata(top), cdata(rest),
                       cdata(grad_content), cdata(offset), need_scores ? data(grad_scores) : nullptr,
                       need_values ? data(grad_values) : nullptr};
  segments.each(segments.tasks(), scratch_size(NODES, rows, width, 0),
                [&](int64_t, const Segment& s, float* scratch) { kernels().write_grad(args, s, scratch); });
  return {grad_scores, grad_values};
}

Tensor read(const Tensor& scores, const Tensor& values, int64_t heads, const Tensor& ptr) {
  const int64_t nodes = scores.size(0), rows = scores.size(1), width = values.size(2), graphs = ptr.numel() - 1;
  expect("read", scores, {nodes, rows}, "scores");
  expect("read", values, {graphs, rows, width}, "values");
  expect_ptr("read", ptr, nodes);
  const Segments segments(ptr);
  Tensor context = at::empty({nodes, width}, scores.options());
  const Read args{{ptr.const_data_ptr<int64_t>(), rows, width}, heads, cdata(scores), cdata(values), data(context), nullptr};
  segments.each(segments.tasks(), scratch_size(NODES, rows, width, 0),
                [&](int64_t, const Segment& s, float* scratch) { kernels().read(args, s, scratch); });
  return context;
}

void sum_values(const Segments& segments, const Tensor& parts, const Tensor& out) {
  if (out.numel() == 0) return;
  const int64_t size = out.size(1) * out.size(2);
  segments.each_split([&](int64_t graph, int64_t first, int64_t last) {
    add_parts(cdata(parts), first, last, size, data(out) + graph * size);
  });
}

std::tuple<Tensor, Tensor> read_grad(const Tensor& grad_context, const Tensor& scores, const Tensor& values, int64_t heads,
                                     const Tensor& ptr, bool need_scores, bool need_values) {
  const int64_t nodes = scores.size(0), rows = scores.size(1), width = values.size(2), graphs = ptr.numel() - 1;
  expect("read_grad", scores, {nodes, rows}, "scores");
  expect("read_grad", values, {graphs, rows, width}, "values");
  expect("read_grad", grad_context, {nodes, width}, "grad_context");
  expect_ptr("read_grad", ptr, nodes);
  const Segments segments(ptr);
  Tensor grad_scores = at::empty({need_scores ? nodes : 0, rows}, scores.options());
  Tensor grad_values = at::empty({need_values ? graphs : 0, rows, width}, scores.options());
  Tensor parts = at::empty({need_values ? segments.parts : 0, rows, width}, scores.options());
  const ReadGrad args{{ptr.const_data_ptr<int64_t>(), rows, width}, heads, cdata(scores), cdata(values), cdata(grad_context),
                      need_scores ? data(grad_scores) : nullptr, need_values ? data(grad_values) : nullptr, data(parts),
                      nullptr};
  segments.each(segments.tasks(), scratch_size(NODES, rows, width, 0),
                [&](int64_t, const Segment& s, float* scratch) { kernels().read_grad(args, s, scratch); });
  sum_values(segments, parts, grad_values);
  return {grad_scores, grad_values};
}

std::tuple<Tensor, Tensor, Tensor> read_film(const Tensor& scores, const Tensor& values, int64_t heads, const Tensor& ptr,
                                             const Tensor& x, const Tensor& node_weight, const Tensor& node_bias,
                                             const Tensor& film_weight, const Tensor& film_bias, bool keep_bounds) {
  const int64_t nodes = scores.size(0), rows = scores.size(1), width = values.size(2), graphs = ptr.numel() - 1;
  const int64_t channels = x.size(1);
  expect("read_film", scores, {nodes, rows}, "scores");
  expect("read_film", values, {graphs, rows, width}, "values");
  expect("read_film", x, {nodes, channels}, "x");
  expect("read_film", node_weight, {width, channels}, "node_weight");
  expect("read_film", node_bias, {width}, "node_bias");
  expect("read_film", film_weight, {2 * channels, width}, "film_weight");
  expect("read_film", film_bias, {2 * channels}, "film_bias");
  expect_ptr("read_film", ptr, nodes);
  const Segments segments(ptr);
  const Tensor node = node_weight.t().contiguous(), film = film_weight.t().contiguous();
  Tensor out = at::empty_like(x), before = at::empty({nodes, width}, x.options());
  Tensor bounds = at::empty({keep_bounds ? nodes : 0, 2 * channels}, x.options());
  const Film modulation{channels, cdata(x), cdata(node), cdata(node_bias), cdata(film), cdata(film_bias), data(before),
                        keep_bounds ? data(bounds) : nullptr, data(out)};
  const Read args{{ptr.const_data_ptr<int64_t>(), rows, width}, heads, cdata(scores), cdata(values), nullptr, &modulation};
  segments.each(segments.tasks(), scratch_size(NODES, rows, width, channels),
                [&](int64_t, const Segment& s, float* scratch) { kernels().read(args, s, scratch); });
  return {out, before, bounds};
}

std::vector<Tensor> read_film_grad(const Tensor& grad_out, const Tensor& before, const Tensor& bounds, const Tensor& scores,
                                   const Tensor& values, int64_t heads, const Tensor& ptr, const Tensor& x,
                                   const Tensor& node_weight, const Tensor& film_weight, const Tensor& film_bias,
                                   bool need_scores, bool need_values, bool need_x) {
  const int64_t nodes = scores.size(0), rows = scores.size(1), width = values.size(2), graphs = ptr.numel() - 1;
  const int64_t channels = x.size(1), films = 2 * channels;
  expect("read_film_grad", grad_out, {nodes, channels}, "grad_out");
  expect("read_film_grad", before, {nodes, width}, "before");
  expect("read_film_grad", scores, {nodes, rows}, "scores");
  expect("read_film_grad", values, {graphs, rows, width}, "values");
  expect("read_film_grad", x, {nodes, channels}, "x");
  expect("read_film_grad", node_weight, {width, channels}, "node_weight");
  expect("read_film_grad", film_weight, {films, width}, "film_weight");
  expect_ptr("read_film_grad", ptr, nodes);
  const Segments segments(ptr);
  const int64_t tasks = segments.tasks(), sizes[] = {width * channels, width, films * width, films};
  const int64_t size = sizes[0] + sizes[1] + sizes[2] + sizes[3];
  const Tensor film = film_weight.t().contiguous();
  Tensor sums = at::zeros({std::max<int64_t>(tasks, 1), size}, x.options());
  Tensor grad_x = at::empty({need_x ? nodes : 0, channels}, x.options());
  Tensor grad_scores = at::empty({need_scores ? nodes : 0, rows}, x.options());
  Tensor grad_values = at::empty({need_values ? graphs : 0, rows, width}, x.options());
  Tensor parts = at::empty({need_values ? segments.parts : 0, rows, width}, x.options());
  segments.each(tasks, scratch_size(NODES, rows, width, channels), [&](int64_t task, const Segment& s, float* scratch) {
    float* sum = data(sums) + task * size;
    const FilmGrad modulation{channels, cdata(x), cdata(node_weight), cdata(film_weight), cdata(film), cdata(film_bias),
                              cdata(before), bounds.numel() ? cdata(bounds) : nullptr, cdata(grad_out),
                              need_x ? data(grad_x) : nullptr, sum, sum + sizes[0], sum + sizes[0] + sizes[1] + sizes[3],
                              sum + sizes[0] + sizes[1]};
    const ReadGrad args{{ptr.const_data_ptr<int64_t>(), rows, width}, heads, cdata(scores), cdata(values), nullptr,
                        need_scores ? data(grad_scores) : nullptr, need_values ? data(grad_values) : nullptr, data(parts),
                        &modulation};
    kernels().read_grad(args, s, scratch);
  });
  for (int64_t task = 1; task < tasks; task++) sums[0] += sums[task];
  sum_values(segments, parts, grad_values);
  const Tensor total = sums[0];
  int64_t at = 0;
  auto next = [&](int64_t count) { at += count; return total.narrow(0, at - count, count); };
  const Tensor grad_node_weight = next(sizes[0]).view({width, channels}), grad_node_bias = next(sizes[1]);
  const Tensor grad_film_bias = next(sizes[3]), grad_film_weight = next(sizes[2]).view({films, width});
  return {grad_scores, grad_values, grad_x, grad_node_weight, grad_node_bias, grad_film_weight, grad_film_bias};
}

Tensor product(const Tensor& a, const Tensor& table, const Tensor& ptr) {
  const int64_t nodes = a.size(0), inner = a.size(1), outer = table.size(1);
  expect("product", a, {nodes, inner}, "a");
  expect("product", table, {ptr.numel() - 1, outer, inner}, "table");
  expect_ptr("product", ptr, nodes);
  Tensor out = at::empty({nodes, outer}, a.options());
  const Segments segments(ptr);
  const Product args{ptr.const_data_ptr<int64_t>(), inner, outer, cdata(a), cdata(table), data(out), nullptr, nullptr,
                     nullptr, nullptr};
  segments.each(segments.tasks(), scratch_size(NODES, outer, inner, 0),
                [&](int64_t, const Segment& s, float* scratch) { kernels().product(args, s, scratch); });
  return out;
}

std::tuple<Tensor, Tensor> product_grad(const Tensor& grad_out, const Tensor& a, const Tensor& table, const Tensor& ptr,
                                        bool need_a, bool need_table) {
  const int64_t nodes = a.size(0), inner = a.size(1), outer = table.size(1), graphs = ptr.numel() - 1;
  expect("product_grad", a, {nodes, inner}, "a");
  expect("product_grad", table, {graphs, outer, inner}, "table");
  expect("product_grad", grad_out, {nodes, outer}, "grad_out");
  expect_ptr("product_grad", ptr, nodes);
  const Segments segments(ptr);
  Tensor grad_a = at::empty({need_a ? nodes : 0, inner}, a.options());
  Tensor grad_table = at::empty({need_table ? graphs : 0, outer, inner}, a.options());
  Tensor parts = at::empty({need_table ? segments.parts : 0, outer, inner}, a.options());
  const Product args{ptr.const_data_ptr<int64_t>(), inner, outer, cdata(a), cdata(table), nullptr, cdata(grad_out),
                     need_a ? data(grad_a) : nullptr, need_table ? data(grad_table) : nullptr, data(parts)};
  segments.each(segments.tasks(), 1,
                [&](int64_t, const Segment& s, float* scratch) { kernels().product_grad(args, s, scratch); });
  sum_values(segments, parts, grad_table);
  return {grad_a, grad_table};
}

}  // namespace
}  // namespace mooring

TORCH_LIBRARY(mooring_native, library) {
  library.def("write(Tensor scores, Tensor values, Tensor ptr) -> (Tensor, Tensor, Tensor)");
  library.def(
      "write_grad(Tensor grad_content, Tensor offset, Tensor scores, Tensor values, Tensor top, Tensor rest, Tensor ptr, "
      "bool need_scores, bool need_values) -> (Tensor, Tensor)");
  library.def("read(Tensor scores, Tensor values, int heads, Tensor ptr) -> Tensor");
  library.def(
      "read_grad(Tensor grad_context, Tensor scores, Tensor values, int heads, Tensor ptr, bool need_scores, "
      "bool need_values) -> (Tensor, Tensor)");
  library.def(
      "read_film(Tensor scores, Tensor values, int heads, Tensor ptr, Tensor x, Tensor node_weight, Tensor node_bias, "
      "Tensor film_weight, Tensor film_bias, bool keep_bounds) -> (Tensor, Tensor, Tensor)");
  library.def(
      "read_film_grad(Tensor grad_out, Tensor before, Tensor bounds, Tensor scores, Tensor values, int heads, Tensor ptr, "
      "Tensor x, Tensor node_weight, Tensor film_weight, Tensor film_bias, bool need_scores, bool need_values, bool need_x) "
      "-> Tensor[]");
  library.def("product(Tensor a, Tensor table, Tensor ptr) -> Tensor");
  library.def("product_grad(Tensor grad_out, Tensor a, Tensor table, Tensor ptr, bool need_a, bool need_table) -> (Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(mooring_native, CPU, library) {
  library.impl("write", mooring::write);
  library.impl("write_grad", mooring::write_grad);
  library.impl("read", mooring::read);
  library.impl("read_grad", mooring::read_grad);
  library.impl("read_film", mooring::read_film);
  library.impl("read_film_grad", mooring::read_film_grad);
  library.impl("product", mooring::product);
  library.impl("product_grad", mooring::product_grad);
}
