#pragma once
// One collective among ranks that see each other's memory, as rows of elements, and where these
// lie. Plain data; pure.

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "muster/comm/communicator.h"
#include "muster/comm/op.h"

namespace muster::comm {

struct Elements {  // [begin, end) of a row
  std::int64_t begin;
  std::int64_t end;

  std::int64_t count() const noexcept { return end - begin; }
};

// The tensors of one collective, as rows of `count` elements.
struct SharedLayout {
  const Op& op;
  Reduce reduce = Reduce::kSum;
  DType dtype = DType::kU8;
  std::size_t width = 1;       // bytes of an element
  std::int64_t count = 0;      // elements of a row
  std::int32_t rows = 1;       // that I expose
  std::int32_t most_rows = 1;  // that any rank exposes
  std::span<std::byte> exposed{};
  std::span<std::byte> output{};
  bool exposes = true;  // Broadcast: only the root does
  const SumTree* tree = nullptr;
  const Shards* shards = nullptr;
  std::int64_t first = 0;  // ReduceScatter: the element with which my output begins
  // Elements that each rank takes of another, about as many of all; 0 where they are summed.
  std::int64_t moved = 0;

  static SharedLayout of(const Op& op, const Group& group);
  void set_rows(const TensorView& tensor);
  void set_shards(const Shards& in, const Group& group);
  void take(const SumTree& in, const Group& group);
  std::byte* out(std::int64_t element) const noexcept {
    return output.data() + static_cast<std::size_t>(element) * width;
  }
  std::size_t row_bytes() const noexcept { return static_cast<std::size_t>(most_rows) * width; }
  std::size_t bytes(std::int64_t elements) const noexcept {
    return static_cast<std::size_t>(elements) * width;
  }
};

// Where the rows of all ranks lie.
class SharedWindows {
 public:
  void clear(std::int32_t size, std::size_t width) {
    windows_.assign(static_cast<std::size_t>(size), {});
    width_ = width;
  }
  // Its rows are `stride` elements apart; the first one begins at `start` with element `begin`.
  void set(Rank rank, std::byte* start, std::int64_t stride, std::int64_t begin) {
    windows_[static_cast<std::size_t>(to_int(rank))] = {start, stride, begin, true};
  }
  // The same where `start` is an address of that rank's process.
  void set_apart(Rank rank, std::byte* start, std::int64_t stride) {
    windows_[static_cast<std::size_t>(to_int(rank))] = {start, stride, 0, false};
  }
  bool is_mapped(std::size_t rank) const noexcept { return windows_[rank].mapped; }
  std::byte* at(std::size_t rank, std::int64_t row, std::int64_t element) const noexcept {
    const Window& window = windows_[rank];
    return window.start +
           static_cast<std::size_t>(row * window.stride + element - window.begin) * width_;
  }
  std::size_t size() const noexcept { return windows_.size(); }

 private:
  struct Window {
    std::byte* start = nullptr;
    std::int64_t stride = 0;
    std::int64_t begin = 0;
    bool mapped = true;  // here; else what at() gives is for PeerMemory
  };
  std::vector<Window> windows_;  // by rank; kept, so that nothing is allocated again
  std::size_t width_ = 1;
};

// What is added to what: rows as (rank, row), numbered as the sums name them.
struct SharedReduction {
  std::vector<std::pair<std::size_t, std::int64_t>> rows;
  std::vector<SumTree::Sum> sums;
  std::int32_t total = 0;  // the row that ends up with it

  void set(const SharedLayout& layout, const Group& group);
};

}  // namespace muster::comm
