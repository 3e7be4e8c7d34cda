#include "muster/comm/backend/mpi/mpi_messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

namespace muster::comm {
namespace {

constexpr std::size_t kMostFree = std::size_t{64} << 20;
// What is asked again at once, so that an answer costs no switch of threads.
constexpr Duration kAtOnce = std::chrono::microseconds(100);
constexpr Duration kLongestRest = std::chrono::milliseconds(1);
// Of what has passed since something happened: so much later at most is seen what happens next.
constexpr int kRestsAnEighth = 8;

}  // namespace

MpiMemory::Piece MpiMemory::take(std::size_t bytes) {
  Piece piece;
  {
    const std::lock_guard lock(mutex_);
    const auto fits = std::ranges::find_if(free_, [bytes](const Piece& one) {
      return one.capacity_ >= bytes && one.capacity_ / 2 <= bytes;
    });
    if (fits != free_.end()) {
      piece = std::move(*fits);
      free_.erase(fits);
      free_bytes_ -= piece.capacity_;
    }
  }
  if (!piece.memory_) {
    piece.memory_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
    piece.capacity_ = bytes;
  }
  piece.size_ = bytes;
  return piece;
}

void MpiMemory::give_back(Piece piece) {
  const std::lock_guard lock(mutex_);
  if (free_bytes_ + piece.capacity_ > kMostFree) return;
  free_bytes_ += piece.capacity_;
  free_.push_back(std::move(piece));
}

MpiMessages::MpiMessages(net::Loop& loop, MusterMpi& mpi, Receiver receiver)
    : loop_(loop),
      mpi_(mpi),
      receiver_(std::move(receiver)),
      coming_(static_cast<std::size_t>(mpi.size)),
      moved_(loop.clock().now()) {
  turn();
}

// MPI may still read and write what is under way.
MpiMessages::~MpiMessages() {
  if (sending_.empty() && under_way_ == 0) return;
  static auto& kept =
      *new std::deque<std::pair<std::deque<Sending>, std::vector<std::deque<Coming>>>>;
  kept.emplace_back(std::move(sending_), std::move(coming_));
}

bool MpiMessages::well(const char* told, const char* what) {
  if (told == nullptr) return true;
  if (std::exchange(over_, true)) return false;
  timer_ = nullptr;
  const Error why =
      fail(ErrorCode::kUnavailable, fmt::format("[comm/mpi] MPI cannot {}: {}", what, told));
  // What is under way keeps its memory: MPI may still read it.
  for (Sending& one : sending_)
    if (const auto left = std::exchange(one.left, nullptr)) left(why);
  receiver_.on_failure(why);
  return false;
}

void MpiMessages::send(int to, MpiMemory::Piece message, std::function<void(const Status&)> left) {
  if (over_) return left(fail(ErrorCode::kUnavailable, "[comm/mpi] MPI has ended"));
  Sending sending{std::move(message), 0, std::move(left)};
  const auto bytes = sending.message.bytes();
  const char* const told =
      mpi_.send(bytes.data(), static_cast<int>(bytes.size()), to, &sending.request);
  sending_.push_back(std::move(sending));
  if (!well(told, "send")) return;
  moved_ = loop_.clock().now();
  if (std::exchange(sleeps_, false)) rest({});
}

void MpiMessages::finish(std::function<void()> then) {
  on_finished_ = std::move(then);
  if (over_) std::exchange(on_finished_, nullptr)();
}

void MpiMessages::turn() {
  sleeps_ = false;
  if (over_) return;
  const bool left = look_for_left();
  const bool begun = !over_ && look_for_begun();
  const bool come = !over_ && look_for_come();
  if (over_) return;
  if (on_finished_ && sending_.empty() && under_way_ == 0) {
    over_ = true;
    return std::exchange(on_finished_, nullptr)();
  }
  const TimePoint now = loop_.clock().now();
  if (left || begun || come) moved_ = now;
  rest(now - moved_);
}

// Other tasks of the loop, and other processes of the core, have their turn before the next one.
void MpiMessages::rest(Duration idle) {
  if (idle < kAtOnce) {
    if (idle > Duration{}) std::this_thread::yield();
    timer_ = nullptr;
    return loop_.post([this] { turn(); });
  }
  sleeps_ = true;
  timer_ = loop_.call_at(loop_.clock().now() + std::min(idle / kRestsAnEighth, kLongestRest),
                         [this] { turn(); });
}

// Whoever is told may send more.
bool MpiMessages::look_for_left() {
  std::vector<std::function<void(const Status&)>> told;
  for (Sending& sending : sending_) {
    int done = 0;
    if (!well(mpi_.test(&sending.request, &done), "send")) return false;
    if (done == 0) continue;
    told.push_back(std::exchange(sending.left, nullptr));
    memory_.give_back(std::move(sending.message));
  }
  std::erase_if(sending_, [](const Sending& sending) { return !sending.left; });
  for (const auto& left : told) left(ok());
  return !told.empty();
}

bool MpiMessages::look_for_begun() {
  bool some = false;
  for (int found = 1; found != 0;) {
    int from = 0;
    int count = 0;
    std::uint64_t message = 0;
    if (!well(mpi_.probe(&found, &from, &count, &message), "look for messages")) return some;
    if (found == 0) return some;
    some = true;
    Coming coming{memory_.take(static_cast<std::size_t>(count)), 0, false};
    const char* const told =
        mpi_.receive(coming.message.bytes().data(), count, &message, &coming.request);
    if (!well(told, "receive")) return some;
    coming_[static_cast<std::size_t>(from)].push_back(std::move(coming));
    ++under_way_;
  }
  return some;
}

bool MpiMessages::look_for_come() {
  if (under_way_ == 0) return false;
  bool some = false;
  for (std::size_t from = 0; from < coming_.size(); ++from) {
    for (Coming& one : coming_[from]) {
      int done = one.complete ? 1 : 0;
      if (done == 0 && !well(mpi_.test(&one.request, &done), "receive")) return some;
      one.complete = done != 0;
    }
    while (!coming_[from].empty() && coming_[from].front().complete) {
      MpiMemory::Piece message = std::move(coming_[from].front().message);
      coming_[from].pop_front();
      --under_way_;
      some = true;
      receiver_.on_message(static_cast<int>(from), std::move(message));
    }
  }
  return some;
}

}  // namespace muster::comm
