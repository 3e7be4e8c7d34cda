#include "muster/app/launch/hosts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/app/join/orders.h"
#include "muster/testing/temp_folder.h"

namespace muster::app {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// Every host is this one; "down" cannot be reached.
class ShellHere final : public cluster::RemoteShell {
 public:
  std::string name() const override { return "here"; }
  ProcessSpec process_for(const std::string& host, std::string_view script,
                          std::string input) const override {
    const std::string words = host == "down" ? "echo no way >&2; exit 255" : std::string(script);
    return {.command = {"sh", "-c", words},
            .environment = {{"SSH_CONNECTION", (host == "far" ? "10.1.0.5" : "10.0.0.5") +
                                                   std::string(" 50000 10.0.0.6 22")}},
            .folder = {},
            .cores = {},
            .input = std::move(input)};
  }
  std::string explain(const std::string& host,
                      const std::vector<std::string>& said) const override {
    return host + " said " + said.back();
  }
};

class HostsTest : public ::testing::Test {
 protected:
  // What it runs there instead of muster, with this as its answer.
  CarriedAlong carried(const std::string& version) {
    const Path program = folder_.path() / "program";
    EXPECT_TRUE(write_atomically(system_files(), program,
                                 "#!/bin/sh\necho '" + version + "'\necho more\n"));
    std::filesystem::permissions(program, std::filesystem::perms::owner_all);
    return {.program = program, .version = "muster 1", .folder = folder_.path()};
  }
  Result<LookedAt> look(const std::vector<std::string>& hosts, const CarriedAlong& carried) {
    return look_at_hosts(ShellHere(), {.needed = hosts}, carried, true, system_processes(),
                         create_null_logger());
  }
  std::string why_not(const std::vector<std::string>& hosts, const CarriedAlong& carried) {
    const auto looked = look(hosts, carried);
    return looked ? "" : looked.error().message;
  }
  testing::TempFolder folder_;
};

TEST_F(HostsTest, ThatCanTakePartSayHowTheySeeThisOne) {
  const auto looked = look({"b", "a", "b"}, carried("muster 1"));
  ASSERT_TRUE(looked) << looked.error().message;
  EXPECT_EQ(looked->address, "10.0.0.5");
}

TEST_F(HostsTest, EachThatCannotIsNamedWithTheReason) {
  EXPECT_THAT(why_not({"b", "down"}, carried("muster 1")),
              AllOf(HasSubstr("1 of 2 other hosts cannot"), HasSubstr("\n  down: down said no way"),
                    Not(HasSubstr("\n  b:"))));
  EXPECT_THAT(why_not({"b"}, carried("muster 2")),
              HasSubstr("b: it has another version, and all need the same: `muster 2` there, "
                        "`muster 1` here"));
  CarriedAlong lacking = carried("muster 1");
  lacking.program = folder_.path() / "none";
  EXPECT_THAT(why_not({"b"}, lacking), HasSubstr("no none on the PATH"));
  lacking = carried("muster 1");
  lacking.folder = folder_.path() / "it's gone";
  EXPECT_THAT(why_not({"b"}, lacking), HasSubstr("there is no folder"));
  EXPECT_THAT(why_not({"b", "far"}, carried("muster 1")),
              AllOf(HasSubstr("workers.listen"), HasSubstr("far sees it as 10.1.0.5")));
}

TEST_F(HostsTest, OneThatIsNeededLaterIsToldOf) {
  const auto look_later = [&](const std::vector<std::string>& later) {
    return look_at_hosts(ShellHere(), {.needed = {}, .later = later}, carried("muster 1"), true,
                         system_processes(), create_null_logger());
  };
  const auto looked = look_later({"b", "down", "down"});
  ASSERT_TRUE(looked) << looked.error().message;
  EXPECT_EQ(looked->address, "10.0.0.5");
  EXPECT_THAT(looked->absent, AllOf(HasSubstr("1 of 2 other hosts cannot take part yet"),
                                    HasSubstr("\n  down: down said no way")));
  EXPECT_EQ(look_later({"b"})->absent, "");
  EXPECT_THAT(look_later({"down"}).error().message, HasSubstr("1 of 1 other host cannot"))
      << "nobody says how others see this host";
}

TEST(PlaceWorkers, PutsThisHostsFirstAndFillsTheOthersInOrder) {
  const auto placed = [](const std::string& hosts, std::int64_t count) {
    return place_workers(*job::parse_hosts(hosts), count, "node6.here");
  };
  EXPECT_EQ(place_workers({}, 3, "node6"), (Placement{3, {}}));
  EXPECT_EQ(placed("b:2,localhost:2,c", 5), (Placement{2, {"b", "b", "c"}}));
  EXPECT_EQ(placed("node6,node6.here,b:4", 3), (Placement{2, {"b"}}));
  EXPECT_EQ(describe(placed("b:2,localhost,c", 4)), "1 worker here, 2 on b, 1 on c");
  const Placement room = placed("b:2,localhost:2,c", 5);
  EXPECT_EQ(first_of(room, 1), (Placement{1, {}}));
  EXPECT_EQ(first_of(room, 3), (Placement{2, {"b"}}));
  EXPECT_EQ(first_of(room, 5), room);
}

TEST(SpareHosts, AreThoseOfPlacesThatTheJobDoesNotFill) {
  const auto spare = [](const std::string& hosts, std::int64_t count) {
    return spare_hosts(*job::parse_hosts(hosts), count, "node6.here");
  };
  using Hosts = std::vector<std::string>;
  EXPECT_EQ(spare("b:2,c,d:2", 2), (Hosts{"c", "d", "d"}));
  EXPECT_EQ(spare("b:2,c,node6,d", 3), Hosts{"d"}) << "this one goes with the launcher";
  EXPECT_EQ(spare("b:2,c", 3), Hosts{});
  EXPECT_EQ(spare_hosts({}, 3, "node6"), Hosts{});
}

// Starts nothing.
class Noted final : public Processes {
 public:
  Result<std::unique_ptr<Process>> spawn(const ProcessSpec& spec) override {
    spawned = spec;
    return fail(ErrorCode::kUnavailable, "noted");
  }
  ProcessSpec spawned;
};

TEST(RemoteWorkers, TheKeyIsOnNoCommandLine) {
  Noted noted;
  const auto workers =
      remote_workers(std::make_shared<ShellHere>(), {"b"},
                     {.program = "/opt/muster", .folder = "/a b", .environment = {{"A", "secret"}}},
                     {.resumes = true}, noted);
  EXPECT_FALSE(workers.start(
      {.host = "b", .worker = 2, .coordinator = {"10.0.0.5", 1}, .credentials = "secret"}));
  const ProcessSpec& spec = noted.spawned;
  for (const std::string& word : spec.command) EXPECT_THAT(word, Not(HasSubstr("secret")));
  for (const auto& [name, value] : spec.environment) EXPECT_THAT(value, Not(HasSubstr("secret")));
  const auto orders = read_orders(*spec.input);
  ASSERT_TRUE(orders);
  EXPECT_EQ(orders->worker, 2);
  EXPECT_EQ(orders->environment.at("A"), "secret");
  EXPECT_TRUE(orders->resumes);
}

}  // namespace
}  // namespace muster::app
