#pragma once
// Mesh: the workers of a job as a grid with named axes, so that ways of training in parallel
// combine: each works along its own axis, among ranks that are alike on all others.
//
// Ranks count through the grid with the tensor axis fastest. The order of the axes is by how much
// their ranks have to tell each other: tensor most, so they are neighbours and share a host;
// pipeline little. Replicas are outermost, so that one that comes or goes moves no other.
// An immutable value; thread-safe.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/ids.h"
#include "muster/base/result.h"

namespace muster::layout {

enum class Axis : std::uint8_t {  // outermost first
  kReplicate,                     // whole copies, each with other samples
  kPipeline,                      // stages: each holds some of the blocks
  kShard,                         // other samples, and each keeps a part of the state (ZeRO)
  kExpert,                        // each holds some of the experts
  kContext,                       // each holds a part of every sequence
  kTensor,                        // each holds a part of every cut tensor
};
inline constexpr std::array kAxes = {Axis::kReplicate, Axis::kPipeline, Axis::kShard,
                                     Axis::kExpert,    Axis::kContext,  Axis::kTensor};

std::string_view to_string(Axis axis) noexcept;  // "replicate"

// A number for each axis.
class PerAxis {
 public:
  constexpr PerAxis() noexcept = default;
  explicit constexpr PerAxis(std::int32_t all) noexcept { values_.fill(all); }
  constexpr std::int32_t& operator[](Axis axis) noexcept {
    return values_[static_cast<std::size_t>(axis)];
  }
  constexpr std::int32_t operator[](Axis axis) const noexcept {
    return values_[static_cast<std::size_t>(axis)];
  }
  friend bool operator==(const PerAxis&, const PerAxis&) = default;

 private:
  std::array<std::int32_t, kAxes.size()> values_{};
};

// What a job asks for: the extent of each axis, 1 where it is not named. One may be kRest: as many
// as the workers fill.
inline constexpr std::int32_t kRest = -1;
struct MeshExtents : PerAxis {
  constexpr MeshExtents() noexcept : PerAxis(1) {}
};

using Coordinates = PerAxis;

class Mesh {
 public:
  // kInvalid where the extents are none or do not make up exactly `workers`.
  static Result<Mesh> create(const MeshExtents& extents, std::int32_t workers);
  Mesh() : Mesh(PerAxis(1)) {}  // of one worker

  std::int32_t size() const noexcept { return size_; }
  std::int32_t extent(Axis axis) const noexcept { return extents_[axis]; }

  // Ranks in [0, size()), coordinates in [0, extent) of their axis; others are a LogicFault.
  Coordinates coordinates(Rank rank) const;
  Rank rank(const Coordinates& coordinates) const;

  // The ranks that differ from `rank` along these axes at most, itself among them, ascending.
  std::vector<Rank> group(Rank rank, const std::vector<Axis>& along) const;
  // What Communicator::split is given to get that group: the same for all of its ranks, and the
  // place of `rank` in it.
  struct Part {
    std::int32_t color;
    std::int32_t key;
    friend bool operator==(const Part&, const Part&) = default;
  };
  Part part(Rank rank, const std::vector<Axis>& along) const;

  std::string describe() const;  // "replicate 2 x pipeline 4", "1 worker"

  friend bool operator==(const Mesh&, const Mesh&) = default;

 private:
  explicit Mesh(const PerAxis& extents);

  PerAxis extents_;
  PerAxis strides_;  // ranks from one coordinate to the next
  std::int32_t size_ = 1;
};

}  // namespace muster::layout
