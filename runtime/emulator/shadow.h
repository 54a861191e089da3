// The race detector keeps a record of every 4 bytes that a launch touches.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <new>
#include <type_traits>
#include <unordered_map>
#include <vector>

#include "runtime/base/mapping.h"
#include "runtime/emulator/clock.h"

namespace mkrt::emulator {

constexpr uint32_t kCellBytes = 4;

// Read is the reads of a cell by lanes of one warp at one clock. Lanes share their warp's clock, so that a
// warp's joint read needs one record.
struct Read {
  uint32_t warp = 0;
  uint32_t clock = 0;
  uint32_t lanes = 0;  // 0: no read
  uint32_t site = 0;
  uint32_t bytes = 0;  // one bit per byte of the cell, and kPlain
};
constexpr uint32_t kPlain = 1u << kCellBytes;  // not by an atomic primitive

// A cell of zeros was never touched.
struct Cell {
  AgentEpoch write;  // clock 0: never written
  uint32_t write_site = 0;
  uint32_t write_bytes = 0;            // like Read::bytes
  Read read;                           // the newest
  std::vector<Read>* reads = nullptr;  // earlier reads that are not ordered before `read`; null: none
};

class Shadow {
 public:
  Cell& cell(uintptr_t address) {
    const uintptr_t page = address / kPageBytes;
    Recent& recent = recent_[page % kRecent];
    if (page != recent.page) recent = {page, find(page)};
    return (*recent.cells)[address % kPageBytes / kCellBytes];
  }

  // Returns the cell's earlier reads, to add some.
  std::vector<Read>& earlier_reads(Cell& cell) {
    if (cell.reads == nullptr) cell.reads = &reads_.emplace_back();
    return *cell.reads;
  }

 private:
  static constexpr uintptr_t kPageBytes = 4096;
  static constexpr size_t kRecent = 256;
  using Page = std::array<Cell, kPageBytes / kCellBytes>;
  // Memory that is 0 holds such pages without being written.
  static_assert(std::is_trivially_destructible_v<Page> && std::is_trivially_copy_constructible_v<Page>);
  static constexpr size_t kPagesAtOnce = 170;  // in 8 MB, which are four large pages
  struct Recent {
    uintptr_t page = 0;  // no memory lies at page 0
    Page* cells = nullptr;
  };

  Page* find(uintptr_t page) {
    Page*& found = pages_[page];
    if (found == nullptr) found = take();
    return found;
  }

  Page* take() {
    if (taken_ % kPagesAtOnce == 0 && !memory_.emplace_back(kPagesAtOnce * sizeof(Page)).ok())
      throw std::bad_alloc();
    return reinterpret_cast<Page*>(memory_.back().address()) + taken_++ % kPagesAtOnce;
  }

  std::deque<Mapping> memory_;
  size_t taken_ = 0;  // pages
  std::deque<std::vector<Read>> reads_;
  std::unordered_map<uintptr_t, Page*> pages_;
  std::array<Recent, kRecent> recent_;  // by remainder: the page used last
};

}  // namespace mkrt::emulator
