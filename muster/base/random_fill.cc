// Philox in a form the compiler turns into vector instructions: many counters side by side.

#include <algorithm>

#include "muster/base/random.h"

namespace muster {
namespace {

constexpr std::size_t kCounters = 64;  // counters in flight; a few vector registers of any width
using Lanes = std::uint32_t[kCounters];

struct Words {
  Lanes x0, x1, x2, x3;
};

// Integer arithmetic only, so every clone gives the same bits.
#if defined(__x86_64__) && !defined(MUSTER_SANITIZED)
__attribute__((target_clones("avx512f", "avx2", "default")))
#endif
void philox_lanes(Words& words, std::uint32_t key0, std::uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    for (std::size_t i = 0; i < kCounters; ++i) {
      const std::uint64_t a = std::uint64_t{0xD2511F53u} * words.x0[i];
      const std::uint64_t b = std::uint64_t{0xCD9E8D57u} * words.x2[i];
      const std::uint32_t y0 = static_cast<std::uint32_t>(b >> 32) ^ words.x1[i] ^ key0;
      const std::uint32_t y2 = static_cast<std::uint32_t>(a >> 32) ^ words.x3[i] ^ key1;
      words.x1[i] = static_cast<std::uint32_t>(b);
      words.x3[i] = static_cast<std::uint32_t>(a);
      words.x0[i] = y0;
      words.x2[i] = y2;
    }
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
}

}  // namespace

void RandomStream::fill(std::span<std::uint32_t> elements, std::uint64_t first) const noexcept {
  std::uint64_t counter = first / 4;
  std::size_t skipped = first % 4;  // of the first counter's elements
  for (std::size_t begin = 0; begin < elements.size();) {
    Words words;
    for (std::size_t i = 0; i < kCounters; ++i) {
      const std::uint64_t index = counter + i;
      words.x0[i] = static_cast<std::uint32_t>(index);
      words.x1[i] = static_cast<std::uint32_t>(index >> 32);
      words.x2[i] = static_cast<std::uint32_t>(salt_);
      words.x3[i] = static_cast<std::uint32_t>(salt_ >> 32);
    }
    philox_lanes(words, static_cast<std::uint32_t>(key_), static_cast<std::uint32_t>(key_ >> 32));
    const std::size_t count = std::min(4 * kCounters - skipped, elements.size() - begin);
    const Lanes* of[] = {&words.x0, &words.x1, &words.x2, &words.x3};
    for (std::size_t i = 0; i < count; ++i)
      elements[begin + i] = (*of[(skipped + i) % 4])[(skipped + i) / 4];
    begin += count;
    counter += kCounters;
    skipped = 0;
  }
}

}  // namespace muster
