#include "muster/checkpoint/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "muster/checkpoint/hashed_file.h"
#include "muster/testing/memory_files.h"

namespace muster::checkpoint {
namespace {

class SafetensorsTest : public ::testing::Test {
 protected:
  SafetensorsTest() { EXPECT_TRUE(files_.create_folders("/d")); }

  void put(const Path& path, std::string_view bytes) {
    auto file = files_.open(path, Files::Open::kTruncate);
    ASSERT_TRUE(file && (*file)->append(std::as_bytes(std::span(bytes))));
  }

  testing::MemoryFiles files_;
  std::vector<float> a_{1, 2, 3, 4, 5, 6};
  std::vector<std::int64_t> b_{-7};
  std::vector<NamedTensor> tensors_{
      {"layer.weight", {DType::kF32, {2, 3}, std::as_writable_bytes(std::span(a_))}},
      {"count", {DType::kI64, {}, std::as_writable_bytes(std::span(b_))}},
      {"none", {DType::kF16, {0, 4}, {}}}};
};

TEST_F(SafetensorsTest, ReadsWhatItWrites) {
  ASSERT_TRUE(write_safetensors(files_, "/d/x", tensors_, {{"format", "pt"}}));
  const auto header = read_safetensors_header(files_, "/d/x");
  ASSERT_TRUE(header) << header.error().message;
  EXPECT_EQ(header->metadata, (Metadata{{"format", "pt"}}));
  EXPECT_EQ(header->data_begin % 8, 0u);
  ASSERT_EQ(header->entries.size(), 3u);
  EXPECT_EQ(header->entries[0].name, "layer.weight");
  EXPECT_EQ(header->entries[0].dtype, DType::kF32);
  EXPECT_EQ(header->entries[0].shape, (Shape{2, 3}));
  EXPECT_EQ(header->entries[1].begin, header->data_begin + 24);
  const std::string text = files_.read("/d/x").value();
  EXPECT_EQ(std::memcmp(text.data() + header->entries[0].begin, a_.data(), 24), 0);
  EXPECT_EQ(header->entries[2].end, text.size());
}

TEST_F(SafetensorsTest, HashesWhatItWrites) {
  const auto record = write_safetensors(files_, "/d/x", tensors_, {});
  ASSERT_TRUE(record);
  const std::string text = files_.read("/d/x").value();
  EXPECT_EQ(record->size, text.size());
  EXPECT_EQ(record->sha256, to_hex(sha256(std::as_bytes(std::span(text)))));
  EXPECT_EQ(record->chunks, std::vector{record->sha256});
}

TEST_F(SafetensorsTest, NeverWritesOverAFile) {
  ASSERT_TRUE(write_safetensors(files_, "/d/x", tensors_, {}));
  EXPECT_FALSE(write_safetensors(files_, "/d/x", tensors_, {}));
}

TEST(ChunkHasher, CutsAtFourMebibytes) {
  const std::vector<std::byte> bytes(2 * kChunkBytes + 5, std::byte{7});
  ChunkHasher whole, parts;
  whole.update(bytes);
  for (std::size_t at = 0; at < bytes.size(); at += 1'000'003) {
    parts.update(std::span(bytes).subspan(at, std::min<std::size_t>(1'000'003, bytes.size() - at)));
  }
  const FileRecord record = whole.finish("x");
  EXPECT_EQ(record, parts.finish("x"));
  ASSERT_EQ(record.chunks.size(), 3u);
  EXPECT_EQ(record.chunks[0], to_hex(sha256(std::span(bytes).first(kChunkBytes))));
  EXPECT_EQ(record.chunks[2], to_hex(sha256(std::span(bytes).first(5))));
  EXPECT_EQ(describe_chunk(record, 2), "chunk 2 (bytes 8388608 to 8388612)");
}

struct BadHeader {
  const char* json;
  std::uint64_t data;
  const char* says;
};

TEST(SafetensorsHeader, RefusesWhatDoesNotFit) {
  const BadHeader kBad[] = {
      {"", 0, "no JSON object"},
      {"[]", 0, "no JSON object"},
      {"{", 0, "no JSON object"},
      {"{} x", 0, "no JSON object"},
      {R"({"a":1})", 0, "is not {dtype"},
      {R"({"a":{"dtype":"F32","shape":[1]}})", 4, "is not {dtype"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":1}})", 4, "is not {dtype"},
      {R"({"a":{"dtype":"F99","shape":[1],"data_offsets":[0,4]}})", 4, "unknown dtype"},
      {R"({"a":{"dtype":"BOOL","shape":[1],"data_offsets":[0,1]}})", 1, "cannot hold"},
      {R"({"a":{"dtype":3,"shape":[1],"data_offsets":[0,4]}})", 4, "no dtype"},
      {R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4, "malformed shape"},
      {R"({"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}})", 4, "malformed shape"},
      {R"({"a":{"dtype":"F32","shape":1,"data_offsets":[0,4]}})", 4, "malformed shape"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", 4, "malformed data_offsets"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4, "not the size"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4, "not the size"},
      {R"({"a":{"dtype":"F32","shape":[4294967296,4294967296,4],"data_offsets":[0,0]}})", 0,
       "not the size"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 8, "the file holds 8"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", 8, "hole"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
       R"("b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
       8, "overlap"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
       R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
       4, "twice"},
      {R"({"__metadata__":{"a":1}})", 0, "no text"},
      {R"({"__metadata__":3})", 0, "no object"},
      {R"({"a":{"dtype":"F32","shape":[[[[[[1]]]]]],"data_offsets":[0,4]}})", 4, "deeply"},
  };
  for (const auto& [json, data, says] : kBad) {
    const auto header = decode_safetensors_header(json, 8 + std::strlen(json) + data);
    ASSERT_FALSE(header) << json;
    EXPECT_NE(header.error().message.find(says), std::string::npos) << json << "\n"
                                                                    << header.error().message;
  }
}

TEST_F(SafetensorsTest, SurvivesEveryTruncationAndManyFlips) {
  ASSERT_TRUE(write_safetensors(files_, "/d/x", tensors_, {{"format", "pt"}}));
  const std::string whole = files_.read("/d/x").value();
  for (std::size_t length = 0; length < whole.size(); ++length) {
    put("/d/y", whole.substr(0, length));
    EXPECT_FALSE(read_safetensors_header(files_, "/d/y")) << length;
  }
  std::mt19937 random(1);
  for (int i = 0; i < 5000; ++i) {  // whatever it says, it may not crash or claim bytes beyond
    std::string bent = whole;
    for (int flips = 0; flips < 3; ++flips) {
      bent[random() % bent.size()] = static_cast<char>(random());
    }
    put("/d/y", bent);
    const auto header = read_safetensors_header(files_, "/d/y");
    if (!header) continue;
    for (const auto& entry : header->entries) ASSERT_LE(entry.end, bent.size());
  }
}

TEST_F(SafetensorsTest, RefusesAnEndlessHeader) {
  put("/d/x", std::string(8, '\xff') + "{}");
  EXPECT_EQ(read_safetensors_header(files_, "/d/x").error().code, ErrorCode::kCorrupt);
}

}  // namespace
}  // namespace muster::checkpoint
