// Lines of a pipe or file are read one at a time as they come.
#pragma once

#include <optional>
#include <string>

#include "runtime/base/status.h"

namespace mkc {

class LineReader {
 public:
  // Reads a descriptor, which must stay open. `name` is its name in errors.
  LineReader(int descriptor, std::string name) : descriptor_(descriptor), name_(std::move(name)) {}

  // Takes the next line, without its line feed. Waits for one until `wake` can be read if `wait` is set.
  // Returns nothing where no line is complete, and at the end. A call that does not wait reads 1 MiB at most.
  // Errors: a line of more than 64 MiB, behind which the next call goes on; a read that fails, which failed()
  // tells.
  mkrt::Result<std::optional<std::string>> next(bool wait, int wake = -1);

  // Tells whether all lines have been taken.
  bool at_end() const { return closed_ && text_.empty(); }
  // Tells whether a read has failed.
  bool failed() const { return failed_; }
  // Returns the number of the line that next() returned last, from 1.
  size_t number() const { return number_; }

 private:
  std::optional<std::string> take_line();
  void skip_rest_of_line();
  mkrt::Error failure(const char* what);
  mkrt::Error too_long() const;

  int descriptor_;
  std::string name_, text_;  // text_: what was read and not taken
  size_t searched_ = 0;      // bytes of text_ without a line feed
  bool closed_ = false, failed_ = false;
  bool skips_ = false;  // text up to the next line feed is the rest of a line that is too long
  size_t number_ = 0;
};

}  // namespace mkc
