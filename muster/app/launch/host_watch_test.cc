#include "muster/app/launch/host_watch.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <mutex>
#include <thread>

#include "muster/testing/temp_folder.h"

namespace muster::app {
namespace {

using std::chrono::milliseconds;

class HostWatchTest : public ::testing::Test {
 protected:
  cluster::HostWatch create(const std::string& file, const std::string& command) {
    const job::PreemptionSpec asked{
        .file = file, .command = command, .url = "", .every = milliseconds(5)};
    return create_host_watch(asked, system_processes(), system_files(), create_null_logger());
  }

  testing::TempFolder folder_;
};

TEST_F(HostWatchTest, IsNoneWhereThereIsNobodyToAsk) { EXPECT_FALSE(create("", "")); }

TEST_F(HostWatchTest, TellsOfANoticeAndWhoGaveIt) {
  const Path file = folder_ / "wanted-back";
  const auto watch = create(file.string(), "");
  ASSERT_TRUE(watch);
  std::promise<std::string> told;
  std::once_flag once;
  const auto asking =
      watch([&](const std::string& from) { std::call_once(once, [&] { told.set_value(from); }); });
  auto notice = told.get_future();
  EXPECT_EQ(notice.wait_for(milliseconds(30)), std::future_status::timeout);
  ASSERT_TRUE(write_atomically(system_files(), file, ""));
  ASSERT_EQ(notice.wait_for(std::chrono::seconds(30)), std::future_status::ready);
  EXPECT_EQ(notice.get(), "file " + file.string());
}

TEST_F(HostWatchTest, KeepsQuietWhereThereIsNothing) {
  const Path asked = folder_ / "asked";
  const auto watch = create("", "echo . >>" + asked.string() + "; echo NONE");
  ASSERT_TRUE(watch);
  std::atomic<int> notices = 0;
  {
    const auto asking = watch([&](const std::string&) { ++notices; });
    for (auto text = system_files().read(asked); !text || text->size() < 4;  // asked twice
         text = system_files().read(asked))
      std::this_thread::sleep_for(milliseconds(1));
  }
  EXPECT_EQ(notices, 0);
}

}  // namespace
}  // namespace muster::app
