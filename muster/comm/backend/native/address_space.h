#pragma once
// Which parts of a range of addresses are free: the first that is large enough is taken, and what
// is given back joins its neighbours. A plain value; one thread at a time.

#include <cstddef>
#include <map>
#include <optional>

namespace muster::comm {

class AddressSpace {
 public:
  AddressSpace(std::size_t begin, std::size_t end) : size_(end - begin) {
    if (begin < end) free_[begin] = end;
  }

  // Where `bytes` lie from now on, a multiple of `alignment`; nothing: no part is large enough.
  std::optional<std::size_t> take(std::size_t bytes, std::size_t alignment);
  void give_back(std::size_t begin, std::size_t bytes);  // as it was taken
  std::size_t taken() const noexcept { return taken_; }  // bytes
  std::size_t size() const noexcept { return size_; }

 private:
  std::map<std::size_t, std::size_t> free_;  // ends, by their beginnings; none touch
  std::size_t size_;
  std::size_t taken_ = 0;
};

}  // namespace muster::comm
