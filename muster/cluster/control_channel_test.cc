// What goes out by send_message comes in at a receiver; nothing is between them.
#include "muster/cluster/control_channel.h"

#include <gmock/gmock.h>

#include <cstring>
#include <optional>
#include <string>
#include <vector>

namespace muster::cluster {
namespace {

using ::testing::HasSubstr;

struct SentFrame {
  net::FrameHeader header;
  net::Bytes payload;
  const std::byte* from;  // where the bytes were
};

class KeepingConnection final : public net::Connection {
 public:
  void start(std::shared_ptr<net::Receiver>) override {}
  void send(const net::FrameHeader& header, std::vector<std::span<const std::byte>> pieces,
            net::SendDone done) override {
    SentFrame frame{header, {}, pieces.front().data()};
    for (const auto& piece : pieces)
      frame.payload.insert(frame.payload.end(), piece.begin(), piece.end());
    frame.header.length = frame.payload.size();
    frames.push_back(std::move(frame));
    done(ok());
  }
  void receive_into(std::span<std::byte>) override {}
  void refuse_before(Generation) override {}
  void close(Error) noexcept override {}
  void finish(Deadline) override {}
  const net::Address& peer() const noexcept override { return peer_; }

  std::vector<SentFrame> frames;

 private:
  net::Address peer_;
};

class ControlChannelTest : public ::testing::Test {
 protected:
  Welcome welcome(std::int32_t rank) const { return {Generation{3}, Rank{rank}, members_, true}; }

  void receive(const std::vector<SentFrame>& frames) {
    for (const SentFrame& frame : frames) {
      const auto place = receiver_->on_header(frame.header).value();
      std::memcpy(place->data(), frame.payload.data(), frame.payload.size());
      receiver_->on_frame(frame.header);
    }
  }

  MemberList members_{{Rank{0}, {5, "a", "boot", 1, ""}}, {Rank{1}, {2, "b", "boot", 2, ""}}};
  KeepingConnection connection_;
  std::optional<Message> message_;
  std::optional<Error> bad_;
  std::shared_ptr<net::Receiver> receiver_ =
      create_control_receiver({[this](const Message& message) { message_ = message; },
                               [this](const Error& why) { bad_ = why; }, [](const Error&) {}});
};

TEST_F(ControlChannelTest, AWelcomeBringsItsMembers) {
  send_message(connection_, welcome(1));
  receive(connection_.frames);
  ASSERT_TRUE(message_);
  const auto& got = std::get<Welcome>(*message_);
  EXPECT_EQ(got.generation, Generation{3});
  EXPECT_EQ(got.rank, Rank{1});
  EXPECT_EQ(got.members, members_);
  EXPECT_TRUE(got.planned);
}

TEST_F(ControlChannelTest, AllAreSentTheSameBytesOfTheList) {
  send_message(connection_, welcome(0));
  send_message(connection_, welcome(1));
  ASSERT_EQ(connection_.frames.size(), 4U);
  EXPECT_EQ(connection_.frames[0].header.kind, kMembersFrame);
  EXPECT_EQ(connection_.frames[0].from, connection_.frames[2].from);
}

TEST_F(ControlChannelTest, ARankThatIsNoMembersIsRefused) {
  send_message(connection_, welcome(2));
  receive(connection_.frames);
  EXPECT_FALSE(message_);
  ASSERT_TRUE(bad_);
  EXPECT_THAT(bad_->message, HasSubstr("rank 2 among 2 members"));
}

TEST_F(ControlChannelTest, AListServesOneWelcome) {
  send_message(connection_, welcome(1));
  receive(connection_.frames);
  message_.reset();
  receive({connection_.frames[1]});
  EXPECT_FALSE(message_) << "a welcome without its list";
  EXPECT_TRUE(bad_);
}

// Each time the members of before are known on both sides.
TEST_F(ControlChannelTest, WhoWasToldOfOneGenerationIsToldWhatIsNewInTheNext) {
  MemberList told;
  std::vector<MemberInfo> members;
  std::vector<std::size_t> sizes;
  for (std::int32_t worker = 0; worker < 50; ++worker) {
    const std::string host = "host" + std::to_string(worker * worker);
    members.push_back({Rank{worker}, {worker, host, "boot of " + host, 1 + worker, host + ":1"}});
    if (worker < 40) continue;
    connection_.frames.clear();
    const Welcome next{Generation{static_cast<std::uint64_t>(worker)}, Rank{1}, members, true};
    send_message(connection_, next, kNoRank, &told);
    sizes.push_back(connection_.frames[0].payload.size());
    receive(connection_.frames);
    ASSERT_FALSE(bad_) << bad_->message;
    EXPECT_EQ(std::get<Welcome>(*message_).members.list(), members);
    EXPECT_EQ(told.list(), members);
  }
  EXPECT_GT(sizes.front(), 1000U) << "all of them";
  for (std::size_t i = 1; i < sizes.size(); ++i) EXPECT_LT(sizes[i], 250U);
}

TEST_F(ControlChannelTest, ADamagedListIsABadMessage) {
  send_message(connection_, welcome(1));
  connection_.frames[0].payload.back() = std::byte{0xff};
  receive({connection_.frames[0]});
  EXPECT_TRUE(bad_);
}

}  // namespace
}  // namespace muster::cluster
