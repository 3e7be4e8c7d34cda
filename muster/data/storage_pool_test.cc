#include "muster/data/storage_pool.h"

#include <gtest/gtest.h>

#include <cstring>
#include <optional>

namespace muster::data {
namespace {

TEST(StoragePool, RecyclesBlocks) {
  StoragePool pool(1000);
  for (int i = 0; i < 100; ++i) {
    const auto one = pool.take();
    const auto two = pool.take();
    EXPECT_NE(one, two);
  }
  EXPECT_EQ(pool.allocated(), 2u);
}

TEST(StoragePool, KeepsABlockWhileAnyCopyLives) {
  StoragePool pool(64);
  auto block = pool.take();
  const auto copy = block;
  block.reset();
  EXPECT_NE(pool.take(), copy);
}

TEST(StoragePool, AlignsBlocks) {
  StoragePool pool(1);
  for (int i = 0; i < 8; ++i) {
    const auto block = pool.take();
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block.get()) % kTensorAlignment, 0u);
  }
}

TEST(StoragePool, BlocksOutliveIt) {
  std::optional<StoragePool> pool(4096);
  const auto block = pool->take();
  pool.reset();
  std::memset(block.get(), 1, 4096);
}

}  // namespace
}  // namespace muster::data
