#pragma once
// The seam to the terminal.

#include <memory>
#include <string_view>

namespace muster::observe {

class Terminal {  // one thread at a time
 public:
  virtual ~Terminal() = default;
  virtual bool is_terminal() const = 0;           // or a pipe, a file
  virtual int width() const = 0;                  // columns, now; 80 where unknown
  virtual void write(std::string_view text) = 0;  // whole, unbuffered
  // Whether something could not be written for want of room on a disk. Thread-safe.
  virtual bool lost() const = 0;
};

// Standard output (1) or error (2).
std::unique_ptr<Terminal> open_terminal(int file_descriptor);

}  // namespace muster::observe
