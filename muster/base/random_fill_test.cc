#include <gtest/gtest.h>

#include <vector>

#include "muster/base/random.h"

namespace muster {
namespace {

TEST(RandomFill, IsTheElementsOneByOne) {
  const RandomStream stream(7, "fill", 3, 0x123456789aULL);
  for (const std::size_t size : {0u, 1u, 3u, 4u, 255u, 256u, 257u, 5001u}) {
    std::vector<std::uint32_t> elements(size + 1, 0xdeadbeef);
    stream.fill({elements.data(), size});
    for (std::size_t i = 0; i < size; ++i) ASSERT_EQ(elements[i], stream.bits(i)) << i;
    EXPECT_EQ(elements[size], 0xdeadbeef) << "wrote past the end";
  }
}

TEST(RandomFill, BeginsAnywhere) {
  const RandomStream stream(7, "fill");
  for (const std::uint64_t first : {1u, 3u, 254u, 255u, 256u, 1001u}) {
    std::vector<std::uint32_t> elements(601, 0xdeadbeef);
    stream.fill({elements.data(), 600}, first);
    for (std::size_t i = 0; i < 600; ++i) ASSERT_EQ(elements[i], stream.bits(first + i)) << i;
    EXPECT_EQ(elements[600], 0xdeadbeef) << "wrote past the end";
  }
}

}  // namespace
}  // namespace muster
