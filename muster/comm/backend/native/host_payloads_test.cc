#include "muster/comm/backend/native/host_payloads.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace muster::comm {
namespace {

constexpr std::size_t kLarge = std::size_t{1} << 20;

std::vector<std::byte> filled(std::size_t bytes, int with) {
  return std::vector<std::byte>(bytes, static_cast<std::byte>(with));
}

struct Pair {
  std::shared_ptr<HostPayloads> sender = HostPayloads::create().value();
  std::shared_ptr<HostPayloads> receiver = HostPayloads::open(sender->address()).value();
};

TEST(HostPayloads, ComeOutAsTheyWentIn) {
  const Pair pair;
  for (const std::size_t bytes : {std::size_t{16} << 10, kLarge + 1, std::size_t{4} << 20}) {
    const auto sent = filled(bytes, 7);
    const auto place = pair.sender->put(sent);
    ASSERT_TRUE(place);
    const auto arrived = pair.receiver->take(*place);
    ASSERT_TRUE(arrived) << arrived.error().message;
    EXPECT_TRUE(std::ranges::equal(arrived->bytes, sent));
  }
}

TEST(HostPayloads, TakeTheOtherWayWhatIsSmallOrTooLong) {
  const Pair pair;
  EXPECT_FALSE(pair.sender->put({}));
  EXPECT_FALSE(pair.sender->put(filled((std::size_t{16} << 10) - 1, 1)));
  EXPECT_FALSE(pair.sender->put(filled((std::size_t{4} << 20) + 1, 1)));
}

TEST(HostPayloads, HaveAPlaceAgainOnceTheReaderIsDone) {
  const Pair pair;
  std::vector<PayloadPlace> places;
  while (const auto place = pair.sender->put(filled(kLarge, static_cast<int>(places.size()))))
    places.push_back(*place);
  ASSERT_GT(places.size(), 1U);
  {
    const auto arrived = pair.receiver->take(places[1]);
    ASSERT_TRUE(arrived);
    EXPECT_EQ(arrived->bytes[0], std::byte{1});
    EXPECT_FALSE(pair.sender->put(filled(kLarge, 9))) << "it is still being read";
  }
  const auto again = pair.sender->put(filled(kLarge, 9));
  ASSERT_TRUE(again);
  EXPECT_EQ(again->place, places[1].place);
}

TEST(HostPayloads, AreNotFoundWhereNoneWerePut) {
  const Pair pair;
  const auto place = pair.sender->put(filled(kLarge, 1)).value();
  const auto refused = [&](const PayloadPlace& where) {
    const auto arrived = pair.receiver->take(where);
    return !arrived && arrived.error().code == ErrorCode::kInvalid;
  };
  EXPECT_TRUE(refused({place.place + 1, 0, kLarge}));
  EXPECT_TRUE(refused({0xFFFFFFFF, 0, kLarge}));
  EXPECT_TRUE(refused({place.place, 0, ~std::uint64_t{0}}));
  EXPECT_TRUE(pair.receiver->take(place));
  EXPECT_TRUE(refused(place)) << "it has been read";
}

TEST(HostPayloads, AreNotReadFromAnotherMemory) {
  const auto sender = HostPayloads::create().value();
  const auto cannot_open = [](MemoryAddress address) {
    const auto opened = HostPayloads::open(address);
    return !opened && opened.error().code == ErrorCode::kUnavailable;
  };
  MemoryAddress address = sender->address();
  ++address.token;
  EXPECT_TRUE(cannot_open(address));
  address.descriptor = 0;  // no memory, or none that cannot shrink
  EXPECT_TRUE(cannot_open(address));
  const auto small = SharedMemory::create(4096).value();
  EXPECT_TRUE(cannot_open({own_pid(), small->descriptor(), 0}));
}

}  // namespace
}  // namespace muster::comm
