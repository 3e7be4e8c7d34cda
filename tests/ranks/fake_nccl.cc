#include "tests/ranks/fake_nccl.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "muster/comm/op.h"
#include "muster/comm/reduce.h"

namespace muster::comm {

// The ranks of one group, those that have come so far and have not gone. Guarded by the fake's
// mutex, as all here.
struct FakeWorld {
  std::vector<MusterNcclGroup*> ranks;
  std::size_t joined = 0;
};

struct FakeSplit {
  int color = 0;
  int key = 0;
  MusterNcclGroup* part = nullptr;
};

}  // namespace muster::comm

struct MusterNcclGroup {
  std::shared_ptr<muster::comm::FakeWorld> world;  // none: it has not split off yet
  int rank = 0;
  bool under_way = false;
  bool aborted = false;
  MusterNcclCall call{};
  std::vector<std::size_t> shards;
  std::vector<muster::comm::FakeSplit> split_off;  // 0 or 1: this rank's call of split()

  std::size_t size() const { return world->ranks.size(); }
};

namespace muster::comm {
namespace {

std::mutex& fake_mutex() {
  static std::mutex mutex;
  return mutex;
}

// What NCCL's kernels would do, once all ranks have begun.
struct FakeKernels {
  using Bytes = std::vector<std::byte>;

  static const std::byte* at(const void* memory, std::size_t bytes) {
    return static_cast<const std::byte*>(memory) + bytes;
  }

  static void write(void* memory, std::size_t begin, const std::byte* from, std::size_t bytes) {
    if (bytes > 0) std::memcpy(static_cast<std::byte*>(memory) + begin, from, bytes);
  }

  static Bytes reduced(const FakeWorld& world, std::size_t begin, std::size_t count) {
    const MusterNcclCall& call = world.ranks.front()->call;
    const auto dtype = static_cast<DType>(call.dtype);
    const auto how = static_cast<Reduce>(call.reduce);
    Bytes total(count * call.width);
    write(total.data(), 0, at(call.input, begin * call.width), total.size());
    for (std::size_t rank = 1; rank < world.ranks.size(); ++rank)
      reduce(dtype, how, {total.data()}, total.data(),
             at(world.ranks[rank]->call.input, begin * call.width),
             static_cast<std::int64_t>(count));
    if (how == Reduce::kAvg)
      divide(dtype, total.data(), static_cast<std::int64_t>(count),
             static_cast<std::int32_t>(world.ranks.size()));
    return total;
  }

  // Where each rank's part begins, in elements, and the end of the last.
  static std::vector<std::size_t> parts_of(const MusterNcclGroup& group) {
    if (!group.shards.empty()) return group.shards;
    std::vector<std::size_t> begin;
    for (std::size_t rank = 0; rank <= group.size(); ++rank)
      begin.push_back(rank * group.call.count);
    return begin;
  }

  static void all_reduce(const FakeWorld& world) {
    const Bytes total = reduced(world, 0, world.ranks.front()->call.count);
    for (auto* group : world.ranks) write(group->call.output, 0, total.data(), total.size());
  }

  static void reduce_scatter(const FakeWorld& world) {
    const auto begin = parts_of(*world.ranks.front());
    std::vector<Bytes> parts;
    for (std::size_t rank = 0; rank < world.ranks.size(); ++rank)
      parts.push_back(reduced(world, begin[rank], begin[rank + 1] - begin[rank]));
    for (std::size_t rank = 0; rank < world.ranks.size(); ++rank)
      write(world.ranks[rank]->call.output, 0, parts[rank].data(), parts[rank].size());
  }

  static void all_gather(const FakeWorld& world) {
    const auto begin = parts_of(*world.ranks.front());
    const std::size_t width = world.ranks.front()->call.width;
    Bytes row(begin.back() * width);
    for (std::size_t rank = 0; rank < world.ranks.size(); ++rank)
      write(row.data(), begin[rank] * width, at(world.ranks[rank]->call.input, 0),
            (begin[rank + 1] - begin[rank]) * width);
    for (auto* group : world.ranks) write(group->call.output, 0, row.data(), row.size());
  }

  static void broadcast(const FakeWorld& world) {
    const MusterNcclCall& call =
        world.ranks[static_cast<std::size_t>(world.ranks.front()->call.root)]->call;
    const Bytes sent(at(call.input, 0), at(call.input, call.count * call.width));
    for (auto* group : world.ranks) write(group->call.output, 0, sent.data(), sent.size());
  }

  static void all_to_all(const FakeWorld& world) {
    const std::size_t block = world.ranks.front()->call.count * world.ranks.front()->call.width;
    std::vector<Bytes> sent;
    for (auto* group : world.ranks)
      sent.emplace_back(at(group->call.input, 0), at(group->call.input, group->size() * block));
    for (std::size_t to = 0; to < sent.size(); ++to)
      for (std::size_t from = 0; from < sent.size(); ++from)
        write(world.ranks[to]->call.output, from * block, sent[from].data() + to * block, block);
  }

  static bool is_alike(const MusterNcclGroup& a, const MusterNcclGroup& b) {
    const auto key = [](const MusterNcclCall& call) {
      return std::array{call.op, call.dtype, call.reduce, call.root};
    };
    const bool same_count = !a.shards.empty() || a.call.count == b.call.count;
    return key(a.call) == key(b.call) && a.shards == b.shards && same_count;
  }

