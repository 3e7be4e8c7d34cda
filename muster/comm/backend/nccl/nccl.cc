#include "muster/comm/backend/nccl/nccl.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "muster/base/hash.h"
#include "muster/base/number.h"
#include "muster/base/shared_library.h"
#include "muster/comm/backend/nccl/nccl_engine.h"

namespace muster::comm {
namespace {

using NcclId = std::array<std::byte, MUSTER_NCCL_ID_BYTES>;

// What ranks tell each other before NCCL has them meet.
struct Welcome {
  std::string host = {};
  int devices = 0;
  std::string id = {};   // in hexadecimal; of rank 0
  std::string why = {};  // it cannot come; empty: it can
};

constexpr char kBetween = '\n';

std::string to_text(const Welcome& mine) {
  std::string why = mine.why;
  std::ranges::replace(why, kBetween, ' ');
  return fmt::format("{}\n{}\n{}\n{}", mine.host, mine.devices, mine.id, why);
}

std::string next_line(std::string_view& text) {
  const auto end = std::min(text.find(kBetween), text.size());
  const std::string line(text.substr(0, end));
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

std::optional<Welcome> welcome_from(std::string_view text) {
  Welcome told;
  told.host = next_line(text);
  const auto devices = number_from<decltype(told.devices)>(next_line(text));
  if (!devices) return std::nullopt;
  told.devices = *devices;
  told.id = next_line(text);
  told.why = next_line(text);
  return told;
}

std::optional<NcclId> id_from(std::string_view text) {
  NcclId id{};
  if (text.size() != 2 * id.size()) return std::nullopt;
  const auto digit = [](char c) {
    const auto at = std::string_view("0123456789abcdef").find(c);
    return at == std::string_view::npos ? -1 : static_cast<int>(at);
  };
  for (std::size_t i = 0; i < id.size(); ++i) {
    const int high = digit(text[2 * i]);
    const int low = digit(text[2 * i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    id[i] = static_cast<std::byte>(16 * high + low);
  }
  return id;
}

Welcome introduce(const NcclOptions& options, const Group& group) {
  Welcome mine{.host = options.host};
  const char* told = options.nccl->devices(&mine.devices);
  NcclId id{};
  if (told == nullptr && mine.devices > 0 && group.rank == Rank{0}) {
    told = options.nccl->make_id(id.data());
    mine.id = to_hex(id);
  }
  if (told != nullptr) mine.why = told;
  return mine;
}

Error has_no_device(const Welcome& told, Rank rank, std::ptrdiff_t before) {
  const std::string why =
      !told.why.empty() ? told.why
      : told.devices == 0
          ? std::string("the host has none")
          : fmt::format("the host has {}, and {} ranks before it", told.devices, before);
  return fail(ErrorCode::kUnavailable,
              fmt::format("[comm/nccl] rank {} on {} has no GPU: {}; start no more workers on a "
                          "host than it has GPUs, or set communication.engine: native",
                          to_int(rank), told.host, why),
              rank);
}

// The device of this rank; or, alike on all ranks, why somebody has none.
Result<int> device_of(const std::vector<Welcome>& all, const Group& group) {
  int mine = 0;
  for (auto told = all.begin(); told != all.end(); ++told) {
    const Rank rank{static_cast<std::int32_t>(told - all.begin())};
    const auto before = std::ranges::count(all.begin(), told, told->host, &Welcome::host);
    if (!told->why.empty() || before >= told->devices) return has_no_device(*told, rank, before);
    if (rank == group.rank) mine = static_cast<int>(before);
  }
  return mine;
}

Result<std::vector<Welcome>> meet(const NcclOptions& options, const Footing& footing) {
  MUSTER_ASSIGN(const auto texts,
                footing.exchange(to_text(introduce(options, footing.group)), footing.deadline));
  std::vector<Welcome> all;
  for (const std::string& text : texts) {
    auto told = welcome_from(text);
    if (!told)
      return fail(ErrorCode::kCorrupt,
                  fmt::format("[comm/nccl] rank {} does not say which GPUs it has; do all workers "
                              "run the same muster?",
                              all.size()),
                  Rank{static_cast<std::int32_t>(all.size())});
    all.push_back(std::move(*told));
  }
  return all;
}

std::optional<Error> stale(const std::function<bool()>& cancelled) {
  if (!cancelled || !cancelled()) return std::nullopt;
  return fail(ErrorCode::kStale, "[comm/nccl] the generation has ended");
}

// kTimeout without text of await(): nobody knows who.
Status with_text(Status joined) {
  if (joined || !joined.error().message.empty()) return joined;
  return fail(ErrorCode::kTimeout,
              "[comm/nccl] NCCL did not connect all ranks in time; NCCL_SOCKET_IFNAME names the "
              "network it should use, and with NCCL_DEBUG=INFO it says what it waits for");
}

Result<std::unique_ptr<Engine>> create_nccl_engine(const NcclOptions& options, Footing footing) {
  const Group& group = footing.group;
  MUSTER_ASSIGN(const auto all, meet(options, footing));
  MUSTER_ASSIGN(const int device, device_of(all, group));
  const auto id = id_from(all.front().id);
  if (!id) return fail(ErrorCode::kCorrupt, "[comm/nccl] rank 0 tells no id of NCCL", Rank{0});
  MusterNcclGroup* made = nullptr;
  MUSTER_TRY(nccl_status(
      options.nccl->join(id->data(), device, to_int(group.rank), group.size, &made), "join"));
  auto nccl = std::make_unique<NcclGroup>(*options.nccl, made, device);
  MUSTER_TRY(with_text(await(*nccl, {.transport = *footing.transport,
                                     .group = group,
                                     .deadline = footing.deadline,
                                     .ends = [&] { return stale(footing.cancelled); }})));
  options.log->info("rank {} of {} has GPU {} of {}, and sums over {}", to_int(group.rank),
                    group.size, device, options.host, options.nccl->library());
  return std::make_unique<NcclEngine>(group, std::move(footing.transport), footing.costs,
                                      std::move(nccl));
}

}  // namespace

Result<MusterNccl*> load_nccl(const Path& module) {
  MUSTER_ASSIGN(void* const symbol, load_symbol(module, MUSTER_NCCL_SYMBOL));
  MusterNccl* const nccl = reinterpret_cast<MusterNcclModule*>(symbol)();
  if (nccl->version == MUSTER_NCCL_VERSION) return nccl;
  return fail(ErrorCode::kUnavailable,
              fmt::format("[comm/nccl] {} is of another version of muster ({}, here {}): install "
                          "both together",
                          module.native(), nccl->version, MUSTER_NCCL_VERSION));
}

Result<std::string> describe(const MusterNccl& nccl) {
  int devices = 0;
  MUSTER_TRY(nccl_status(nccl.devices(&devices), "find a GPU"));
  if (devices == 0) return fail(ErrorCode::kUnavailable, "[comm/nccl] NCCL finds no GPU");
  return fmt::format("{}, {} {}", nccl.library(), devices, devices == 1 ? "GPU" : "GPUs");
}

EngineOver nccl_over_transport(NcclOptions options) {
  return [options = std::move(options)](Footing footing) {
    return create_nccl_engine(options, std::move(footing));
  };
}

}  // namespace muster::comm
