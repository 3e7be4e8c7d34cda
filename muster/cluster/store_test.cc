#include "muster/cluster/store.h"

#include <gtest/gtest.h>

#include <thread>

#include "muster/testing/soon.h"

namespace muster::cluster {
namespace {

using muster::testing::soon;

TEST(MemoryStore, AGetWaitsForTheKeyOrTheDeadline) {
  const auto store = create_memory_store();
  std::thread setter([&] { EXPECT_TRUE(store->set("key", to_bytes("value"), soon())); });
  EXPECT_EQ(to_string(store->get("key", soon()).value()), "value");
  setter.join();
  const auto missing =
      store->get("other", Deadline::after(system_clock(), std::chrono::milliseconds(20)));
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::kTimeout);
  EXPECT_NE(missing.error().message.find("other"), std::string::npos);
}

TEST(MemoryStore, OneOfManyWinsAnExchange) {
  const auto store = create_memory_store();
  std::vector<std::thread> threads;
  std::atomic<int> winners{0};
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&, i] {
      const auto mine = to_bytes(std::to_string(i));
      if (store->compare_exchange("key", {}, mine, soon()).value() == mine) ++winners;
      EXPECT_TRUE(store->add("count", i, soon()));
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(winners, 1);
  EXPECT_EQ(store->add("count", 0, soon()).value(), 28);
}

}  // namespace
}  // namespace muster::cluster
