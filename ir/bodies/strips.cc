#include "ir/bodies/strips.h"

#include <fmt/format.h>

#include "ir/ceil.h"

namespace mkc {

int64_t strip_columns(const TaskGrid& grid) {
  return int_attr(grid.attrs, "gate", 0) != 0 ? kTileRows / 2 : kTileRows;
}

std::optional<Region> strip_footprint(const FootprintOf& s) {
  const bool columns = s.is("out") || s.is("x_bf16") || s.is("residual");
  if (columns) return Region{s.all(0), s.block(strip_columns(s.grid), 1)};
  if (s.is("codes") || s.is("code_scale"))
    return Region{{0, coded_rows(s.program, s.dims[0], int_attr(s.grid.attrs, "wgmma_from", 0))}, s.all(1)};
  if (s.is("weight")) return Region{s.block(kTileRows, 0), s.all(1)};
  if (s.is("bias")) return Region{s.block(kTileRows, 0)};
  if (s.is("next_norm")) return Region{s.block(strip_columns(s.grid), 0)};
  const bool a_strip = s.is("best_value") || s.is("best_index") || (s.is("sum_squares") && s.operand.written);
  if (a_strip) return Region{s.all(0), each(0)};
  if (s.is("sums")) return Region{each(0), s.all(1), s.all(2), s.all(3)};
  return s.whole();
}

void check_strips(const GridUnderCheck& c, size_t coordinate) {
  const int64_t rows_of_column = int_attr(c.grid.attrs, "gate", 0) != 0 ? 2 : 1, columns = c.size('O'),
                rows = c.size('N') != 0 ? c.size('N') : columns * rows_of_column;
  if (rows == 0) return;  // another rule reports the missing size
  if (columns != 0 && rows != columns * rows_of_column)
    c.v.report(
        17, c.site,
        fmt::format("{} weight rows make {} columns, out has {}", rows, rows / rows_of_column, columns));
  const int64_t strips = task_strips(c.grid);
  if (strips < 1 || strips > kMaxStrips)
    return c.v.report(18, c.site, fmt::format("{} strips a task, expected 1 to {}", strips, kMaxStrips));
  const int64_t tasks = ceil_of(rows, strips * kTileRows);
  if (c.grid.coords.size() <= coordinate || c.grid.coords[coordinate].extent.is_const(tasks)) return;
  const Coord& found = c.grid.coords[coordinate];
  c.v.report(19, c.site,
             fmt::format("coordinate {} has extent {}, expected {}, the strips of {} weight rows{}",
                         found.name, c.v.text.expr(found.extent), tasks, rows,
                         strips == 1 ? "" : fmt::format(" by {}", strips)));
}

}  // namespace mkc
