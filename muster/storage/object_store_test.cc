// One conformance suite for every object store: a new one enters with its line in kStores.

#include "muster/storage/object_store.h"

#include <gtest/gtest.h>

#include <thread>

#include "muster/storage/stores/local/local_store.h"
#include "muster/storage/stores/memory/memory_store.h"
#include "muster/testing/faulty_files.h"
#include "muster/testing/memory_files.h"
#include "muster/testing/temp_folder.h"

namespace muster::storage {
namespace {

using Create = std::unique_ptr<ObjectStore> (*)(const Path& folder);

struct StoreCase {
  const char* name;
  Create create;
};

std::unique_ptr<ObjectStore> create_memory(const Path&) { return create_memory_store(); }
std::unique_ptr<ObjectStore> create_local(const Path& folder) {
  return create_local_store(system_files(), folder / "root");
}

constexpr StoreCase kStores[] = {{"Memory", create_memory}, {"Local", create_local}};

std::span<const std::byte> bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

std::string read_whole(ObjectStore& store, std::string_view name) {
  std::string text(1 << 20, '\0');
  const auto got = store.read(name, 0, std::as_writable_bytes(std::span(text)));
  EXPECT_TRUE(got);
  text.resize(got.value_or(0));
  return text;
}

class ObjectStoreTest : public ::testing::TestWithParam<StoreCase> {
 protected:
  testing::TempFolder folder_;
  std::unique_ptr<ObjectStore> store_ = GetParam().create(folder_.path());
};

TEST_P(ObjectStoreTest, KeepsWhatIsPut) {
  const std::string large(300'001, 'x');
  ASSERT_TRUE(store_->put("a", bytes("one")));
  ASSERT_TRUE(store_->put("b/c/d", bytes(large)));
  ASSERT_TRUE(store_->put("empty", {}));
  EXPECT_EQ(read_whole(*store_, "a"), "one");
  EXPECT_EQ(read_whole(*store_, "b/c/d"), large);
  EXPECT_EQ(read_whole(*store_, "empty"), "");
  ASSERT_TRUE(store_->put("a", bytes("2")));
  EXPECT_EQ(read_whole(*store_, "a"), "2");
}

TEST_P(ObjectStoreTest, ReadsRanges) {
  ASSERT_TRUE(store_->put("a", bytes("0123456789")));
  std::string into(4, '.');
  const auto room = std::as_writable_bytes(std::span(into));
  EXPECT_EQ(store_->read("a", 3, room).value(), 4u);
  EXPECT_EQ(into, "3456");
  EXPECT_EQ(store_->read("a", 8, room).value(), 2u);
  EXPECT_EQ(into, "8956");
  EXPECT_EQ(store_->read("a", 10, room).value(), 0u);
  EXPECT_EQ(store_->read("a", ~std::uint64_t{0} >> 1, room).value(), 0u);
}

TEST_P(ObjectStoreTest, ListsByPrefix) {
  for (const char* name : {"b/2", "b/1", "b/x/3", "a", "bc"}) {
    ASSERT_TRUE(store_->put(name, bytes(name)));
  }
  using Infos = std::vector<ObjectInfo>;
  EXPECT_EQ(store_->list("b/").value(), (Infos{{"b/1", 3}, {"b/2", 3}, {"b/x/3", 5}}));
  EXPECT_EQ(store_->list("b").value().size(), 4u);
  EXPECT_EQ(store_->list("b/x/3").value(), (Infos{{"b/x/3", 5}}));
  EXPECT_EQ(store_->list("").value().size(), 5u);
  EXPECT_TRUE(store_->list("none/").value().empty());
}

TEST_P(ObjectStoreTest, IsEmptyAtFirst) { EXPECT_TRUE(store_->list("").value().empty()); }

TEST_P(ObjectStoreTest, RemovesOneObject) {
  ASSERT_TRUE(store_->put("a/1", bytes("1")));
  ASSERT_TRUE(store_->put("a/2", bytes("2")));
  ASSERT_TRUE(store_->remove("a/1"));
  ASSERT_TRUE(store_->remove("a/1"));
  ASSERT_TRUE(store_->remove("a"));
  EXPECT_EQ(store_->list("").value().size(), 1u);
  std::byte into{};
  const auto gone = store_->read("a/1", 0, std::span(&into, 1));
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().code, ErrorCode::kNotFound);
  EXPECT_NE(gone.error().message.find("a/1"), std::string::npos);
}

TEST_P(ObjectStoreTest, RefusesNamesThatLeadElsewhere) {
  std::byte into{};
  constexpr std::string_view kBad[] = {"",   "/",    "/a",     "a/",  "a//b",     ".",
                                       "..", "../a", "a/../b", "a/.", {"a\0b", 3}};
  for (const std::string_view name : kBad) {
    EXPECT_EQ(store_->put(name, bytes("x")).error().code, ErrorCode::kInvalid) << name;
    EXPECT_EQ(store_->read(name, 0, std::span(&into, 1)).error().code, ErrorCode::kInvalid);
    EXPECT_EQ(store_->remove(name).error().code, ErrorCode::kInvalid) << name;
  }
}

TEST_P(ObjectStoreTest, ShowsReadersOldOrNew) {
  const std::string ones(100'000, '1'), twos(100'000, '2');
  ASSERT_TRUE(store_->put("a", bytes(ones)));
  std::thread writer([&] {
    for (int i = 0; i < 20; ++i) EXPECT_TRUE(store_->put("a", bytes(i % 2 == 0 ? twos : ones)));
  });
  for (int i = 0; i < 200; ++i) {
    const std::string seen = read_whole(*store_, "a");
    ASSERT_TRUE(seen == ones || seen == twos);
  }
  writer.join();
}

INSTANTIATE_TEST_SUITE_P(Stores, ObjectStoreTest, ::testing::ValuesIn(kStores),
                         [](const auto& store) { return store.param.name; });

// Breaks every call of a put in every way: the old object or the new one is there, and whole.
TEST(LocalStore, IsWholeOrAbsentWhateverFails) {
  using testing::Fault;
  for (const Fault fault :
       {Fault::kIoError, Fault::kNoSpace, Fault::kShortWrite, Fault::kPowerLoss}) {
    for (const auto crash : {testing::MemoryFiles::Crash::kLosesUnsynced,
                             testing::MemoryFiles::Crash::kTearsUnsynced}) {
      bool failed = true;
      for (std::uint64_t call = 0; failed; ++call) {
        testing::MemoryFiles disk;
        ASSERT_TRUE(disk.create_folders("/root") && disk.sync_folder("/"));
        ASSERT_TRUE(create_local_store(disk, "/root")->put("a/b", bytes("old object")));
        testing::FaultyFiles faulty(disk);
        faulty.fail_at(call, fault);
        const Status status = create_local_store(faulty, "/root")->put("a/b", bytes("new"));
        failed = !status;
        disk.crash(crash);
        const auto store = create_local_store(disk, "/root");
        const std::string seen = read_whole(*store, "a/b");
        EXPECT_TRUE(seen == "new" || (failed && seen == "old object")) << seen << call;
        EXPECT_EQ(store->list("").value().size(), 1u);
      }
    }
  }
}

}  // namespace
}  // namespace muster::storage
