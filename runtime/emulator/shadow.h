// The race detector keeps a record of every 4 bytes that a launch touches.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

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

// Write is the last write of some bytes of a cell.
struct Write {
  AgentEpoch epoch;
  uint32_t site = 0;
  uint32_t bytes = 0;  // like Read::bytes; 0: no write
};

// Older holds what a cell has no place for.
struct Older {
  std::vector<Write> writes;  // of other bytes than Cell::write
  std::vector<Read> reads;    // not ordered before Cell::read
};

// The writes of a cell are of different bytes.
struct Cell {
  Write write;  // the newest
  Read read;    // the newest
  std::unique_ptr<Older> older;
};
static_assert(sizeof(Cell) == 48);

class Shadow {
 public:
  Cell& cell(uintptr_t address) {
    const uintptr_t page = address / kPageBytes;
    Recent& recent = recent_[page % kRecent];
    if (page != recent.page) recent = {page, find(page)};
    return (*recent.cells)[address % kPageBytes / kCellBytes];
  }

 private:
  static constexpr uintptr_t kPageBytes = 4096;
  static constexpr size_t kRecent = 256;
  using Page = std::array<Cell, kPageBytes / kCellBytes>;
  struct Recent {
    uintptr_t page = 0;  // no memory lies at page 0
    Page* cells = nullptr;
  };

  Page* find(uintptr_t page) {
    std::unique_ptr<Page>& found = pages_[page];
    if (found == nullptr) found = std::make_unique<Page>();
    return found.get();
  }

  std::unordered_map<uintptr_t, std::unique_ptr<Page>> pages_;
  std::array<Recent, kRecent> recent_;  // by remainder: the page used last
};

}  // namespace mkrt::emulator
