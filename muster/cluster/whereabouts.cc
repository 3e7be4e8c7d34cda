#include "muster/cluster/whereabouts.h"

#include <algorithm>

namespace muster::cluster {

void SharedText::write(std::string_view text) noexcept {
  const std::uint32_t next = version_.load(std::memory_order_relaxed) + 1;
  Copy& copy = copies_[next % 2];
  copy.size = static_cast<std::uint32_t>(std::min(text.size(), kMost));
  std::copy_n(text.data(), copy.size, copy.text.data());
  version_.store(next, std::memory_order_release);
}

// The writer touches the copy that is being read only after it has published the other one.
std::string SharedText::read() const {
  for (;;) {
    const std::uint32_t version = version_.load(std::memory_order_acquire);
    const Copy& copy = copies_[version % 2];
    const std::string text(copy.text.data(), std::min<std::size_t>(copy.size, kMost));
    std::atomic_thread_fence(std::memory_order_acquire);
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

void Whereabouts::doing(Step step, std::string_view phase) {
  layout().step.store(to_int(step), std::memory_order_relaxed);
  layout().phase.write(phase);
  told();
}

void Whereabouts::computing(std::int32_t lane, std::string_view pass) {
  if (lane < kLanes) layout().lanes[static_cast<std::size_t>(lane)].write(pass);
  told();
}

void Whereabouts::waiting_in(std::string_view operation) {
  layout().operation.write(operation);
  told();
}

void Whereabouts::told() const {
  if (watch_) watch_(read());
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
