#pragma once
// A list of members in columns, as it travels: a name is in it once, and numbers that are the same,
// or go on evenly, from one member to the next take one entry together. Pure. The reader throws
// where JSON is no such list, as nlohmann does.

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "muster/cluster/member_list.h"

namespace muster::cluster {

nlohmann::json to_columns(const std::vector<MemberInfo>& members);
std::vector<MemberInfo> from_columns(const nlohmann::json& columns);

}  // namespace muster::cluster
