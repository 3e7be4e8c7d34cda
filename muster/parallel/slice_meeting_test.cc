#include "muster/parallel/slice_meeting.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <functional>
#include <latch>
#include <stdexcept>
#include <thread>

#include "muster/base/check.h"
#include "muster/comm/backend/loopback/loopback.h"
#include "muster/parallel/testing/toy_batch.h"

namespace muster::parallel {
namespace {

using ::testing::HasSubstr;

// Of numbers that each order of summation rounds otherwise.
at::Tensor brought_by(std::int32_t slice, int meeting) {
  return at::sin(at::arange(64, at::kDouble) * 1.37 + slice * 2.3 + meeting) *
         std::pow(10.0, slice % 3);
}

at::Tensor tree_sum(comm::LeafRange slices, int meeting) {
  if (slices.size() == 1) return brought_by(slices.begin, meeting);
  const std::int32_t middle = comm::split_point(slices);
  return tree_sum({slices.begin, middle}, meeting) + tree_sum({middle, slices.end}, meeting);
}

// `body(slice, seat)` of each, on a thread of its own; what it throws ends the meetings.
template <class Body>
void run_slices(SliceMeeting& meeting, const std::vector<std::int32_t>& slices, const Body& body) {
  std::vector<std::jthread> threads;
  for (const std::int32_t slice : slices)
    threads.emplace_back([&, slice] {
      try {
        SliceMeeting::Seat seat(meeting, slice);
        body(slice, seat);
        seat.over();
      } catch (const std::exception& error) {
        meeting.give_up(fail(ErrorCode::kInternal, error.what()));
      }
    });
}

// Each rank on a thread.
template <class Body>
void on_each(const std::vector<std::shared_ptr<comm::Communicator>>& ranks, const Body& body) {
  std::vector<std::jthread> threads;
  for (const auto& rank : ranks) threads.emplace_back([&] { body(*rank); });
}

std::unique_ptr<SliceMeeting> meeting_of(comm::Communicator& rank, const comm::LeafOwners& owners,
                                         const MeetingOptions& options = {}) {
  auto meeting = SliceMeeting::create(rank, owners, options, system_clock());
  EXPECT_TRUE(meeting) << (meeting ? "" : meeting.error().message);
  return meeting ? *std::move(meeting) : nullptr;
}

void expect_tree_sums(const comm::LeafOwners& owners, std::int32_t size, std::int32_t lanes) {
  on_each(comm::create_loopback(size), [&](comm::Communicator& rank) {
    const auto mine = slices_of(owners, rank.group().rank);
    const auto meeting = meeting_of(rank, owners, {.lanes = lanes});
    ASSERT_EQ(meeting == nullptr, mine.empty());
    if (!meeting) return;
    for (int step = 0; step < 2; ++step) {
      meeting->begin(static_cast<std::int32_t>(mine.size()), {});
      std::atomic<std::int32_t> running{0};
      run_slices(*meeting, mine, [&](std::int32_t slice, const SliceMeeting::Seat& seat) {
        for (int m = 0; m < 3; ++m) {
          EXPECT_LE(++running, lanes);
          const at::Tensor addend = brought_by(slice, m);
          --running;
          const at::Tensor sum = seat.sum(addend, "numbers");
          EXPECT_TRUE(sum.equal(tree_sum({0, kSlices}, m))) << slice << ", " << m;
        }
      });
      EXPECT_EQ(meeting->cause_of(fail(ErrorCode::kStale, "none")).message, "none");
    }
  });
}

TEST(SliceMeeting, SumsAlongTheTreeAtAnyNumberOfRanksAndLanes) {
  at::Tensor in_order = brought_by(0, 0);
  for (std::int32_t slice = 1; slice < kSlices; ++slice) in_order = in_order + brought_by(slice, 0);
  EXPECT_FALSE(in_order.equal(tree_sum({0, kSlices}, 0))) << "any order passes";
  for (const std::int32_t size : {1, 2, 3, 5, 8})
    for (const std::int32_t lanes : {1, 2, 8})
      expect_tree_sums(comm::even_owners(kSlices, size), size, lanes);
}

TEST(SliceMeeting, IsOfThoseThatComputeSlices) {
  expect_tree_sums(comm::owners_by_count({0, 5, 0, 3}), 4, 2);
  expect_tree_sums(comm::owners_by_count({0, 8}), 2, 1);
  expect_tree_sums(comm::owners_in_turns({3, 3, 2}), 3, 1);
}

// Units of any number at each rank, by which the sum is cut.
TEST(SliceMeeting, SumsTheUnitsOfFastMode) {
  const comm::LeafOwners owners = comm::owners_by_count({3, 0, 5});
  on_each(comm::create_loopback(3), [&](comm::Communicator& rank) {
    const auto meeting = meeting_of(rank, owners, {.ordered = false, .lanes = 2});
    ASSERT_EQ(meeting == nullptr, rank.group().rank == Rank{1});
    if (!meeting) return;
    const std::int32_t units = rank.group().rank == Rank{0} ? 1 : 2;
    meeting->begin(units, {});
    std::vector<std::int32_t> mine;
    for (std::int32_t unit = 0; unit < units; ++unit) mine.push_back(unit);
    run_slices(*meeting, mine, [&](std::int32_t unit, const SliceMeeting::Seat& seat) {
      EXPECT_EQ(seat.sum(at::full({1}, 10.0 + unit, at::kDouble), "n").item<double>(), 31);
    });
  });
}

// What came of the slices of a rank alone.
Error cause_with(const std::function<void(std::int32_t, const SliceMeeting::Seat&)>& body) {
  const comm::LeafOwners owners(kSlices, Rank{0});
  const auto alone = comm::create_loopback(1).front();
  const auto meeting = meeting_of(*alone, owners, {.lanes = 2});
  meeting->begin(kSlices, {});
  run_slices(*meeting, slices_of(owners, Rank{0}), body);
  const Error cause = meeting->cause_of(fail(ErrorCode::kStale, "all came"));
  meeting->begin(kSlices, {});  // nothing of it is left
  run_slices(*meeting, slices_of(owners, Rank{0}), [](std::int32_t slice, const auto& seat) {
    EXPECT_TRUE(seat.sum(brought_by(slice, 0), "numbers").equal(tree_sum({0, kSlices}, 0)));
  });
  return cause;
}

TEST(SliceMeeting, EndsForAllWhereASliceDoesNotCome) {
  std::atomic<int> met_again{0};
  const Error cause = cause_with([&](std::int32_t slice, const SliceMeeting::Seat& seat) {
    seat.sum(brought_by(slice, 0), "numbers");
    if (slice == 3) throw std::runtime_error("no memory");
    seat.sum(brought_by(slice, 1), "numbers");
    ++met_again;
  });
  EXPECT_EQ(cause.message, "no memory");
  EXPECT_EQ(met_again, 0);
}

TEST(SliceMeeting, RefusesSlicesThatMeetLessOftenThanOthers) {
  const Error cause = cause_with([&](std::int32_t slice, const SliceMeeting::Seat& seat) {
    seat.sum(brought_by(slice, 0), "numbers");
    if (slice != 5) seat.sum(brought_by(slice, 1), "numbers");
  });
  EXPECT_THAT(cause.message, HasSubstr("fewer batch norms than others"));
}

TEST(SliceMeeting, NamesTheRankThatDoesNotCome) {
  const comm::LeafOwners owners = comm::owners_by_count({0, 4, 4});
  std::atomic<int> left{0};
  on_each(comm::create_loopback(3), [&](comm::Communicator& rank) {
    const auto meeting = meeting_of(rank, owners);
    if (rank.group().rank != Rank{1}) {
      while (left == 0) std::this_thread::yield();  // its communicator is there meanwhile
      return;
    }
    meeting->begin(4, std::chrono::milliseconds(200));
    run_slices(*meeting, slices_of(owners, Rank{1}), [&](std::int32_t slice, const auto& seat) {
      seat.sum(brought_by(slice, 0), "moments of a batch norm");
    });
    const Error cause = meeting->cause_of(fail(ErrorCode::kInternal, "none"));
    EXPECT_EQ(cause.code, ErrorCode::kTimeout) << cause.message;
    EXPECT_EQ(cause.peer, Rank{2}) << cause.message;
    EXPECT_THAT(cause.message, HasSubstr("moments of a batch norm"));
    EXPECT_GE(meeting->waited(), std::chrono::milliseconds(200));
    ++left;
  });
}

TEST(SliceMeeting, EndsWithItsGeneration) {
  const comm::LeafOwners owners = comm::even_owners(kSlices, 2);
  const auto ranks = comm::create_loopback(2);
  std::latch both_are_there(2);
  on_each(ranks, [&](comm::Communicator& rank) {
    const auto meeting = meeting_of(rank, owners);
    both_are_there.arrive_and_wait();
    if (rank.group().rank == Rank{1})
      return ranks.front()->abort(fail(ErrorCode::kPeerLost, "rank 1 died", Rank{1}));
    meeting->begin(4, {});
    run_slices(*meeting, slices_of(owners, Rank{0}), [&](std::int32_t slice, const auto& seat) {
      seat.sum(brought_by(slice, 0), "numbers");
    });
    EXPECT_EQ(meeting->cause_of(fail(ErrorCode::kInternal, "none")),
              fail(ErrorCode::kPeerLost, "rank 1 died", Rank{1}));
  });
}

}  // namespace
}  // namespace muster::parallel
