#include "muster/cluster/whereabouts.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace muster::cluster {
namespace {

std::unique_ptr<Whereabouts> whereabouts() {
  auto made = Whereabouts::create();
  EXPECT_TRUE(made) << made.error().message;
  return std::move(*made);
}

TEST(Whereabouts, HaveNothingToTellAtFirst) { EXPECT_EQ(whereabouts()->read(), Progress{}); }

TEST(Whereabouts, AreReadByWhoeverKnowsTheirAddress) {
  const auto launcher = whereabouts();
  {
    const auto worker = Whereabouts::open(launcher->address());
    ASSERT_TRUE(worker) << worker.error().message;
    (*worker)->doing(Step{31}, "computing");
    (*worker)->waiting_in("all_reduce (gradients/0)");
  }
  EXPECT_EQ(launcher->read(), (Progress{Step{31}, "computing", "all_reduce (gradients/0)"}));
  EXPECT_EQ(describe(launcher->read()), "at step 31, computing, in all_reduce (gradients/0)");
}

TEST(Whereabouts, NameWhatLanesComputeAndWhatIsOnItsWay) {
  const auto where = whereabouts();
  where->waiting_in("all_reduce (gradients/0)");
  where->computing(0, "backward of slice 3");
  where->computing(Whereabouts::kLanes - 1, "forward of slice 5");
  where->computing(Whereabouts::kLanes, "beyond");
  EXPECT_EQ(where->read().operation,
            "backward of slice 3, forward of slice 5 beside all_reduce (gradients/0)");
  where->computing(0, "");
  where->computing(Whereabouts::kLanes - 1, "");
  EXPECT_EQ(where->read().operation, "all_reduce (gradients/0)");
  where->waiting_in("");
  EXPECT_EQ(where->read().operation, "");
}

TEST(Whereabouts, TellWhoeverWatches) {
  const auto where = whereabouts();
  std::vector<Progress> seen;
  where->watch([&](const Progress& now) { seen.push_back(now); });
  where->doing(Step{2}, "computing");
  where->computing(1, "forward of slice 5");
  where->waiting_in("barrier");
  where->computing(1, "");
  EXPECT_EQ(seen,
            (std::vector<Progress>{{Step{2}, "computing", ""},
                                   {Step{2}, "computing", "forward of slice 5"},
                                   {Step{2}, "computing", "forward of slice 5 beside barrier"},
                                   {Step{2}, "computing", "barrier"}}));
}

TEST(Whereabouts, StandStillWhileTheyAreWatched) {
  const auto where = whereabouts();
  int moved = 0;
  where->watch([&](const Progress& now) {
    std::this_thread::yield();
    if (where->read() != now) ++moved;
  });
  {
    std::jthread lane([&] {
      for (int i = 0; i < 5'000; ++i) where->computing(0, i % 2 == 0 ? "forward" : "backward");
    });
    for (int i = 0; i < 5'000; ++i) where->waiting_in(i % 2 == 0 ? "barrier" : "");
  }
  EXPECT_EQ(moved, 0);
}

TEST(Whereabouts, CutWhatIsTooLong) {
  const auto where = whereabouts();
  where->waiting_in(std::string(SharedText::kMost + 9, 'x'));
  EXPECT_EQ(where->read().operation, std::string(SharedText::kMost, 'x'));
}

// Never half of one text and half of another.
TEST(Whereabouts, AreWholeWhileTheyChange) {
  const auto where = whereabouts();
  std::atomic<bool> over{false};
  std::jthread writer([&] {
    for (char letter = 'a'; !over; letter = letter == 'z' ? 'a' : static_cast<char>(letter + 1))
      where->waiting_in(std::string(SharedText::kMost - static_cast<std::size_t>(letter), letter));
  });
  for (int i = 0; i < 20'000; ++i) {
    const std::string text = where->read().operation;
    if (text.empty()) continue;
    EXPECT_EQ(text, std::string(SharedText::kMost - static_cast<std::size_t>(text[0]), text[0]));
  }
  over = true;
}

}  // namespace
}  // namespace muster::cluster
