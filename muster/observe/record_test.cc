#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cmath>

#include "muster/base/testing/sanitized.h"
#include "muster/observe/record_codec.h"
#include "muster/observe/record_json.h"
#include "muster/observe/record_value.h"

namespace muster::observe {
namespace {

using ::testing::HasSubstr;

Metrics row(std::int64_t step, std::string name, double value) {
  Metrics metrics;
  metrics.step = Step{step};
  metrics.epoch = 0.25;
  metrics.samples_seen = step * 128;
  metrics.time = WallTime(std::chrono::microseconds(1795264496123456));
  metrics.values = {{std::move(name), value}, {"perf/step_time_s", 0.5}};
  return metrics;
}

std::vector<Record> one_of_each() {
  RunStarted started;
  started.name = "fashion";
  started.headline = "muster · 2 workers";
  started.libtorch = "2.11.0";
  started.run_folder = "runs/fashion/x";
  started.workers = 2;
  started.slices = 8;
  started.parameters = 78000;
  started.first_step = Step{5};
  started.samples_seen = 640;
  started.total_steps = 1407;
  started.total_samples = 180000;
  started.epochs = 3;
  started.epoch_size = 60000;
  started.batch = 128;
  const Span span{.track = Track::kCommunication,
                  .lane = 2,
                  .name = "all_reduce",
                  .detail = "gradients/3",
                  .worker = 4,
                  .rank = Rank{1},
                  .step = Step{7},
                  .generation = Generation{3},
                  .number = 12,
                  .bytes = 4096,
                  .begin = TimePoint(Duration(123456789)),
                  .duration = Duration(42)};
  CheckpointWritten checkpoint{Step{500}, "checkpoints/step-00000500", 1234567,
                               std::chrono::microseconds(250), std::chrono::milliseconds(35)};
  StepCommitted committed{Step{7}, Generation{3}, 2, 128, 256, (1ULL << 60U) + 1};
  Notice notice{Severity::kWarning, "rank 1: \"läuft\"\nline two",
                RecoveryPart{RecoveryPart::Turn::kStarted, {1}, "rank 1: \"läuft\""}};
  RunEnded ended{
      Step{9},
      false,
      "stopped by SIGTERM",
      std::chrono::seconds(61),
      {{"eval/accuracy", 0.9}, {"eval/loss", 0.25}},
      {100, {{"backward", 1, std::chrono::seconds(3)}, {"all_reduce", -1, Duration(0)}}}};
  const WentBack back{Step{5}, Generation{4}, Step{9}, "all go back to step 5", 2};
  return {started, row(1, "train/loss", 2.25), span, committed, back, checkpoint, notice, ended};
}

TEST(RecordCodec, GivesBackEveryKindOfRecord) {
  const std::vector<Record> records = one_of_each();
  ASSERT_EQ(records.size(), std::variant_size_v<Record>);
  const auto decoded = decode(encode(records));
  ASSERT_TRUE(decoded) << decoded.error().message;
  EXPECT_EQ(*decoded, records);
  EXPECT_TRUE(decode(encode({}))->empty());
}

TEST(RecordCodec, KeepsNumbersThatAreNotFinite) {
  const std::vector<Record> records{row(1, "train/loss", NAN), row(2, "train/loss", INFINITY)};
  const auto decoded = decode(encode(records));
  ASSERT_TRUE(decoded);
  EXPECT_TRUE(std::isnan(*std::get<Metrics>((*decoded)[0]).find("train/loss")));
  EXPECT_EQ(*std::get<Metrics>((*decoded)[1]).find("train/loss"), INFINITY);
}

TEST(RecordCodec, RefusesAnythingElse) {
  const std::vector<std::byte> bytes = encode(one_of_each());
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const auto decoded = decode(std::span(bytes).first(size));
    ASSERT_FALSE(decoded) << size;
    EXPECT_EQ(decoded.error().code, ErrorCode::kCorrupt);
  }
  EXPECT_TRUE(rc::check([] {
    const auto noise = *rc::gen::arbitrary<std::vector<std::uint8_t>>();
    const auto decoded = decode(std::as_bytes(std::span(noise)));
    RC_ASSERT(!decoded || decoded->empty());
  }));
}

TEST(RecordCodec, SurvivesEveryFlippedBit) {
  const std::vector<std::byte> bytes = encode(one_of_each());
  for (std::size_t bit = 0; bit < bytes.size() * 8; bit += kSanitized ? 7 : 1) {
    std::vector<std::byte> broken = bytes;
    broken[bit / 8] ^= std::byte{1} << static_cast<int>(bit % 8);
    (void)decode(broken);  // a value or an error, never a throw
  }
}

TEST(RecordCodec, RefusesTimesThatNanosecondsCannotHold) {
  observe::Value value = to_value(row(1, "train/loss", 1));
  for (const double seconds : {1e10, -1e300, double(INFINITY), double(NAN)}) {
    value["time"] = seconds;
    const auto record = from_value(value);
    ASSERT_FALSE(record) << seconds;
    EXPECT_EQ(record.error().code, ErrorCode::kCorrupt);
  }
}

TEST(RecordCodec, RefusesFractionsOfWhatIsWhole) {
  for (const auto& record : one_of_each()) {
    observe::Value value = to_value(record);
    for (auto& [name, item] : value.items()) {
      if (!item.is_number_integer()) continue;
      const auto before = std::exchange(item, 1e300);
      EXPECT_FALSE(from_value(value)) << value;
      item = before;
    }
    EXPECT_TRUE(from_value(value)) << value;
  }
}

TEST(RecordCodec, RefusesNestingThatWouldExhaustTheStack) {
  const std::vector<std::byte> nested(10'000'000, std::byte{0x81});
  EXPECT_FALSE(decode(nested));
}

TEST(RecordJson, AMetricsLineIsFlat) {
  EXPECT_EQ(to_json_line(row(10, "train/loss", 2.25)),
            R"({"type":"metrics","step":10,"epoch":0.25,"samples_seen":1280,)"
            R"("time":1795264496.123456,"train/loss":2.25,"perf/step_time_s":0.5})");
}

TEST(RecordJson, GivesBackEveryKindOfRecord) {
  for (const Record& record : one_of_each()) {
    const std::string line = to_json_line(record);
    EXPECT_EQ(line.find('\n'), line.npos);
    const auto read = from_json_line(line);
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(*read, record);
  }
}

TEST(RecordJson, WritesWhatIsNotFiniteAsNull) {
  const std::string line = to_json_line(row(1, "train/loss", NAN));
  EXPECT_THAT(line, HasSubstr(R"("train/loss":null)"));
  EXPECT_TRUE(std::isnan(*std::get<Metrics>(*from_json_line(line)).find("train/loss")));
}

TEST(RecordJson, ReplacesBytesThatAreNotText) {
  EXPECT_TRUE(from_json_line(to_json_line(Notice{Severity::kError, "\xff\xfe broken"})));
}

TEST(RecordJson, RefusesLinesThatAreNotRecords) {
  for (const char* line : {"", "[]", "{}", "{\"type\":\"metrics\"}", "{\"type\":\"other\"}",
                           "{\"type\":\"notice\",\"severity\":\"loud\",\"text\":\"\"}"}) {
    const auto read = from_json_line(line);
    ASSERT_FALSE(read) << line;
    EXPECT_EQ(read.error().code, ErrorCode::kCorrupt);
  }
}

std::string file_of(const std::vector<Record>& records) {
  std::string text;
  for (const Record& record : records) text += to_json_line(record) + "\n";
  return text;
}

TEST(RecordJson, LeavesOutALastLineCutShort) {
  const std::string text = file_of({row(1, "train/loss", 1), row(2, "train/loss", 2)});
  const auto records = read_json_lines(text.substr(0, text.size() - 5));
  ASSERT_TRUE(records);
  EXPECT_EQ(records->size(), 1u);
}

TEST(RecordJson, AResumedRunReplacesTheStepsTakenAgain) {
  RunStarted resumed;
  resumed.first_step = Step{2};
  const auto records = read_json_lines(file_of(
      {RunStarted{}, row(1, "train/loss", 1), row(2, "train/loss", 2), row(3, "train/loss", 3),
       row(3, "eval/loss", 9), resumed, row(3, "train/loss", 30)}));
  ASSERT_TRUE(records);
  std::vector<double> losses;
  for (const Record& record : *records) {
    if (const auto* metrics = std::get_if<Metrics>(&record))
      losses.push_back(metrics->values[0].value);
  }
  EXPECT_EQ(losses, (std::vector<double>{1, 2, 30}));
}

TEST(RecordJson, NamesTheBrokenLine) {
  const auto records = read_json_lines(file_of({row(1, "train/loss", 1)}) + "rubbish\n");
  ASSERT_FALSE(records);
  EXPECT_THAT(records.error().message, HasSubstr("line 2"));
}

TEST(RecordJson, GoesOnAfterABrokenLine) {
  const ReadLines read = read_whole_json_lines(
      file_of({row(1, "train/loss", 1)}) + std::string("{\"type\": \0\x1b[31m", 15) +
      std::string(100, 'x') + "\n{}\n" + file_of({row(2, "train/loss", 2)}));
  EXPECT_EQ(read.records.size(), 2u);
  ASSERT_EQ(read.damaged.size(), 2u);
  EXPECT_EQ(read.damaged[0].code, ErrorCode::kCorrupt);
  EXPECT_EQ(
      read.damaged[0].message,
      "line 2: [observe/record] not a JSON object: {\"type\": ??[31m" + std::string(45, 'x') + "…");
  EXPECT_THAT(read.damaged[1].message, HasSubstr("line 3: [observe/record] not a record"));
}

}  // namespace
}  // namespace muster::observe