  static void run_once_all_have_begun(const FakeWorld& world) {
    for (const auto* group : world.ranks)
      if (group == nullptr || !group->under_way || group->aborted) return;
    const MusterNcclGroup& first = *world.ranks.front();
    for (const auto* group : world.ranks)
      if (!is_alike(first, *group)) return;
    constexpr void (*kRun[])(const FakeWorld&) = {all_reduce, reduce_scatter, all_gather, broadcast,
                                                  all_to_all};
    if (first.call.op < static_cast<int>(std::size(kRun))) kRun[first.call.op](world);
    for (auto* group : world.ranks) group->under_way = false;
  }

  static void split_once_all_have_called(const FakeWorld& world) {
    std::map<int, std::vector<std::pair<int, MusterNcclGroup*>>> parts;  // by colour, with keys
    for (const auto* group : world.ranks) {
      if (group == nullptr || group->split_off.empty()) return;
      const FakeSplit& one = group->split_off.front();
      parts[one.color].emplace_back(one.key, one.part);
    }
    for (auto& [color, members] : parts) {
      std::ranges::sort(members, {}, &std::pair<int, MusterNcclGroup*>::first);
      const auto part = std::make_shared<FakeWorld>();
      for (const auto& [key, group] : members) {
        group->world = part;
        group->rank = static_cast<int>(part->ranks.size());
        part->ranks.push_back(group);
        ++part->joined;
      }
    }
    for (auto* group : world.ranks) group->split_off.clear();
  }
};

struct FakeTable {
  static const char* library() { return "NCCL 2.99.0, CUDA 13.0"; }

  static const char* many_devices(int* count) {
    *count = 1000;
    return nullptr;
  }

  static const char* no_devices(int* count) {
    *count = 0;
    return "no CUDA-capable device is detected";
  }

  static const char* make_id(void* id) {
    static std::uint64_t last = 0;
    const std::lock_guard lock(fake_mutex());
    std::memset(id, 0, MUSTER_NCCL_ID_BYTES);
    ++last;
    std::memcpy(id, &last, sizeof last);
    return nullptr;
  }

  static const char* join(const void* id, int, int rank, int size, MusterNcclGroup** group) {
    static std::map<std::uint64_t, std::weak_ptr<FakeWorld>> worlds;
    const std::lock_guard lock(fake_mutex());
    std::uint64_t number = 0;
    std::memcpy(&number, id, sizeof number);
    auto world = worlds[number].lock();
    if (!world) {
      world = std::make_shared<FakeWorld>();
      world->ranks.resize(static_cast<std::size_t>(size));
      worlds[number] = world;
    }
    *group = new MusterNcclGroup();
    (*group)->world = world;
    (*group)->rank = rank;
    world->ranks[static_cast<std::size_t>(rank)] = *group;
    ++world->joined;
    return nullptr;
  }

  static const char* split(MusterNcclGroup* whole, int color, int key, MusterNcclGroup** part) {
    const std::lock_guard lock(fake_mutex());
    *part = new MusterNcclGroup();
    whole->split_off.push_back({color, key, *part});
    FakeKernels::split_once_all_have_called(*whole->world);
    return nullptr;
  }

  static const char* begin(MusterNcclGroup* group, const MusterNcclCall* call) {
    const std::lock_guard lock(fake_mutex());
    group->call = *call;
    group->shards.clear();
    if (call->begin != nullptr) group->shards.assign(call->begin, call->begin + group->size() + 1);
    group->under_way = true;
    FakeKernels::run_once_all_have_begun(*group->world);
    return nullptr;
  }

  static const char* poll(MusterNcclGroup* group, int* done) {
    const std::lock_guard lock(fake_mutex());
    const bool is_there = group->world && group->world->joined == group->size();
    *done = group->aborted || (is_there && !group->under_way) ? 1 : 0;
    return nullptr;
  }

  static void abort(MusterNcclGroup* group) {
    const std::lock_guard lock(fake_mutex());
    group->aborted = true;
  }

  static const char* finish(MusterNcclGroup*) { return nullptr; }

  static void release(MusterNcclGroup* group) {
    const std::lock_guard lock(fake_mutex());
    if (group->world)
      std::ranges::replace(group->world->ranks, group, static_cast<MusterNcclGroup*>(nullptr));
    delete group;
  }

  static const char* copy(int, void* to, const void* from, std::size_t bytes) {
    std::memcpy(to, from, bytes);
    return nullptr;
  }

  static const char* allocate(int, MusterNcclMemory, std::size_t bytes, void** memory) {
    constexpr std::size_t kLine = 64;
    *memory = std::aligned_alloc(kLine, (bytes + kLine - 1) / kLine * kLine);
    return *memory != nullptr ? nullptr : "out of memory";
  }

  static void give_back(int, MusterNcclMemory, void* memory) { std::free(memory); }
};

MusterNccl fake_table() {
  using Table = FakeTable;
  return {MUSTER_NCCL_VERSION, Table::library, Table::many_devices, Table::make_id,  Table::join,
          Table::split,        Table::begin,   Table::poll,         Table::abort,    Table::finish,
          Table::release,      Table::copy,    Table::allocate,     Table::give_back};
}

}  // namespace

const MusterNccl& fake_nccl() {
  static const MusterNccl table = fake_table();
  return table;
}

const MusterNccl& fake_nccl_without_devices() {
  static const MusterNccl none = [] {
    MusterNccl table = fake_table();
    table.devices = FakeTable::no_devices;
    return table;
  }();
  return none;
}

}  // namespace muster::comm
