#include "muster/cluster/member_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

namespace muster::cluster {
namespace {

using MembersJson = nlohmann::json;

constexpr std::uint32_t kMembersVersion = 1;
constexpr const char* kMembersKind = "members";

// In columns, and each host once: names of fields and hosts would be nine tenths of the bytes.
MembersJson to_columns(const std::vector<MemberInfo>& members) {
  MembersJson columns = {{"hosts", MembersJson::array()},    {"host", MembersJson::array()},
                         {"worker", MembersJson::array()},   {"pid", MembersJson::array()},
                         {"door", MembersJson::array()},     {"can_lead", MembersJson::array()},
                         {"has_state", MembersJson::array()}};
  std::map<std::pair<std::string, std::string>, std::size_t> hosts;
  for (const auto& [rank, info] : members) {
    const auto [host, is_new] = hosts.try_emplace({info.host, info.boot_id}, hosts.size());
    if (is_new) columns["hosts"].push_back(MembersJson::array({info.host, info.boot_id}));
    columns["host"].push_back(host->second);
    columns["worker"].push_back(info.worker);
    columns["pid"].push_back(info.pid);
    columns["door"].push_back(info.door);
    columns["can_lead"].push_back(info.can_lead);
    columns["has_state"].push_back(info.has_state);
  }
  return columns;
}

// Throws what nlohmann throws where a column is missing, too short, or holds something else.
std::vector<MemberInfo> from_columns(const MembersJson& columns) {
  const MembersJson& hosts = columns.at("hosts");
  const MembersJson& host = columns.at("host");
  std::vector<MemberInfo> members(host.size());
  for (std::size_t i = 0; i < members.size(); ++i) {
    const MembersJson& place = hosts.at(host.at(i).get<std::size_t>());
    members[i].rank = Rank{static_cast<std::int32_t>(i)};
    WorkerInfo& info = members[i].info;
    place.at(0).get_to(info.host);
    place.at(1).get_to(info.boot_id);
    columns.at("worker").at(i).get_to(info.worker);
    columns.at("pid").at(i).get_to(info.pid);
    columns.at("door").at(i).get_to(info.door);
    columns.at("can_lead").at(i).get_to(info.can_lead);
    columns.at("has_state").at(i).get_to(info.has_state);
  }
  return members;
}

}  // namespace

struct MemberList::Shared {
  explicit Shared(std::vector<MemberInfo> members) : list(std::move(members)) {}

  const std::vector<MemberInfo> list;
  mutable std::once_flag once;
  mutable net::Bytes encoded;  // once
};

MemberList::MemberList(std::vector<MemberInfo> list) {
  if (!list.empty()) shared_ = std::make_shared<const Shared>(std::move(list));
}

const std::vector<MemberInfo>& MemberList::list() const noexcept {
  static const std::vector<MemberInfo> nobody;
  return shared_ ? shared_->list : nobody;
}

std::shared_ptr<const net::Bytes> MemberList::encoded() const {
  const auto shared = shared_ ? shared_ : std::make_shared<const Shared>(list());
  std::call_once(shared->once, [&] {
    shared->encoded = net::encode_message(kMembersVersion, kMembersKind, to_columns(shared->list));
  });
  return {shared, &shared->encoded};
}

Result<MemberList> decode_member_list(std::span<const std::byte> bytes) {
  MembersJson columns;
  MUSTER_ASSIGN(const auto kind, net::decode_message(kMembersVersion, bytes, columns));
  try {
    if (kind == kMembersKind) return MemberList(from_columns(columns));
  } catch (const std::exception& error) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("[cluster/members] a bad list of members: {}", error.what()));
  }
  return fail(ErrorCode::kUnsupported,
              fmt::format("[cluster/members] \"{}\" is no list of members; run the same muster "
                          "everywhere",
                          kind));
}

Result<MemberList> MemberLists::read(std::span<const std::byte> bytes) {
  const std::lock_guard lock(mutex_);
  if (std::ranges::equal(bytes, last_)) return members_;
  MUSTER_ASSIGN(members_, decode_member_list(bytes));
  last_.assign(bytes.begin(), bytes.end());
  return members_;
}

}  // namespace muster::cluster
