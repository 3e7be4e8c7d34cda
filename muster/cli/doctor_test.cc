#include "muster/cli/doctor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "muster/app/engines/testing/fabric_files.h"
#include "muster/base/text_width.h"
#include "muster/cli/application.h"
#include "muster/cli/fake_machine.h"

namespace muster::cli {
namespace {

class Doctor : public ::testing::Test {
 protected:
  Check check(const std::string& name) { return check(name, context_); }
  static Check check(const std::string& name, Context& context) {
    const auto checks = examine(context);
    const auto found = std::find_if(checks.begin(), checks.end(),
                                    [&](const Check& check) { return check.name == name; });
    EXPECT_NE(found, checks.end()) << name;
    return found == checks.end() ? Check{} : *found;
  }

  void expect(const std::string& name, CheckState state) {
    const auto found = check(name);
    EXPECT_EQ(found.state, state) << name << ": " << found.value;
    EXPECT_EQ(found.fix.empty(), state == CheckState::kOk) << name << ": " << found.fix;
  }

  FakeMachine machine_;
  std::ostringstream out_, err_;
  Context context_{system_files(), system_clock(), machine_, out_, err_, {}, "/nowhere/muster"};
};

TEST_F(Doctor, FindsNothingWrongWithAGoodMachine) {
  for (const auto* name :
       {"cores", "memory", "instruction sets", "engines", "loopback port", "addresses",
        "shared memory", "open files", "file size", "clock", "disk"}) {
    expect(name, CheckState::kOk);
  }
}

TEST_F(Doctor, MissesTheWorker) {
  expect("libtorch", CheckState::kBad);
  EXPECT_NE(check("libtorch").value.find("/nowhere/muster-worker"), std::string::npos);
}

TEST_F(Doctor, WarnsOfWhatIsTight) {
  machine_.cores_ = 1;
  machine_.memory_.available = 100 << 20;
  machine_.instruction_sets_.clear();
  machine_.open_files_ = 256;
  machine_.file_size_ = 100 << 20;
  machine_.free_space_ = 1 << 20;
  machine_.synchronised_ = false;
  for (const auto* name :
       {"cores", "memory", "instruction sets", "open files", "file size", "disk", "clock"}) {
    expect(name, CheckState::kWarning);
  }
  EXPECT_EQ(check("file size").value, "100.0 MiB");
  EXPECT_NE(check("file size").fix.find("ulimit -f"), std::string::npos);
  EXPECT_EQ(check("clock").fix.find("TLS"), std::string::npos) << "which takes a clock that is off";
}

TEST_F(Doctor, CallsBadWhatTrainingCannotDoWithout) {
  machine_.engine_ = fail(ErrorCode::kTimeout, "rank 1 did not answer");
  machine_.loopback_ = fail(ErrorCode::kUnavailable, "bind: no such device");
  machine_.shared_memory_ = fail(ErrorCode::kUnavailable, "memfd_create: not permitted");
  machine_.writable_ = fail(ErrorCode::kUnavailable, "read-only");
  for (const auto* name : {"engines", "loopback port", "shared memory", "disk"}) {
    expect(name, CheckState::kBad);
  }
  EXPECT_EQ(check("engines").value, "shared memory: rank 1 did not answer");
}

TEST_F(Doctor, SaysWhatTheModuleForNcclFinds) {
  const auto told = [&] { return check("engines").value; };
  EXPECT_TRUE(told().ends_with("; NCCL: no module")) << told();
  context_.environment["MUSTER_NCCL"] = "/proc/self/maps";  // no library
  EXPECT_NE(told().find("; NCCL: a module that cannot be used here (/proc/self/maps: "),
            std::string::npos)
      << told();
  EXPECT_EQ(check("engines").state, CheckState::kOk) << "the other engines work";
}

TEST_F(Doctor, ShowsTheFabricThatIsUpAndWarnsOfOneThatIsNot) {
  testing::MemoryFiles files;
  Context context{files, system_clock(), machine_, out_, err_, {}, "/nowhere/muster"};
  EXPECT_EQ(check("fabric", context).value, "none; TCP reaches other hosts");
  EXPECT_EQ(check("fabric", context).state, CheckState::kOk);
  testing::add_verbs_device(files, {.name = "mlx5_0", .state = "2: INIT"});
  const Check down = check("fabric", context);
  EXPECT_EQ(down.value, "InfiniBand mlx5_0 port 1 is INIT");
  EXPECT_EQ(down.state, CheckState::kWarning);
  EXPECT_NE(down.fix.find("ibstat"), std::string::npos);
  testing::add_verbs_device(files, {.name = "mlx5_1", .link_layer = "Ethernet"});
  const Check up = check("fabric", context);
  EXPECT_EQ(up.value, "RoCE mlx5_1 port 1 (100 Gb/sec (4X EDR))");
  EXPECT_EQ(up.state, CheckState::kOk);
}

TEST_F(Doctor, ShowsByWhichAddressesOthersReachThisHost) {
  EXPECT_EQ(check("addresses").value, "10.0.0.5 (eth0), fd00::5 (eth0)");
  machine_.addresses_.clear();
  expect("addresses", CheckState::kWarning);
}

TEST_F(Doctor, TriesThePortThatItIsAskedFor) {
  machine_.taken_port_ = 29500;
  run({"doctor"}, context_);
  EXPECT_EQ(out_.str().find("29500"), std::string::npos) << out_.str();
  run({"doctor", "--port", "29500"}, context_);
  EXPECT_NE(out_.str().find("bad   port 29500        in use"), std::string::npos) << out_.str();
  EXPECT_NE(out_.str().find("sport = :29500"), std::string::npos) << out_.str();
  run({"doctor", "--port", "29501"}, context_);
  EXPECT_NE(out_.str().find("ok    port 29501        free"), std::string::npos) << out_.str();
  for (const char* none : {"0", "65536", "many"})
    EXPECT_EQ(run({"doctor", "--port", none}, context_), ExitCode::kUsage) << none;
}

TEST_F(Doctor, LeavesWithTheCodeForTheEnvironment) {
  EXPECT_EQ(run({"doctor"}, context_), ExitCode::kEnvironment);
  EXPECT_NE(out_.str().find("bad   libtorch"), std::string::npos) << out_.str();
}

TEST_F(Doctor, UsesColourOnlyOnATerminalThatWantsIt) {
  context_.out_is_terminal = true;
  run({"doctor"}, context_);
  EXPECT_NE(out_.str().find("\x1b["), std::string::npos);
  for (const auto* variable : {"NO_COLOR", "CI"}) {
    out_.str("");
    context_.environment = {{variable, "1"}};
    run({"doctor"}, context_);
    EXPECT_EQ(out_.str().find("\x1b["), std::string::npos) << variable;
  }
  out_.str("");
  context_.environment = {{"TERM", "dumb"}};
  run({"doctor"}, context_);
  EXPECT_EQ(out_.str().find("\x1b["), std::string::npos);
}

TEST_F(Doctor, FitsATerminalAndKeepsALineForEachThingElsewhere) {
  machine_.engine_ = fail(ErrorCode::kTimeout, "rank 1 did not answer within 5 s, nor did rank 0");
  context_.environment = {{"NO_COLOR", "1"}};
  run({"doctor"}, context_);
  const std::string found =
      "bad   engines           shared memory: rank 1 did not answer within 5 s, nor did";
  EXPECT_NE(out_.str().find(found + " rank 0\n"), std::string::npos) << out_.str();
  out_.str("");
  context_.out_is_terminal = true;
  run({"doctor"}, context_);
  EXPECT_NE(out_.str().find(found + "\n                        rank 0\n"), std::string::npos)
      << out_.str();
  std::istringstream lines(out_.str());
  for (std::string line; std::getline(lines, line);) EXPECT_LE(display_width(line), 80u) << line;
}

TEST_F(Doctor, TellsErrorsInJsonWhenAsked) {
  EXPECT_EQ(run({"--log", "json", "validate", "/nowhere/job.yaml"}, context_), ExitCode::kUsage);
  EXPECT_TRUE(err_.str().starts_with("{\"level\":\"error\",\"code\":")) << err_.str();
}

}  // namespace
}  // namespace muster::cli
