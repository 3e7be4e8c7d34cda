#pragma once
// A piece of memory that two processes of a host share, without a name: nothing is left behind. It
// outlives whoever wrote into it, so it can be read after a process has died.

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "muster/base/result.h"

namespace muster {

// Zeros at first. Thread-safe; what is written into it is the users' affair.
class SharedPage {
 public:
  static Result<std::unique_ptr<SharedPage>> create(std::size_t bytes);
  // What the process that created it calls address(), while that process lives. kInvalid: this is
  // no address; kUnavailable: it is not there, or this user may not.
  static Result<std::unique_ptr<SharedPage>> open(std::string_view address, std::size_t bytes);
  ~SharedPage();
  SharedPage(const SharedPage&) = delete;
  SharedPage& operator=(const SharedPage&) = delete;

  std::span<std::byte> bytes() const noexcept { return bytes_; }
  std::string address() const;  // "4711:12": process and descriptor
  std::string path() const;     // as a file, for other programs of this user

 private:
  SharedPage(int descriptor, std::span<std::byte> bytes) : descriptor_(descriptor), bytes_(bytes) {}
  int descriptor_;
  std::span<std::byte> bytes_;
};

}  // namespace muster
