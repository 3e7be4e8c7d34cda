#include "muster/cluster/whereabouts.h"

#include <algorithm>
#include <cstring>

namespace muster::cluster {

// A copy is written over only when the other one has been published. Words are stored with release
// and loaded with acquire, so that a reader who gets one of a later text sees a later version too,
// and reads again (a sequence lock: Boehm, MSPC 2012).
void SharedText::write(std::string_view text) noexcept {
  const std::uint32_t next = version_.load(std::memory_order_relaxed) + 1;
  Copy& copy = copies_[next % 2];
  const std::size_t size = std::min(text.size(), kMost);
  copy.size.store(static_cast<std::uint32_t>(size), std::memory_order_release);
  for (std::size_t at = 0; at < size; at += sizeof(Word)) {
    Word word = 0;
    std::memcpy(&word, text.data() + at, std::min(size - at, sizeof(Word)));
    copy.words[at / sizeof(Word)].store(word, std::memory_order_release);
  }
  version_.store(next, std::memory_order_release);
}

std::string SharedText::read() const {
  for (;;) {
    const std::uint32_t version = version_.load(std::memory_order_acquire);
    const Copy& copy = copies_[version % 2];
    std::string text(std::min<std::size_t>(copy.size.load(std::memory_order_acquire), kMost), ' ');
    for (std::size_t at = 0; at < text.size(); at += sizeof(Word)) {
      const Word word = copy.words[at / sizeof(Word)].load(std::memory_order_acquire);
      std::memcpy(text.data() + at, &word, std::min(text.size() - at, sizeof(Word)));
    }
    if (version_.load(std::memory_order_relaxed) == version) return text;
  }
}

Result<std::unique_ptr<Whereabouts>> Whereabouts::create() {
  MUSTER_ASSIGN(auto page, SharedPage::create(sizeof(Layout)));
  return std::unique_ptr<Whereabouts>(new Whereabouts(std::move(page)));
}

Result<std::unique_ptr<Whereabouts>> Whereabouts::open(std::string_view address) {
  MUSTER_ASSIGN(auto page, SharedPage::open(address, sizeof(Layout)));
  return std::unique_ptr<Whereabouts>(new Whereabouts(std::move(page)));
}

template <class Write>
void Whereabouts::tell(const Write& write) {
  if (!watch_) return write();
  const std::lock_guard lock(watched_);
  write();
  watch_(read());
}

void Whereabouts::doing(Step step, std::string_view phase) {
  tell([&] {
    layout().step.store(to_int(step), std::memory_order_relaxed);
    layout().phase.write(phase);
  });
}

void Whereabouts::computing(std::int32_t lane, std::string_view pass) {
  tell([&] {
    if (lane < kLanes) layout().lanes[static_cast<std::size_t>(lane)].write(pass);
  });
}

void Whereabouts::waiting_in(std::string_view operation) {
  tell([&] { layout().operation.write(operation); });
}

Progress Whereabouts::read() const {
  Progress progress{Step{layout().step.load(std::memory_order_relaxed)}, layout().phase.read(), {}};
  for (const SharedText& lane : layout().lanes) {
    const std::string pass = lane.read();
    if (!pass.empty()) progress.operation += (progress.operation.empty() ? "" : ", ") + pass;
  }
  const std::string waiting = layout().operation.read();
  const bool both = !progress.operation.empty() && !waiting.empty();
  progress.operation += (both ? " beside " : "") + waiting;
  return progress;
}

}  // namespace muster::cluster
