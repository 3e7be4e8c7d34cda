#include "muster/cluster/launchers/agents/agents.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <thread>

#include "muster/base/pause.h"
#include "muster/net/loop.h"
#include "muster/testing/soon.h"

namespace muster::cluster {
namespace {

using ::testing::HasSubstr;

using muster::testing::soon;

class AgentsTest : public ::testing::Test {
 protected:
  void open(std::int32_t count) {
    agents_ = *create_agents(credentials_, {"127.0.0.1", 0}, {"head", 29500}, count, first_,
                             create_null_logger());
  }
  AgentSpec spec(std::int32_t number, std::vector<std::string> command) const {
    return {.self = {.number = number,
                     .host = "there",
                     .boot_id = "b",
                     .pid = 7,
                     .cores = {0},
                     .version = first_.version},
            .launcher = agents_->address(),
            .command = std::move(command)};
  }
  // An agent whose workers are this script.
  void come(std::int32_t number, const std::string& script) {
    come(spec(number, {"sh", "-c", script}));
  }
  void come(const AgentSpec& told) {
    threads_.emplace_back([this, told, &end = ends_[told.self.number]] {
      end = attend(told, credentials_, soon(), system_processes(), create_null_logger());
    });
  }
  void expect_told_on_both_sides(const std::string& what) {
    const auto all = agents_->wait_for_all(soon());
    join();
    ASSERT_FALSE(all);
    for (const Error& why : {all.error(), ends_[1]->error()}) {
      EXPECT_EQ(why.code, ErrorCode::kInvalid);
      EXPECT_THAT(why.message, HasSubstr(what));
    }
  }
  void wait_for(std::int32_t number) {
    const Deadline deadline = soon();
    while (!agents_->is_there(number) && !deadline.passed(system_clock()))
      pause(system_clock(), std::chrono::milliseconds(1));
    ASSERT_TRUE(agents_->is_there(number));
  }
  // All have come to their end.
  void join() {
    for (auto& thread : threads_) thread.join();
    threads_.clear();
  }
  std::unique_ptr<Process> start(std::int32_t number, const std::string& input = "") {
    auto process = agents_->start(number, input);
    EXPECT_TRUE(process) << process.error().message;
    return *std::move(process);
  }
  // Until the other end has closed.
  static std::string all_of(int fd) {
    std::string all;
    for (const Deadline deadline = soon(); !deadline.passed(system_clock());) {
      const auto more = net::read_available(fd);
      if (!more) return all;
      all += *more;
      if (more->empty()) pause(system_clock(), std::chrono::milliseconds(1));
    }
    ADD_FAILURE() << "it goes on";
    return all;
  }
  static std::string first_of(int fd) {
    std::string text;
    for (const Deadline deadline = soon(); text.empty() && !deadline.passed(system_clock());) {
      text = net::read_available(fd).value_or("");
      pause(system_clock(), std::chrono::milliseconds(1));
    }
    return text;
  }
  static ProcessEnd end_of(Process& process) {
    for (const Deadline deadline = soon(); !deadline.passed(system_clock());) {
      if (const auto end = process.poll()) return *end;
      pause(system_clock(), std::chrono::milliseconds(1));
    }
    ADD_FAILURE() << "it does not end";
    return {};
  }
  ~AgentsTest() override {
    agents_.reset();
    join();
  }

