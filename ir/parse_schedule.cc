#include "ir/parser.h"

namespace mkc {
namespace {

void fact_lines(Parser& p, Schedule& s) {
  p.mark({Part::kMachine});
  p.expect("machine");
  s.machine = p.quoted("the machine's name");
  p.expect("workers");
  s.workers = p.natural32();
  p.end_line();
  p.mark({Part::kRing});
  p.expect("ring");
  p.expect("stages");
  s.ring.stages = p.natural32();
  p.expect("bytes");
  s.ring.stage_bytes = p.natural32();
  p.end_line();
  p.mark({Part::kArenas});
  p.expect("arenas");
  p.expect("weights");
  s.weight_bytes = p.natural(UINT64_MAX);
  p.expect("workspace");
  s.workspace_bytes = p.natural(UINT64_MAX);
  p.expect("counters");
  s.event_cells = p.natural32();
  p.end_line();
}

Segment segment(Parser& p) {
  Segment s;
  s.grid = p.grid();
  if (!p.accept("[")) return s;
  s.first = p.natural32();
  p.expect(":+");
  s.count = p.natural32();
  p.expect("]");
  return s;
}

bool worker_lines(Parser& p, Schedule& s) {
  if (!p.peek().is("worker")) return false;
  const auto worker = static_cast<uint32_t>(s.streams.size());
  p.mark({Part::kWorker, worker});
  p.take();
  const Token number = p.peek();
  if (const uint32_t found = p.natural32(); !p.error && found != worker)
    p.fail(number, "expected worker " + std::to_string(worker) + ": workers come in order");
  p.end_line();
  std::vector<Segment> stream;
  while (p.accept("run")) {
    do {
      p.mark({Part::kSegment, worker, static_cast<uint32_t>(stream.size())});
      stream.push_back(segment(p));
    } while (p.accept(","));
    p.end_line();
  }
  s.streams.push_back(std::move(stream));
  return true;
}

}  // namespace

Schedule parse_schedule(Parser& p, const std::string& name) {
  Schedule s;
  s.program.name = name;
  fact_lines(p, s);
  while (!p.at_end())
    if (!program_lines(p, s.program, &s) && !worker_lines(p, s)) p.unknown_line({"event", "grid", "worker"});
  return s;
}

}  // namespace mkc
