// Collects the touches of one task. The header is internal to footprints.
#pragma once

#include <fmt/format.h>

#include <initializer_list>

#include "tests/attack/schedules/finding.h"
#include "tests/attack/schedules/footprint.h"

namespace mkc::attack {

struct Span {
  int64_t lo, hi;
};

class TouchList {
 public:
  TouchList(const Schedule& s, const Step& step, GridId grid, std::vector<Touch>& out)
      : s(s), step(step), grid(s.program.grids[grid]), out_(out) {}

  const Schedule& s;
  const Step& step;
  const TaskGrid& grid;

  bool has(const char* role, bool written = false) const { return find_operand(grid, role, written); }
  const Access& operand(const char* role, bool written = false) const {
    const Access* access = find_operand(grid, role, written);
    if (!access) throw Finding{"footprint", fmt::format("%{} has no operand {}", grid.name, role)};
    return *access;
  }
  const Tensor& tensor(const char* role, bool written = false) const {
    return s.program.tensors[operand(role, written).tensor];
  }
  int64_t dim(const char* role, size_t d, bool written = false) const {
    const Tensor& t = tensor(role, written);
    if (d >= t.shape.size()) throw Finding{"footprint", fmt::format("%{} has no dim {}", t.name, d)};
    return step.at(t.shape[d]);
  }
  int64_t attr(const char* name, int64_t fallback) const { return int_attr(grid.attrs, name, fallback); }

  void read(const char* role, std::initializer_list<Span> spans, Toucher by = Toucher::kTask) {
    add(role, spans, false, by);
  }
  void write(const char* role, std::initializer_list<Span> spans) { add(role, spans, true, Toucher::kTask); }
  void maybe_read(const char* role, std::initializer_list<Span> spans) {
    if (has(role)) read(role, spans);
  }
  void maybe_write(const char* role, std::initializer_list<Span> spans) {
    if (has(role, true)) write(role, spans);
  }

 private:
  void add(const char* role, std::initializer_list<Span> spans, bool writes, Toucher by) {
    Touch touch{&operand(role, writes), writes, by, {}};
    for (const Span& span : spans) {
      touch.box.lo[touch.box.rank] = span.lo;
      touch.box.hi[touch.box.rank++] = span.hi;
    }
    if (touch.box.empty()) return;
    const Tensor& t = s.program.tensors[touch.access->tensor];
    if (t.shape.size() != touch.box.rank)
      throw Finding{"footprint",
                    fmt::format("%{} takes %{} with {} dims", grid.name, t.name, touch.box.rank)};
    for (size_t d = 0; d < touch.box.rank; ++d)
      if (const int64_t extent = step.at(t.shape[d]); touch.box.lo[d] < 0 || touch.box.hi[d] > extent)
        throw Finding{"outside",
                      fmt::format("%{} touches {} of %{}: [{}, {}) of {} in dim {}, at {}", grid.name, role,
                                  t.name, touch.box.lo[d], touch.box.hi[d], extent, d, to_text(step))};
    out_.push_back(touch);
  }

  std::vector<Touch>& out_;
};

void touch_attention(TouchList& t, std::span<const int64_t> coords);

}  // namespace mkc::attack