  const net::Credentials credentials_ = *net::create_credentials(system_clock().wall());
  const Attend first_{.host = "here",
                      .version = "muster 0.1.0 (commit 1c00aa2)",
                      .job = {"/a/job.yaml", {{"name", "a"}, {"training.epochs", "5"}}, {}}};
  std::unique_ptr<Agents> agents_;
  std::map<std::int32_t, std::optional<Result<ExitCode>>> ends_;
  std::vector<std::thread> threads_;
};

TEST_F(AgentsTest, WhatAWorkerWritesComesHereAndThenItsEnd) {
  open(1);
  come(1, "read word; echo got $word; echo oops >&2; exit 7");
  const auto all = agents_->wait_for_all(soon());
  ASSERT_TRUE(all) << all.error().message;
  EXPECT_EQ(all->front().host, "there");
  const auto process = start(1, "it\n");
  EXPECT_EQ(all_of(process->output_fd()), "got it\n");
  EXPECT_EQ(all_of(process->error_fd()), "oops\n");
  EXPECT_EQ(end_of(*process).exit_status, 7);
  EXPECT_EQ(end_of(*start(1, "again\n")).exit_status, 7) << "an agent starts as many as it is told";
}

TEST_F(AgentsTest, NothingIsLostWhereTheReaderIsBehind) {
  open(1);
  come(1, "head -c 3000000 /dev/zero | tr '\\0' x");
  ASSERT_TRUE(agents_->wait_for_all(soon()));
  const auto process = start(1);
  pause(system_clock(), std::chrono::milliseconds(200));
  EXPECT_FALSE(process->poll()) << "its end comes after what it wrote";
  EXPECT_EQ(all_of(process->output_fd()).size(), 3'000'000U);
  EXPECT_EQ(end_of(*process).exit_status, 0);
}

TEST_F(AgentsTest, AnySignalKillsAndSoDoesItsProcessHere) {
  open(1);
  come(1, "echo $$; exec sleep 100");
  ASSERT_TRUE(agents_->wait_for_all(soon()));
  const auto process = start(1);
  EXPECT_TRUE(process->signal(SIGTERM));
  EXPECT_EQ(end_of(*process).signal, SIGKILL);
  std::string pid;
  {
    const auto other = start(1);
    pid = first_of(other->output_fd());
  }
  const Deadline deadline = soon();
  while (send_signal(std::stoi(pid), 0) && !deadline.passed(system_clock()))
    pause(system_clock(), std::chrono::milliseconds(1));
  EXPECT_FALSE(deadline.passed(system_clock())) << "nobody here wants it any more";
}

TEST_F(AgentsTest, WhoIsNotThereIsNamed) {
  open(3);
  come(2, "true");
  wait_for(2);
  const auto all =
      agents_->wait_for_all(Deadline::after(system_clock(), std::chrono::milliseconds(100)));
  ASSERT_FALSE(all);
  EXPECT_EQ(all.error().code, ErrorCode::kTimeout);
  EXPECT_THAT(all.error().message, HasSubstr("rank 1, 3 of 4 did not come"));
  EXPECT_FALSE(agents_->is_there(1));
  EXPECT_EQ(end_of(*start(1)).exit_status, 255) << "lost before it was begun";
}

TEST_F(AgentsTest, AnotherVersionIsToldOnBothSides) {
  open(1);
  AgentSpec other = spec(1, {"true"});
  other.self.version = "muster 0.1.0 (commit 6205a21)";
  come(other);
  expect_told_on_both_sides(
      "muster 0.1.0 (commit 6205a21) is of rank 1 on there (pid 7), "
      "muster 0.1.0 (commit 1c00aa2) of rank 0 on here");
}

TEST_F(AgentsTest, AnotherJobIsToldOnBothSides) {
  open(1);
  AgentSpec other = spec(1, {"true"});
  other.self.job = {"/b/job.yaml", {{"name", "a"}, {"training.epochs", "3"}}, {}};
  come(other);
  expect_told_on_both_sides(
      "rank 1 on there (pid 7) has `training.epochs: 3` by /b/job.yaml, rank 0 on here (pid 0) has "
      "`training.epochs: 5` by /a/job.yaml");
}

TEST_F(AgentsTest, AJobThatCannotBeReadIsToldOnBothSides) {
  open(1);
  AgentSpec other = spec(1, {"true"});
  other.self.job = {"/b/job.yaml", {}, "no such file"};
  come(other);
  expect_told_on_both_sides("rank 1 on there (pid 7) cannot read its own, /b/job.yaml");
}

TEST_F(AgentsTest, ASecondOneOfTheSameNumberIsRefused) {
  open(1);
  come(1, "exit 3");
  ASSERT_TRUE(agents_->wait_for_all(soon()));
  const auto twin =
      attend(spec(1, {"true"}), credentials_, soon(), system_processes(), create_null_logger());
  ASSERT_FALSE(twin);
  EXPECT_THAT(twin.error().message, HasSubstr("two processes say that they are the same rank"));
  EXPECT_EQ(end_of(*start(1)).exit_status, 3) << "and the first goes on";
}

// As one of another job that was given the same port: whose job it has is not this one's affair.
TEST_F(AgentsTest, ATwinOfAnotherVersionIsRefusedAndHarmsNobody) {
  open(2);
  come(1, "true");
  wait_for(1);
  AgentSpec other = spec(1, {"true"});
  other.self.version = "muster 0.1.0 (commit 6205a21)";
  const auto twin = attend(other, credentials_, soon(), system_processes(), create_null_logger());
  ASSERT_FALSE(twin);
  EXPECT_THAT(twin.error().message, HasSubstr("port 29500 of head already serves another job"));
  come(2, "true");
  EXPECT_TRUE(agents_->wait_for_all(soon()));
}

TEST_F(AgentsTest, AllLearnHowTheJobEndedAndWhoComesLaterToo) {
  open(2);
  come(1, "exec sleep 100");
  wait_for(1);
  std::thread late([this] {
    pause(system_clock(), std::chrono::milliseconds(100));
    come(2, "true");
  });
  agents_->conclude(ExitCode::kTerminated, soon());
  late.join();
  join();
  for (const auto& [number, end] : ends_)
    EXPECT_EQ(*end, ExitCode::kTerminated) << number << ": " << (*end ? "" : end->error().message);
}

TEST_F(AgentsTest, WithoutItsLauncherAnAgentEndsItsWorkers) {
  open(1);
  come(1, "echo here; exec sleep 100");
  ASSERT_TRUE(agents_->wait_for_all(soon()));
  auto process = start(1);
  EXPECT_EQ(first_of(process->output_fd()), "here\n");
  process.reset();
  agents_.reset();
  join();
  EXPECT_EQ(ends_[1]->error().code, ErrorCode::kPeerLost);
}

TEST_F(AgentsTest, ACommandThatIsNotThereIsSaid) {
  open(1);
  come(spec(1, {"/none"}));
  ASSERT_TRUE(agents_->wait_for_all(soon()));
  const auto process = start(1);
  EXPECT_THAT(all_of(process->error_fd()), HasSubstr("/none"));
  EXPECT_EQ(end_of(*process).exit_status, 127);
}

}  // namespace
}  // namespace muster::cluster
