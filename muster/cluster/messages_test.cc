#include "muster/cluster/messages.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace muster::cluster {
namespace {

const WorkerInfo kInfo{2, "höst", "boot", 77, "[::1]:4711", false};

std::vector<Message> samples() {
  return {
      Join{kInfo, "muster 1", WallReading{WallTime(Duration(-3)), Duration(8)}},
      Enlist{"node7", 12, -1, "muster 2", "5f0c", WallReading{WallTime(Duration(5)), Duration(9)}},
      Enlisted{4, 3, "/runs/a", "name: a"},
      Heartbeat{{Step{9}, "forward", "all_reduce"}},
      Report{{std::byte{1}, std::byte{2}}},
      Failure{{ErrorCode::kNumeric, "NaN", Rank{3}}, {Step{4}, "update", ""}, Concerns::kItsHost},
      Quarantine{{ErrorCode::kCorrupt, "other weights", Rank{1}}},
      Suspect{Generation{3}, {ErrorCode::kTimeout, "does not answer", Rank{2}}},
      Reached{{1, 4}},
      Unreached{2, "no answer"},
      Leave{.signal = 10},
      Drain{.can_stay = true},
      Whole{},
      Dumped{{std::byte{3}}},
      StoreRequest{5, StoreAction::kCompareExchange, "k", {std::byte{1}}, {}, -3},
      Welcome{Generation{6}, Rank{1}, {{Rank{0}, kInfo}, {Rank{1}, kInfo}}, true},
      Reach{{kInfo, kInfo}},
      Dismiss{Generation{7}},
      Stay{},
      Stop{StopReason::kAtOnce},
      Dump{.stacks = false},
      StoreReply{7, {std::byte{9}}, -8},
      Knock{"node7:4711"},
      Knocked{"refused"},
      AskTime{TimePoint(Duration(17))},
      TellTime{TimePoint(Duration(17)), TimePoint(Duration(-4))},
      Ended{{7, std::nullopt, 4096}, {Step{8}, "updating", ""}, {"one", "two"}},
      Attend{1, "node7", "boot", 77, {0, 3}, "muster 3", {"/a.yaml", {{"name", "a"}}, "oops"}},
      ProcessOutput{4, true, {std::byte{0xff}}},
      ProcessEnded{4, {std::nullopt, 9, 4096}},
      StartProcess{4, "{}\n"},
      KillProcess{4},
      JobOver{143}};
}

TEST(Messages, EachComesBackAsItWas) {
  const auto all = samples();
  ASSERT_EQ(all.size(), std::variant_size_v<Message>);
  for (const auto& message : all) {
    const auto bytes = encode(message);
    const auto decoded = decode(bytes);
    ASSERT_TRUE(decoded) << name(message) << ": " << decoded.error().message;
    EXPECT_EQ(decoded->index(), message.index());
    EXPECT_EQ(encode(*decoded), bytes) << name(message);
  }
  const auto welcome = std::get<Welcome>(decode(encode(all[15])).value());
  EXPECT_EQ(welcome.members[1].info, kInfo);
  EXPECT_EQ(welcome.members[1].rank, Rank{1});
  EXPECT_TRUE(welcome.planned);
  const auto ended = std::get<Ended>(decode(encode(all[26])).value());
  EXPECT_EQ(ended.end.exit_status, 7);
  EXPECT_EQ(ended.end.signal, std::nullopt);
  EXPECT_EQ(ended.last_lines, (std::vector<std::string>{"one", "two"}));
  const auto join = std::get<Join>(decode(encode(all[0])).value());
  EXPECT_EQ(join.version, "muster 1");
  EXPECT_EQ(join.wall->at, WallTime(Duration(-3)));
  EXPECT_EQ(join.wall->on_the_way, Duration(8));
  const auto enlist = std::get<Enlist>(decode(encode(all[1])).value());
  EXPECT_EQ(enlist.version, "muster 2");
  EXPECT_EQ(enlist.boot_id, "5f0c");
  EXPECT_EQ(enlist.wall->at, WallTime(Duration(5)));
  const auto attend = std::get<Attend>(decode(encode(all[27])).value());
  EXPECT_EQ(attend.version, "muster 3");
  EXPECT_EQ(attend.job.values, std::get<Attend>(all[27]).job.values);
  EXPECT_EQ(attend.job.mistake, "oops");
  const auto failure = std::get<Failure>(decode(encode(all[5])).value());
  EXPECT_EQ(failure.error, (Error{ErrorCode::kNumeric, "NaN", Rank{3}}));
  EXPECT_EQ(failure.concerns, Concerns::kItsHost);
  const Failure late{{}, {}, Concerns::kAll, Generation{5}};
  EXPECT_EQ(std::get<Failure>(decode(encode(late)).value()).generation, Generation{5});
  EXPECT_TRUE(std::get<Drain>(decode(encode(all[11])).value()).can_stay);
}

// As a muster before it did: it is told that it is another one, and not that it sends rubbish.
TEST(Messages, AHostMaySayNothingOfItsVersion) {
  const auto bytes = net::encode_message(kControlVersion, "enlist",
                                         {{"host", "node7"}, {"pid", 12}, {"worker", -1}});
  const auto decoded = decode(bytes);
  ASSERT_TRUE(decoded) << decoded.error().message;
  EXPECT_EQ(std::get<Enlist>(*decoded).version, "");
  EXPECT_FALSE(std::get<Enlist>(*decoded).wall);
}

// Whatever else these have had since, or will have: two commits meet with them alone.
TEST(Messages, TheFirstWordsOfAnotherCommitAreRead) {
  const auto read = [](const char* kind, const char* body) {
    return decode(net::encode_message(kControlVersion, kind, nlohmann::json::parse(body)));
  };
  const auto join =
      read("join", R"({"worker": 2, "host": "a", "pid": 7, "version": "v", "new": {"x": [1]}})");
  ASSERT_TRUE(join) << join.error().message;
  EXPECT_EQ(std::get<Join>(*join).version, "v");
  EXPECT_EQ(std::get<Join>(*join).info.host, "a");
  const auto enlist = read("enlist", R"({"host": "a", "pid": 7, "version": "v", "new": 1})");
  ASSERT_TRUE(enlist) << enlist.error().message;
  EXPECT_EQ(std::get<Enlist>(*enlist).version, "v");
  EXPECT_EQ(std::get<Enlist>(*enlist).worker, -1);
  const auto attend = read("attend", R"({"number": 1, "host": "a", "pid": 7, "version": "v"})");
  ASSERT_TRUE(attend) << attend.error().message;
  EXPECT_EQ(std::get<Attend>(*attend).version, "v");
  const auto refusal =
      read("failure", R"({"error": {"code": 1, "message": "all need the same", "peer": -1}})");
  ASSERT_TRUE(refusal) << refusal.error().message;
  EXPECT_EQ(std::get<Failure>(*refusal).error.message, "all need the same");
}

// So that a muster of any commit since version 1 can read them.
TEST(Messages, TheFirstWordsHaveWhatTheyHadAtVersionOne) {
  const auto body_of = [](const Message& message) {
    nlohmann::json body;
    EXPECT_TRUE(net::decode_message(kControlVersion, encode(message), body));
    return body;
  };
  const auto has = [](const nlohmann::json& body, std::initializer_list<const char*> fields) {
    return std::ranges::all_of(fields, [&](const char* field) { return body.contains(field); });
  };
  const auto all = samples();
  EXPECT_TRUE(has(body_of(all[0]), {"worker", "host", "boot_id", "pid", "door", "can_lead",
                                    "has_state", "version"}));
  EXPECT_TRUE(has(body_of(all[1]), {"host", "pid", "worker", "version"}));
  EXPECT_TRUE(has(body_of(all[5]), {"error", "progress", "concerns", "generation"}));
  EXPECT_TRUE(has(body_of(all[5])["error"], {"code", "message", "peer"}));
  EXPECT_TRUE(has(body_of(all[27]), {"number", "host", "boot_id", "pid", "cores", "version"}));
}

TEST(Messages, TextThatIsNoUtf8StillTravels) {
  EXPECT_NO_THROW((void)encode(Failure{{ErrorCode::kInternal, "\xff\xfe bad", kNoRank}, {}}));
}

RC_GTEST_PROP(Messages, DamagedOnesAreDecodedOrRefusedButNeverCrash, ()) {
  const auto all = samples();
  auto bytes = encode(all[*rc::gen::inRange<std::size_t>(0, all.size())]);
  for (int i = *rc::gen::inRange(1, 4); i > 0; --i)
    bytes[*rc::gen::inRange<std::size_t>(0, bytes.size())] =
        std::byte{*rc::gen::arbitrary<std::uint8_t>()};
  bytes.resize(*rc::gen::inRange<std::size_t>(0, bytes.size() + 1));
  (void)decode(bytes);
}

}  // namespace
}  // namespace muster::cluster
