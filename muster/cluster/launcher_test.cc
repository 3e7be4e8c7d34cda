#include "muster/cluster/launcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "muster/cluster/environment.h"

namespace muster::cluster {
namespace {

using Shares = std::vector<std::vector<int>>;

TEST(ShareCores, DealsThemOutInOrder) {
  EXPECT_EQ(share_cores({0, 1, 4, 5, 6}, 2), (Shares{{0, 1, 4}, {5, 6}}));
  EXPECT_EQ(share_cores({3}, 1), (Shares{{3}}));
  EXPECT_EQ(share_cores({0, 1}, 5), (Shares{{0}, {1}, {0}, {1}, {0}}));
}

TEST(ShareCores, UsesEveryCoreOnceWhereThereAreEnough) {
  std::vector<int> cores;
  for (int core = 0; core < 13; ++core) cores.push_back(core);
  for (int workers = 1; workers <= 13; ++workers) {
    std::vector<int> dealt;
    std::size_t least = 99, most = 0;
    for (const auto& share : share_cores(cores, workers)) {
      dealt.insert(dealt.end(), share.begin(), share.end());
      least = std::min(least, share.size());
      most = std::max(most, share.size());
    }
    EXPECT_EQ(dealt, cores);
    EXPECT_LE(most - least, 1u);
  }
}

TEST(AvailableCores, AreAtLeastOne) { EXPECT_FALSE(available_cores().empty()); }

TEST(Environment, ComesBackAsItWas) {
  WorkerEnvironment sent{{"::1", 1234}, 3, 5, 1, 2, 4, "secret"};
  EXPECT_EQ(to_variables(sent).at("MUSTER_HOST_IS_WATCHED"), "0") << "whatever stood there before";
  sent.host_is_watched = true;
  const auto variables = to_variables(sent);
  EXPECT_EQ(variables.at("RANK"), "3");
  EXPECT_EQ(variables.at("WORLD_SIZE"), "5");
  EXPECT_EQ(variables.at("LOCAL_RANK"), "1");
  EXPECT_EQ(variables.at("LOCAL_WORLD_SIZE"), "2");
  EXPECT_EQ(variables.at("MASTER_ADDR"), "::1");
  EXPECT_EQ(variables.at("MASTER_PORT"), "1234");
  const auto lookup = [&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
  const auto read = read_environment(lookup);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(to_variables(*read), variables);
  EXPECT_TRUE(read->host_is_watched);
}

TEST(Environment, NamesWhatIsMissingOrWrong) {
  const auto variables = to_variables({{"h", 1}, 0, 1, 0, 1, 1, "secret"});
  for (const char* name : {"MUSTER_COORDINATOR", "MUSTER_WORKER", "MUSTER_LANES"}) {
    for (const auto& value : {std::optional<std::string>(), std::optional<std::string>("x")}) {
      const auto read = read_environment([&](const std::string& asked) {
        return asked == name ? value : std::optional(variables.at(asked));
      });
      ASSERT_FALSE(read);
      EXPECT_EQ(read.error().code, value ? ErrorCode::kInvalid : ErrorCode::kNotFound);
      EXPECT_NE(read.error().message.find(name), std::string::npos);
      EXPECT_EQ(read.error().message.find("secret"), std::string::npos);
    }
  }
}

TEST(JobFailure, IsDescribedForAPerson) {
  const JobFailure failure{Rank{2},
                           "node-b",
                           4711,
                           "killed by SIGKILL",
                           {ErrorCode::kPeerLost, "rank 2 is gone", Rank{2}},
                           {Step{9}, "backward", "all_reduce gradients/3"},
                           {"last words"},
                           "/run/logs/rank-2.log",
                           /*last_heard=*/true,
                           "the job ends: 1 worker is left"};
  EXPECT_EQ(describe(failure),
            "rank 2 on node-b (pid 4711): killed by SIGKILL\n"
            "  rank 2 is gone\n"
            "  it was last heard of at step 9, backward, in all_reduce gradients/3\n"
            "  the job ends: 1 worker is left\n"
            "  hint: neither muster nor, as far as it sees, the system for lack of memory has done "
            "it: somebody by hand, a batch system at its limits, or a container at its own\n"
            "  its last lines:\n"
            "    last words\n"
            "  its log: /run/logs/rank-2.log");
}

TEST(JobFailure, HasAHintWhereTheWorkerCouldSayNothing) {
  const auto told = [](const char* reason, ErrorCode code) {
    JobFailure failure;
    failure.rank = Rank{1};
    failure.reason = reason;
    failure.error = {code, "rank 1 is gone", Rank{1}};
    const std::string text = describe(failure);
    const std::size_t at = text.find("\n  hint: ");
    return at == text.npos ? std::string() : text.substr(at);
  };
  std::set<std::string> hints;
  for (const char* reason :
       {"killed by SIGSEGV", "killed by SIGABRT", "killed by SIGILL", "killed by SIGBUS",
        "killed by SIGKILL", "killed by SIGKILL, as the system does for lack of memory: it has …",
        "exit status 7"}) {
    const std::string hint = told(reason, ErrorCode::kPeerLost);
    EXPECT_TRUE(!hint.empty() && hints.insert(hint).second) << reason << hint;
    EXPECT_EQ(told(reason, ErrorCode::kNumeric), "") << "it has said itself what to do";
  }
  EXPECT_EQ(told("lost its connection", ErrorCode::kPeerLost), "");
}

TEST(JobFailure, RefersOnlyToWhatIsKept) {
  JobFailure failure;
  failure.rank = Rank{1};
  failure.reason = "exit status 7";
  failure.error = {ErrorCode::kPeerLost, "rank 1 is gone", Rank{1}};
  const std::string hint = "\n  hint: it ended without saying so to the others; ";
  EXPECT_THAT(describe(failure), ::testing::EndsWith(hint + "it wrote nothing"));
  failure.last_lines = {"no cheese"};
  EXPECT_THAT(describe(failure), ::testing::HasSubstr(hint + "its last lines say more\n"));
  failure.log = "/run/logs/rank-1.log";
  EXPECT_THAT(describe(failure),
              ::testing::HasSubstr(hint + "its last lines and its log say more\n"));
}

TEST(JobFailure, OfAJobThatCannotBeIsNobodys) {
  JobFailure failure;
  failure.rank = Rank{0};
  failure.reason = "exit status 2";
  failure.error = {ErrorCode::kInvalid, "[job] strategy.stages: the model has 2 blocks", kNoRank};
  failure.last_lines = {"rank 0 of 1 in generation 1"};
  EXPECT_EQ(describe(failure), failure.error.message);
  failure.progress.step = Step{3};
  EXPECT_EQ(describe(failure).substr(0, 21), "rank 0: exit status 2");
}

TEST(JobFailure, IsSaidOnceWhereTheWorkerSaidItItself) {
  const JobFailure failure{Rank{0},
                           "a",
                           7,
                           "exited with 4",
                           {ErrorCode::kNumeric, "the loss is nan\nlower the rate"},
                           {Step{2}, "updating", ""},
                           {"note", "ends: the loss is nan", "[ERROR] the loss is nan"},
                           ""};
  EXPECT_EQ(describe(failure),
            "rank 0 on a (pid 7): exited with 4\n"
            "  the loss is nan\n"
            "lower the rate\n"
            "  it was at step 2, updating\n"
            "  its last lines:\n"
            "    note");
}

TEST(JobFailure, ThatTheJobOutlivesIsOneLineWithItsLastWords) {
  JobFailure loss{Rank{2},
                  "node-b",
                  4711,
                  "killed by SIGKILL",
                  {},
                  {Step{9}, "backward", "all_reduce gradients/3"},
                  {"first words", "  rank 2 of 4\tin generation 1\r", " "},
                  "/run/logs/rank-2.log"};
  EXPECT_EQ(describe_loss(loss, {3, 0, {2}}),
            "worker 2 (pid 4711 on node-b) killed by SIGKILL at step 9, backward, in all_reduce "
            "gradients/3; 3 workers are left, going on; its log: /run/logs/rank-2.log ends with: "
            "rank 2 of 4 in generation 1");
  EXPECT_EQ(describe_loss_briefly(loss, {3, 0, {2}}),
            "worker 2 (pid 4711 on node-b) killed by SIGKILL at step 9, backward, in all_reduce "
            "gradients/3; 3 workers are left, going on");
  EXPECT_THAT(describe_loss_briefly(loss, {0, 0, {}}),
              ::testing::EndsWith("; 0 workers are left, and the job ends without it"));
  loss.last_heard = true;
  loss.host.clear();
  loss.last_lines.clear();
  EXPECT_EQ(describe_loss(loss, {1, 2, {0, 2}}),
            "worker 2 (pid 4711) killed by SIGKILL after it was last heard of at step 9, backward, "
            "in all_reduce gradients/3; 1 worker is left, waiting until 2 more have joined "
            "(workers.min_workers); missing: workers 0, 2; its log: /run/logs/rank-2.log");
  EXPECT_NE(
      describe_loss(loss, {.workers = 1, .wanted = 1, .missing = {}, .rule = "workers.majority"})
          .find("waiting until 1 more has joined (workers.majority)"),
      std::string::npos);
  loss.log.clear();
  loss.last_lines = {std::string(199, 'x') + "ä, and more"};
  EXPECT_TRUE(describe_loss(loss, {1, 1, {}})
                  .ends_with("1 more has joined (workers.min_workers); its last line: " +
                             std::string(199, 'x') + "…"));
}

}  // namespace
}  // namespace muster::cluster
