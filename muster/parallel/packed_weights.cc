#include "muster/parallel/packed_weights.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "muster/base/check.h"
#include "muster/comm/narrow.h"

namespace muster::parallel {
namespace {

constexpr std::int64_t kWord = 2;  // bytes
constexpr std::int64_t kWordsOfFloat = sizeof(float) / kWord;

std::int64_t words_of(std::int64_t floats, bool narrow) {
  return narrow ? floats : floats * kWordsOfFloat;
}

// A piece is read before it is written: what is written reaches into what was read.
void widen_in_place(DType dtype, const std::byte* words, std::span<float> floats) {
  constexpr std::size_t kPiece = 1024;
  std::array<std::uint16_t, kPiece> piece;
  while (!floats.empty()) {
    const std::size_t count = std::min(floats.size(), kPiece);
    std::memcpy(piece.data(), words, count * kWord);
    comm::widen(dtype, std::as_bytes(std::span(piece)).data(), floats.first(count));
    words += count * kWord;
    floats = floats.subspan(count);
  }
}

}  // namespace

template <class Visit>
void PackedWeights::for_runs(std::int64_t begin, std::int64_t end, const Visit& visit) const {
  for (const Run& run : runs_) {
    if (begin == end) return;
    const std::int64_t last = std::min(run.end, end);
    if (last <= begin) continue;
    visit(begin, last, run.narrow);
    begin = last;
  }
}

std::int64_t PackedWeights::words_before(std::int64_t end) const {
  std::int64_t words = 0;
  for_runs(0, end, [&](std::int64_t from, std::int64_t to, bool narrow) {
    words += words_of(to - from, narrow);
  });
  return words;
}

PackedWeights::PackedWeights(DType dtype, const comm::Shards& shards, std::vector<Run> runs)
    : dtype_(dtype), runs_(std::move(runs)), begin_(shards.begin), shards_([&] {
        comm::Shards in_words;
        for (const std::int64_t begin : begin_) in_words.begin.push_back(words_before(begin));
        return std::make_shared<const comm::Shards>(std::move(in_words));
      }()) {
  MUSTER_CHECK(size_of(dtype) == kWord, "weights are packed to 16 bits");
  MUSTER_CHECK((runs_.empty() ? 0 : runs_.back().end) == shards.count(),
               "the runs are those of the bucket");
}

TensorView PackedWeights::words_in(std::span<float> bucket) const {
  const std::int64_t words = shards_->count();
  return {dtype_,
          {words},
          std::as_writable_bytes(bucket).last(static_cast<std::size_t>(words * kWord))};
}

TensorView PackedWeights::pack(std::span<const float> own, Rank rank,
                               std::span<float> bucket) const {
  const auto first = begin_[static_cast<std::size_t>(to_int(rank))];
  const auto at = static_cast<std::size_t>(shards_->begin_of(rank) * kWord);
  const auto size = static_cast<std::size_t>(shards_->count_of(rank) * kWord);
  const std::span<std::byte> place = words_in(bucket).bytes.subspan(at, size);
  std::byte* out = place.data();
  for_runs(first, first + std::ssize(own), [&](std::int64_t begin, std::int64_t end, bool narrow) {
    const auto part =
        own.subspan(static_cast<std::size_t>(begin - first), static_cast<std::size_t>(end - begin));
    if (narrow)
      comm::narrow(dtype_, part, out);
    else
      std::memcpy(out, part.data(), part.size_bytes());
    out += words_of(end - begin, narrow) * kWord;
  });
  return {dtype_, {shards_->count_of(rank)}, place};
}

// From the first on: words that are not read yet are never before floats that are not written yet.
void PackedWeights::unpack(std::span<float> bucket) const {
  const std::byte* words = words_in(bucket).bytes.data();
  for_runs(0, std::ssize(bucket), [&](std::int64_t begin, std::int64_t end, bool narrow) {
    const auto floats =
        bucket.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
    if (narrow)
      widen_in_place(dtype_, words, floats);
    else
      std::memmove(floats.data(), words, floats.size_bytes());
    words += words_of(end - begin, narrow) * kWord;
  });
}

}  // namespace muster::parallel
