// A control connection whose other host is gone, and one whose other process only does not read.
#include <gtest/gtest.h>
#include <linux/filter.h>

#include <atomic>
#include <thread>

#include "muster/net/testing/bare_door.h"
#include "muster/net/testing/recorder.h"

namespace muster::net {
namespace {

using testing::BareDoor;
using testing::Pair;
using testing::pattern;
using testing::Recorder;
using testing::soon;

FrameHeader heartbeat() {
  FrameHeader header;
  header.kind = kControlFrame;
  return header;
}

// What this host's kernel does without power, or behind a cut link: it takes nothing in.
void drop_all_that_comes(int socket) {
  sock_filter nothing = BPF_STMT(BPF_RET | BPF_K, 0);
  const sock_fprog filter{1, &nothing};
  ASSERT_EQ(::setsockopt(socket, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter), 0);
}

// Without TLS: the other side is a bare socket.
class ControlLink : public ::testing::Test {
 protected:
  ControlLink() {
    NetworkOptions options;
    options.insecure_plaintext = true;
    options.unanswered = std::chrono::milliseconds(500);
    pair_ = std::make_unique<Pair>(options);
    link_ = connect_and_wait(*pair_->client_network, door_.address(), soon()).value();
    there_.emplace(door_.accept());
    link_->start(here_);
  }
  ~ControlLink() override { pair_.reset(); }  // what its loop still calls is this
  // As a member's heart does; until the link is closed, or so often.
  bool beat(int times) {
    for (int i = 0; i < times && !is_closed_; ++i) {
      link_->send(heartbeat(), {},
                  [this](const Status& sent) { is_closed_ = is_closed_ || !sent; });
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    return !is_closed_;
  }

  BareDoor door_;
  std::unique_ptr<Pair> pair_;
  std::shared_ptr<Connection> link_;
  std::shared_ptr<Recorder> here_ = std::make_shared<Recorder>();
  std::optional<asio::ip::tcp::socket> there_;
  std::atomic<bool> is_closed_{false};
};

TEST_F(ControlLink, EndsWhereTheHostThereIsGoneThoughDataIsUnderWay) {
  drop_all_that_comes(there_->native_handle());
  EXPECT_FALSE(beat(2400)) << "its kernel would go on for a quarter of an hour";
  const auto why = here_->wait_closed();
  ASSERT_TRUE(why);
  EXPECT_EQ(why->code, ErrorCode::kPeerLost);
  EXPECT_NE(why->message.find("its host has answered nothing"), std::string::npos) << why->message;
}

// A launcher that is stopped reads nothing, and its host lives.
TEST_F(ControlLink, OutlivesAPeerThatOnlyDoesNotRead) {
  const auto much = pattern(16u << 20, 1);
  FrameHeader of_a_tensor;
  of_a_tensor.kind = kFirstCommFrame;
  link_->send(of_a_tensor, {much}, [](const Status&) {});
  EXPECT_TRUE(beat(20));
  std::uint64_t left = much.size() + 21 * kHeaderBytes;
  std::vector<std::byte> bytes(1u << 20);
  asio::error_code error;
  while (left > 0 && !error) left -= there_->read_some(asio::buffer(bytes), error);
  EXPECT_EQ(left, 0U) << error.message();
}

}  // namespace
}  // namespace muster::net
