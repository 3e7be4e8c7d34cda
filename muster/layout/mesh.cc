#include "muster/layout/mesh.h"

#include <fmt/format.h>

#include <algorithm>
#include <ranges>

#include "muster/base/check.h"

namespace muster::layout {
namespace {

std::string text(const PerAxis& extents) {
  std::string names;
  for (const Axis axis : kAxes) {
    if (extents[axis] == 1) continue;
    names += fmt::format("{}{}: {}", names.empty() ? "" : ", ", to_string(axis), extents[axis]);
  }
  return "{" + names + "}";
}

Error invalid(const PerAxis& extents, const std::string& why) {
  return fail(ErrorCode::kInvalid, fmt::format("[layout/mesh] mesh {}: {}", text(extents), why));
}

std::string workers_text(std::int64_t count) {
  return fmt::format("{} worker{}", count, count == 1 ? "" : "s");
}

// Multiples of `unit` next to `workers`.
std::string nearest_sizes(std::int64_t unit, std::int32_t workers) {
  const std::int64_t below = workers / unit * unit;
  if (below == 0) return workers_text(unit);
  return fmt::format("{} or {}", below, workers_text(below + unit));
}

Status check_each(const MeshExtents& extents) {
  std::int32_t rests = 0;
  for (const Axis axis : kAxes) {
    rests += extents[axis] == kRest;
    if (extents[axis] >= 1 || extents[axis] == kRest) continue;
    return invalid(extents, fmt::format("{} is {}; expected 1 or more, or -1 for the rest",
                                        to_string(axis), extents[axis]));
  }
  if (rests > 1) return invalid(extents, "more than one axis is -1; only one can be the rest");
  return ok();
}

// Of the axes with a number; stops growing above what any job can have.
std::int64_t product(const MeshExtents& extents) {
  std::int64_t all = 1;
  for (const Axis axis : kAxes)
    if (extents[axis] != kRest && all <= INT32_MAX) all *= extents[axis];
  return all;
}

}  // namespace

std::string_view to_string(Axis axis) noexcept {
  switch (axis) {
    case Axis::kReplicate:
      return "replicate";
    case Axis::kPipeline:
      return "pipeline";
    case Axis::kShard:
      return "shard";
    case Axis::kExpert:
      return "expert";
    case Axis::kContext:
      return "context";
    case Axis::kTensor:
      return "tensor";
  }
  return "";
}

Result<Mesh> Mesh::create(const MeshExtents& extents, std::int32_t workers) {
  MUSTER_CHECK(workers >= 1, "a job has a worker");
  MUSTER_TRY(check_each(extents));
  const std::int64_t named = product(extents);
  PerAxis whole = extents;
  const auto* rest = std::ranges::find_if(kAxes, [&](Axis axis) { return whole[axis] == kRest; });
  if (rest != kAxes.end()) {
    if (workers % named == 0) {
      whole[*rest] = static_cast<std::int32_t>(workers / named);
      return Mesh(whole);
    }
    return invalid(extents,
                   fmt::format("needs a multiple of {}, and there are {}; take {}",
                               workers_text(named), workers, nearest_sizes(named, workers)));
  }
  if (named == workers) return Mesh(whole);
  const bool fills = extents[Axis::kReplicate] == 1 && workers % named == 0;
  return invalid(extents, fmt::format("is for {}, and there {} {}; {}", workers_text(named),
                                      workers == 1 ? "is" : "are", workers,
                                      fills ? "write `replicate: -1` to fill them with replicas"
                                            : "write -1 for the axis that is to take the rest"));
}

Mesh::Mesh(const PerAxis& extents) : extents_(extents) {
  for (const Axis axis : kAxes | std::views::reverse) {
    strides_[axis] = size_;
    size_ *= extents_[axis];
  }
}

Coordinates Mesh::coordinates(Rank rank) const {
  MUSTER_CHECK(to_int(rank) >= 0 && to_int(rank) < size_, "a rank of the mesh");
  Coordinates place;
  for (const Axis axis : kAxes) place[axis] = to_int(rank) / strides_[axis] % extents_[axis];
  return place;
}

Rank Mesh::rank(const Coordinates& coordinates) const {
  std::int32_t rank = 0;
  for (const Axis axis : kAxes) {
    MUSTER_CHECK(coordinates[axis] >= 0 && coordinates[axis] < extents_[axis],
                 "a coordinate lies within its axis");
    rank += coordinates[axis] * strides_[axis];
  }
  return Rank{rank};
}

std::vector<Rank> Mesh::group(Rank rank, const std::vector<Axis>& along) const {
  const Coordinates mine = coordinates(rank);
  std::vector<Rank> members;
  for (std::int32_t other = 0; other < size_; ++other) {
    const Coordinates theirs = coordinates(Rank{other});
    const bool alike = std::ranges::all_of(kAxes, [&](Axis axis) {
      return mine[axis] == theirs[axis] || std::ranges::find(along, axis) != along.end();
    });
    if (alike) members.push_back(Rank{other});
  }
  return members;
}

Mesh::Part Mesh::part(Rank rank, const std::vector<Axis>& along) const {
  const std::vector<Rank> members = group(rank, along);
  const auto place = std::ranges::find(members, rank) - members.begin();
  return {to_int(members.front()), static_cast<std::int32_t>(place)};
}

std::string Mesh::describe() const {
  std::string words;
  for (const Axis axis : kAxes) {
    if (extents_[axis] == 1) continue;
    words += fmt::format("{}{} {}", words.empty() ? "" : " x ", to_string(axis), extents_[axis]);
  }
  return words.empty() ? "1 worker" : words;
}

}  // namespace muster::layout
