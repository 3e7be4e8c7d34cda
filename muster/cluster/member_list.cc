#include "muster/cluster/member_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <unordered_map>
#include <utility>

#include "muster/cluster/member_columns.h"

namespace muster::cluster {
namespace {

using MembersJson = nlohmann::json;

constexpr std::uint32_t kMembersVersion = 2;
constexpr const char* kMembersKind = "members";
constexpr const char* kChangesKind = "member_changes";

// [first, count]: so many of the list before, or, where first is this, the next so many new ones.
using Piece = std::array<std::int64_t, 2>;
constexpr std::int64_t kNew = -1;

bool continues(const Piece& piece, std::int64_t first) {
  return first == kNew ? piece[0] == kNew : piece[0] != kNew && piece[0] + piece[1] == first;
}

MembersJson to_changes(const std::vector<MemberInfo>& before,
                       const std::vector<MemberInfo>& after) {
  std::unordered_map<std::int32_t, std::size_t> places;
  for (std::size_t i = 0; i < before.size(); ++i) places.emplace(before[i].info.worker, i);
  std::vector<Piece> pieces;
  std::vector<MemberInfo> fresh;
  for (const MemberInfo& member : after) {
    const auto found = places.find(member.info.worker);
    const bool is_kept = found != places.end() && before[found->second].info == member.info;
    const std::int64_t first = is_kept ? static_cast<std::int64_t>(found->second) : kNew;
    if (!is_kept) fresh.push_back(member);
    if (!pieces.empty() && continues(pieces.back(), first))
      ++pieces.back()[1];
    else
      pieces.push_back({first, 1});
  }
  return {{"before", before.size()}, {"pieces", pieces}, {"new", to_columns(fresh)}};
}

// Throws where these are no changes, or those of another list.
std::vector<MemberInfo> from_changes(const MembersJson& changes,
                                     const std::vector<MemberInfo>& before) {
  if (changes.at("before").get<std::size_t>() != before.size())
    throw std::out_of_range("they are of another list");
  const std::vector<MemberInfo> fresh = from_columns(changes.at("new"));
  const std::size_t most = before.size() + fresh.size();
  std::vector<MemberInfo> after;
  std::size_t used = 0;
  for (const auto& [first, count] : changes.at("pieces").get<std::vector<Piece>>()) {
    const bool is_new = first == kNew;
    const auto& from = is_new ? fresh : before;
    const std::size_t begin = is_new ? used : static_cast<std::size_t>(first);
    const auto size = static_cast<std::size_t>(count);
    if (begin > from.size() || size > from.size() - begin || size > most - after.size())
      throw std::out_of_range("a piece");
    const auto source = from.begin() + static_cast<std::ptrdiff_t>(begin);
    after.insert(after.end(), source, source + static_cast<std::ptrdiff_t>(size));
    if (is_new) used += size;
  }
  if (used != fresh.size()) throw std::out_of_range("too many new ones");
  for (std::size_t i = 0; i < after.size(); ++i) after[i].rank = Rank{static_cast<int>(i)};
  return after;
}

}  // namespace

std::string describe(const WorkerInfo& info) {
  return fmt::format("worker {} (host {}, pid {})", info.worker, info.host, info.pid);
}

struct MemberList::Shared {
  explicit Shared(std::vector<MemberInfo> members) : list(std::move(members)) {}

  const std::vector<MemberInfo> list;
  mutable std::once_flag once;
  mutable net::Bytes encoded;  // once

  mutable std::mutex mutex;
  mutable std::weak_ptr<const Shared> before;         // guarded by mutex, as below
  mutable std::shared_ptr<const net::Bytes> changes;  // since `before`; none: all takes fewer bytes
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

std::shared_ptr<const net::Bytes> MemberList::encoded_after(const MemberList& before) const {
  auto all = encoded();
  if (!shared_ || !before.shared_) return all;
  const std::lock_guard lock(shared_->mutex);
  if (shared_->before.lock() != before.shared_) {
    auto changes = net::encode_message(kMembersVersion, kChangesKind,
                                       to_changes(before.list(), shared_->list));
    shared_->changes = changes.size() < all->size()
                           ? std::make_shared<const net::Bytes>(std::move(changes))
                           : nullptr;
    shared_->before = before.shared_;
  }
  return shared_->changes ? shared_->changes : all;
}

Result<MemberList> decode_member_list(std::span<const std::byte> bytes, const MemberList& before) {
  MembersJson body;
  MUSTER_ASSIGN(const auto kind, net::decode_message(kMembersVersion, bytes, body));
  try {
    if (kind == kMembersKind) return MemberList(from_columns(body));
    if (kind == kChangesKind) return MemberList(from_changes(body, before.list()));
  } catch (const std::exception& error) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("[cluster/members] a bad list of members: {}", error.what()));
  }
  return fail(ErrorCode::kUnsupported,
              fmt::format("[cluster/members] \"{}\" is no list of members; run the same muster "
                          "everywhere",
                          kind));
}

Result<MemberList> MemberLists::read(std::span<const std::byte> bytes, const MemberList& before) {
  const std::lock_guard lock(mutex_);
  if (std::ranges::equal(bytes, last_) && before == before_) return members_;
  MUSTER_ASSIGN(members_, decode_member_list(bytes, before));
  last_.assign(bytes.begin(), bytes.end());
  before_ = before;
  return members_;
}

}  // namespace muster::cluster
