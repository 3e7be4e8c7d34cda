#include "muster/comm/backend/native/shared_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>
#include <thread>
#include <utility>

#include "muster/base/random.h"
#include "muster/base/round_up.h"
#include "muster/base/units.h"
#include "muster/comm/engine/errors.h"

namespace muster::comm {
namespace {

// How long who waits looks before it sleeps: longer than it takes to wake a core that has nothing
// to do, which in a virtual machine is most of what sleeping costs. Who sleeps comes to the next
// meeting that much later; if the others slept by then, all would sleep at every meeting.
constexpr Duration kSpin = std::chrono::microseconds(100);
// The same of ranks that share cores, who leave them to each other meanwhile. With a core of one's
// own that would be dear: whoever else wants it keeps it for milliseconds.
constexpr Duration kYield = std::chrono::microseconds(200);
// How long a process may take to end after its memory has gone, which comes first.
constexpr Duration kEnding = std::chrono::seconds(5);
// Nobody wakes for the dead: who sleeps looks after them this often.
constexpr Duration kNap = std::chrono::milliseconds(20);
constexpr int kLooksAtOnce = 64;  // before the first look at the clock, and between two
constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kPage = 4096;

Error cannot_share(Rank rank, std::string_view why) {
  return muster::fail(ErrorCode::kUnavailable,
                      fmt::format("[comm/native] rank {} cannot share memory: {}; where that "
                                  "cannot be changed, set communication.transport to tcp",
                                  to_int(rank), why),
                      rank);
}

constexpr std::size_t kHeapBegin = round_up(sizeof(Control), kHugePage);

void rouse(Sleepers& sleepers) noexcept {
  sleepers.wakes.fetch_add(1);
  wake_all(sleepers.wakes);
}

}  // namespace

Result<std::shared_ptr<SharedGroup>> SharedGroup::create(Group group, std::size_t heap_bytes,
                                                         Clock& clock, const Exchange& exchange,
                                                         Deadline deadline,
                                                         std::size_t reads_from) {
  std::shared_ptr<SharedGroup> made(new SharedGroup(group, heap_bytes, clock, reads_from));
  auto own = SharedMemory::create(kHeapBegin + heap_bytes);
  MemoryAddress me;
  if (own) {
    auto* control = new ((*own)->bytes().data()) Control;  // pages of a new memfd are zero
    control->token = system_entropy().next();
    control->cores = usable_cores();
    control->address = std::bit_cast<std::uintptr_t>(control);
    me = {own_pid(), (*own)->descriptor(), control->token};
  }
  MUSTER_ASSIGN(const auto introductions, exchange(to_text(me), deadline));
  made->memories_.resize(static_cast<std::size_t>(group.size));
  Status opened = own ? ok() : Status(own.error());
  if (own) made->memories_[static_cast<std::size_t>(to_int(group.rank))] = std::move(*own);
  if (opened) opened = made->open_peers(introductions);
  MUSTER_ASSIGN(const auto outcomes, exchange(opened ? "" : opened.error().message, deadline));
  // The memory of who has died since it introduced itself is not found either. It does not come
  // once more, and whoever misses it names it; if all come, they are alive and kept apart. Where
  // all is well all come as well: an exchange may be one of more ranks, in other parts of a group
  // that is split, who know nothing of these outcomes.
  MUSTER_ASSIGN([[maybe_unused]] const auto alive, exchange("", deadline));
  if (std::ranges::all_of(outcomes, &std::string::empty)) {
    made->agree_on_reads();
    return made;
  }
  // Where several cannot, each tells of itself: it is nobody else's fault.
  if (!opened) return cannot_share(group.rank, opened.error().message);
  const auto who = std::ranges::find_if_not(outcomes, &std::string::empty);
  return cannot_share(Rank{static_cast<std::int32_t>(who - outcomes.begin())}, *who);
}

Status SharedGroup::open_peers(const std::vector<std::string>& introductions) {
  for (std::size_t rank = 0; rank < introductions.size(); ++rank) {
    const MemoryAddress peer = memory_address_from(introductions[rank]).value_or(MemoryAddress{});
    MUSTER_ASSIGN(auto process, ProcessWatch::start(peer.pid));
    processes_.push_back(std::move(process));
    if (memories_[rank]) continue;
    MUSTER_ASSIGN(memories_[rank],
                  SharedMemory::open(peer.pid, peer.descriptor, kHeapBegin + heap_bytes_));
    if (control(Rank{static_cast<std::int32_t>(rank)}).token != peer.token)
      return muster::fail(ErrorCode::kUnavailable,
                          fmt::format("process {} is not the one that rank {} runs in (another "
                                      "container?)",
                                      peer.pid, rank));
  }
  crowded_ = group_.size > cores_of_all();
  try_reads();
  return ok();
}

// Whether the processes may be read is told in my memory before the second exchange. That the same
// word is found there as in the memory that all map shows that it is the right process.
void SharedGroup::try_reads() {
  for (std::size_t rank = 0; rank < processes_.size(); ++rank) {
    const Control& peer = control(Rank{static_cast<std::int32_t>(rank)});
    address_spaces_.emplace_back(processes_[rank]->pid(),
                                 std::bit_cast<const std::byte*>(peer.address), peer.token);
  }
  mine().reads_from = wished_reads_from_;
  if (wished_reads_from_ == kNoReads) return;
  for (const PeerMemory& peer : address_spaces_) {
    const Status reached = peer.reach();
    if (reached) continue;
    why_no_reads_ = reached.error().message;
    mine().reads_from = kNoReads;
    return;
  }
}

void SharedGroup::agree_on_reads() noexcept {
  reads_from_ = 0;
  for (std::int32_t rank = 0; rank < group_.size; ++rank)
    reads_from_ = std::max<std::size_t>(reads_from_, control(Rank{rank}).reads_from);
}

std::string SharedGroup::describe_reads() const {
  if (reads_from_ != kNoReads)
    return fmt::format(
        "parts of {} and more of tensors that are not from allocate() are read out "
        "of each other's processes",
        format_bytes(reads_from_));
  std::string why = why_no_reads_;
  for (std::int32_t rank = 0; rank < group_.size && why.empty(); ++rank)
    if (control(Rank{rank}).reads_from == kNoReads)
      why = fmt::format("rank {} may or will not read other processes", rank);
  return fmt::format("tensors that are not from allocate() go through slots: {}", why);
}

int SharedGroup::cores_of_all() const noexcept {
  CoreSet all{};
  for (std::int32_t rank = 0; rank < group_.size; ++rank)
    for (std::size_t i = 0; i < all.size(); ++i) all[i] |= control(Rank{rank}).cores[i];
  int count = 0;
  for (const std::uint64_t cores : all) count += std::popcount(cores);
  return count;
}

SharedGroup::SharedGroup(Group group, std::size_t heap_bytes, Clock& clock, std::size_t reads_from)
    : group_(group),
      heap_bytes_(heap_bytes),
      wished_reads_from_(reads_from),
      clock_(clock),
      heap_(kHeapBegin, kHeapBegin + heap_bytes) {}

// Others may wait for this rank: create() can fail in its last exchange on this one alone.
SharedGroup::~SharedGroup() {
  const auto own = static_cast<std::size_t>(to_int(group_.rank));
  if (own < memories_.size() && memories_[own]) mine().left.store(1, std::memory_order_release);
}

std::byte* SharedGroup::memory(Rank rank) const noexcept {
  return memories_[static_cast<std::size_t>(to_int(rank))]->bytes().data();
}

Control& SharedGroup::control(Rank rank) const noexcept {
  return *std::launder(reinterpret_cast<Control*>(memory(rank)));
}

const PeerMemory& SharedGroup::process(Rank rank) const noexcept {
  return address_spaces_[static_cast<std::size_t>(to_int(rank))];
}

std::optional<std::uint64_t> SharedGroup::offset_of(
    std::span<const std::byte> bytes) const noexcept {
  const auto begin = reinterpret_cast<std::uintptr_t>(memory(group_.rank));
  const auto at = reinterpret_cast<std::uintptr_t>(bytes.data());
  if (at < begin + kHeapBegin || at + bytes.size() > begin + kHeapBegin + heap_bytes_)
    return std::nullopt;
  return at - begin;
}

bool SharedGroup::come(Rank rank) const noexcept {
  const std::uint32_t meeting = flag(rank).meeting.load();
  return static_cast<std::int32_t>(meeting - phase_) >= 0;  // the counter wraps
}

Status SharedGroup::meet(Deadline deadline) {
  ++phase_;
  return crowded_ ? meet_crowded(deadline) : meet_apart(deadline);
}

// Each rank has a core: it looks at the others' flags.
Status SharedGroup::meet_apart(Deadline deadline) {
  Control& own = mine();
  own.flags[phase_ % 2].meeting.store(phase_);
  if (own.sleepers.count.load() != 0) rouse(own.sleepers);
  for (std::int32_t rank = 0; rank < group_.size; ++rank) {
    const auto over = [&] { return come(Rank{rank}); };
    if (spin(over)) continue;
    MUSTER_TRY(sleep(control(Rank{rank}).sleepers, over, deadline));
  }
  return ok();
}

// Ranks share cores: they count themselves, and the last one wakes all that sleep at once.
Status SharedGroup::meet_crowded(Deadline deadline) {
  Control& gate = control(Rank{0});
  mine().flags[phase_ % 2].meeting.store(phase_, std::memory_order_release);
  if (gate.arrived.fetch_add(1) + 1 == phase_ * static_cast<std::uint32_t>(group_.size)) {
    gate.opened.store(phase_);
    if (gate.outside.count.load() != 0) rouse(gate.outside);
    return ok();
  }
  const auto opened = [&] { return static_cast<std::int32_t>(gate.opened.load() - phase_) >= 0; };
  if (spin(opened)) return ok();
  // Who died between flag and count will never be counted.
  return sleep(
      gate.outside, [&] { return opened() || missing().empty(); }, deadline);
}

template <class Over>
bool SharedGroup::spin(const Over& over) const {
  const auto look = [&] {
    for (int i = 0; i < (crowded_ ? 1 : kLooksAtOnce); ++i)
      if (over()) return true;
    return false;
  };
  if (look()) return true;
  const TimePoint end = clock_.now() + (crowded_ ? kYield : kSpin);
  while (clock_.now() < end) {
    if (crowded_) std::this_thread::yield();
    if (look()) return true;
  }
  return false;
}

// All sequentially consistent: either whoever comes, fails or leaves finds this rank counted and
// `wakes` no more as it was, or this rank finds what that one had stored before.
template <class Over>
Status SharedGroup::sleep(Sleepers& sleepers, const Over& over, Deadline deadline) const {
  for (;;) {
    sleepers.count.fetch_add(1);
    const std::uint32_t seen = sleepers.wakes.load();
    if (!over() && !disturbed())
      wait_on(sleepers.wakes, seen, std::min(kNap, deadline.left(clock_)));
    sleepers.count.fetch_sub(1);
    if (over()) return ok();
    if (auto stopped = trouble()) return *stopped;
    if (auto lost = anybody_gone()) return *lost;
    if (!deadline.passed(clock_)) continue;
    const std::vector<Rank> absent = missing();
    return muster::fail(ErrorCode::kTimeout, "", absent.empty() ? kNoRank : absent.front());
  }
}

// Whether somebody has failed, or left without coming. Asks nobody whether it lives.
bool SharedGroup::disturbed() const noexcept {
  if (failed_) return true;
  for (std::int32_t rank = 0; rank < group_.size; ++rank) {
    const Control& peer = control(Rank{rank});
    if (peer.failed.load() != 0 || (peer.left.load() != 0 && !come(Rank{rank}))) return true;
  }
  return false;
}

// Of those the meeting still waits for; whoever left after coming is not missed.
std::optional<Error> SharedGroup::anybody_gone() const {
  for (const Rank rank : missing())
    if (auto lost = gone(rank); lost && !come(rank)) return lost;
  return std::nullopt;
}

std::vector<Rank> SharedGroup::missing() const {
  std::vector<Rank> ranks;
  for (std::int32_t rank = 0; rank < group_.size; ++rank)
    if (!come(Rank{rank})) ranks.push_back(Rank{rank});
  return ranks;
}

// By their flags alone: phase_ is of whoever runs the collective.
std::vector<Rank> SharedGroup::awaited() const {
  const auto before = [](std::uint32_t a, std::uint32_t b) {
    return static_cast<std::int32_t>(a - b) < 0;
  };
  const auto last = [&](Rank rank) {
    const auto& flags = control(rank).flags;
    return std::max(flags[0].meeting.load(), flags[1].meeting.load(), before);
  };
  const std::uint32_t mine = last(group_.rank);
  std::vector<Rank> ranks;
  for (std::int32_t rank = 0; rank < group_.size; ++rank)
    if (before(last(Rank{rank}), mine)) ranks.push_back(Rank{rank});
  return ranks;
}

std::optional<Error> SharedGroup::trouble() const {
  if (failed_) {
    const std::lock_guard lock(mutex_);
    return failure_;
  }
  for (std::int32_t rank = 0; rank < group_.size; ++rank) {
    const Control& peer = control(Rank{rank});
    if (rank == to_int(group_.rank) || peer.failed.load() == 0) continue;
    const std::string_view message(peer.message.data(),
                                   ::strnlen(peer.message.data(), peer.message.size()));
    return told_by(Rank{rank},
                   {static_cast<ErrorCode>(peer.code), std::string(message), Rank{peer.culprit}});
  }
  return std::nullopt;
}

std::optional<Error> SharedGroup::given_up() const {
  if (auto stopped = trouble()) return stopped;
  for (std::int32_t rank = 0; rank < group_.size; ++rank)
    if (control(Rank{rank}).left.load() != 0) return gone(Rank{rank});
  return std::nullopt;
}

std::optional<Error> SharedGroup::gone(Rank rank) const {
  if (control(rank).left.load() != 0)
    return muster::fail(ErrorCode::kPeerLost,
                        fmt::format("[comm/native] rank {} left generation {}", to_int(rank),
                                    to_int(group_.generation)),
                        rank);
  const ProcessWatch& process = *processes_[static_cast<std::size_t>(to_int(rank))];
  if (process.ended())
    return muster::fail(ErrorCode::kPeerLost,
                        fmt::format("[comm/native] rank {} (process {}) died in generation {}; see "
                                    "its log",
                                    to_int(rank), process.pid(), to_int(group_.generation)),
                        rank);
  return std::nullopt;
}

// Waits for the end of a process that has no memory any more, as the others do who miss it at the
// next meeting.
Error SharedGroup::why_unread(Rank rank, const Error& why, Deadline deadline) const {
  const Deadline until(std::min(deadline.at(), clock_.now() + kEnding));
  for (;;) {
    const std::uint32_t seen = mine().sleepers.wakes.load();
    if (auto stopped = given_up()) return *stopped;
    if (auto lost = gone(rank)) return *lost;
    if (until.passed(clock_)) break;
    wait_on(mine().sleepers.wakes, seen, std::min(kNap, until.left(clock_)));
  }
  return muster::fail(
      ErrorCode::kUnavailable,
      fmt::format("[comm/native] rank {}'s tensor cannot be read in generation {} ({}): it must "
                  "stay where it is until the operation ends; where that is so, set "
                  "communication.transport to tcp",
                  to_int(rank), to_int(group_.generation), why.message),
      rank);
}

void SharedGroup::fail(const Error& why, bool tell) noexcept {
  const std::lock_guard lock(mutex_);
  Control& own = mine();
  if (!failed_) {
    failure_ = why;
    failed_ = true;
    if (tell) {
      own.code = static_cast<std::int32_t>(why.code);
      own.culprit = to_int(why.peer);
      own.message.fill('\0');
      std::memcpy(own.message.data(), why.message.data(),
                  std::min(why.message.size(), own.message.size() - 1));
      own.failed.store(1);
    }
  }
  if (!tell) own.left.store(1);
  for (std::int32_t rank = 0; rank < group_.size; ++rank) {
    rouse(control(Rank{rank}).sleepers);
    rouse(control(Rank{rank}).outside);
    ring(Rank{rank});
  }
}

// One that has left may still be inside with a thread of its own; only the dead are not.
void SharedGroup::await_rest(Deadline until) const {
  for (std::int32_t rank = 0; rank < group_.size; ++rank) {
    if (rank == to_int(group_.rank)) continue;
    const auto& inside = control(Rank{rank}).inside;
    const ProcessWatch& process = *processes_[static_cast<std::size_t>(rank)];
    while (inside.load() != 0 && !process.ended() && !until.passed(clock_))
      wait_on(inside, 1, std::min(kNap, until.left(clock_)));
  }
}

// Either this rank finds that one has given up, or that one finds this rank inside (await_rest).
Status SharedAccess::open() {
  group_.mine().inside.store(1);
  open_ = true;
  if (group_.given_up()) return close();
  return ok();
}

Status SharedAccess::close() {
  if (!std::exchange(open_, false)) return ok();
  auto& inside = group_.mine().inside;
  inside.store(0);
  const auto why = group_.given_up();
  if (!why) return ok();
  wake_all(inside);
  return *why;
}

void SharedGroup::ring(Rank rank) const noexcept {
  auto& doorbell = control(rank).doorbell;
  doorbell.fetch_add(1);
  wake_all(doorbell);
}

Result<std::uint64_t> SharedGroup::reserve(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto begin = heap_.take(round_up(bytes, kPage), bytes >= kHugePage ? kHugePage : kPage);
  if (!begin)
    return muster::fail(
        ErrorCode::kUnavailable,
        fmt::format("[comm/allocate] {} bytes do not fit: {} of {} bytes of address "
                    "space are used up",
                    bytes, heap_.taken(), heap_.size()));
  if (bytes >= kHugePage)
    memories_[static_cast<std::size_t>(to_int(group_.rank))]->prefer_huge_pages(*begin, bytes);
  return *begin;
}

void SharedGroup::give_back(std::uint64_t offset, std::size_t bytes) noexcept {
  const std::size_t whole = round_up(bytes, kPage);
  const std::lock_guard lock(mutex_);
  memories_[static_cast<std::size_t>(to_int(group_.rank))]->release(offset, whole);
  heap_.give_back(offset, whole);
}

Result<Buffer> SharedGroup::allocate(const std::shared_ptr<SharedGroup>& group, std::size_t bytes) {
  struct Block {
    std::shared_ptr<SharedGroup> group;  // keeps the mapping
    std::uint64_t offset;
    std::span<std::byte> span;
    Block(std::shared_ptr<SharedGroup> from, std::uint64_t at, std::size_t size)
        : group(std::move(from)), offset(at), span(group->memory(group->group().rank) + at, size) {}
    Block(const Block&) = delete;
    Block& operator=(const Block&) = delete;
    ~Block() { group->give_back(offset, std::max<std::size_t>(span.size(), 1)); }
  };
  MUSTER_ASSIGN(const std::uint64_t offset, group->reserve(std::max<std::size_t>(bytes, 1)));
  auto block = std::make_shared<Block>(group, offset, bytes);
  return Buffer(block, &block->span);
}

}  // namespace muster::comm
