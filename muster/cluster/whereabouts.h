#pragma once
// Where a worker is: the step and phase, the passes of its lanes, the operation it waits in. It
// writes this down as it goes, in memory that it shares with its launcher, who reads it after the
// worker has died, whatever it died of; a heartbeat tells the same to others, as of a moment ago.

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "muster/base/result.h"
#include "muster/base/shared_page.h"
#include "muster/cluster/messages.h"

namespace muster::cluster {

// One text that is rewritten over and over. There are two copies, so that one is whole whenever the
// writer stops. One writer at a time; any readers, in any process.
class SharedText {
 public:
  static constexpr std::size_t kMost = 200;  // bytes; what is longer is cut
  void write(std::string_view text) noexcept;
  std::string read() const;

 private:
  using Word = std::uint64_t;
  struct Copy {
    std::array<std::atomic<Word>, kMost / sizeof(Word)> words;
    std::atomic<std::uint32_t> size;
  };
  std::atomic<std::uint32_t> version_;  // the newest copy is version_ % 2
  std::array<Copy, 2> copies_;
};

// Zeroed memory is one that has nothing to tell.
class Whereabouts {
 public:
  static constexpr std::int32_t kLanes = 64;  // of those beyond nothing is told

  static Result<std::unique_ptr<Whereabouts>> create();
  static Result<std::unique_ptr<Whereabouts>> open(std::string_view address);
  std::string address() const { return page_->address(); }  // for open(), elsewhere on this host

  // Each by one thread at a time; nothing waits.
  void doing(Step step, std::string_view phase);
  // What a lane computes: "backward of slice 3"; empty: nothing.
  void computing(std::int32_t lane, std::string_view pass);
  // The oldest operation that has not ended; empty: none is under way.
  void waiting_in(std::string_view operation);

  // Called after each of these, by their caller: for tests that need something to happen just
  // there. Until it returns nobody else writes down anything, so that the worker stays where it is
  // said to be. Set before there is anything to tell.
  void watch(std::function<void(const Progress&)> watch) { watch_ = std::move(watch); }

  // Any thread. "backward of slice 3 beside all_reduce sum F32 [8] (gradients/0)"
  Progress read() const;

 private:
  struct Layout {
    std::atomic<std::int64_t> step;
    SharedText phase;
    SharedText operation;
    std::array<SharedText, kLanes> lanes;
  };
  explicit Whereabouts(std::unique_ptr<SharedPage> page) : page_(std::move(page)) {}
  Layout& layout() const noexcept { return *reinterpret_cast<Layout*>(page_->bytes().data()); }

  // Calls `write`, then who watches.
  template <class Write>
  void tell(const Write& write);

  std::unique_ptr<SharedPage> page_;
  std::function<void(const Progress&)> watch_;
  std::mutex watched_;  // of use only with watch_
};

}  // namespace muster::cluster
