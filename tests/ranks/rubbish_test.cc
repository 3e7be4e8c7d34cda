// What another member says is not trusted: rubbish in any place ends in an error that names who
// said it, and never takes this rank down.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "muster/comm/backend/native/native.h"
#include "muster/comm/backend/native/tcp_shared.h"
#include "muster/net/credentials.h"
#include "muster/net/network.h"

namespace muster::comm {
namespace {

using ::testing::HasSubstr;
using Answers = std::vector<std::string>;

constexpr Duration kLongest = std::chrono::seconds(10);
constexpr Generation kAge{5};

// Takes whatever comes.
class Taker final : public net::Receiver {
 public:
  Result<std::optional<std::span<std::byte>>> on_header(const net::FrameHeader& header) override {
    payload_.resize(header.length);
    return std::optional(std::span(payload_));
  }
  void on_frame(const net::FrameHeader&) override {}
  void on_close(const Error&) override {}

 private:
  std::vector<std::byte> payload_;
};

// One real rank; the test plays all others.
class Rubbish : public ::testing::Test {
 protected:
  ~Rubbish() override { loop_->stop(); }

  // `answer`: to the rank's exchanges, from 0: transports, addresses, outcomes; without `costs`
  // also what links cost.
  Result<std::shared_ptr<Communicator>> join(
      Group group, const std::function<Answers(int round, const std::string& mine)>& answer,
      std::optional<CostTable> costs = default_costs(Wire::kTcp)) {
    NativeOptions options;
    options.group = group;
    options.costs = costs;
    options.transport = NativeTransport::kTcp;
    options.network = network_.get();
    options.connect_timeout = kLongest;
    options.exchange = [&answer, round = 0](const std::string& mine,
                                            Deadline) mutable -> Result<Answers> {
      return answer(round++, mine);
    };
    return create_native(options);
  }

  // Rank 0 of two; rank 1 has said hello.
  Result<std::shared_ptr<Communicator>> meet() {
    return join({Rank{0}, 2, kAge}, [this](int round, const std::string& mine) {
      if (round == 0) return Answers{mine, mine};
      if (round == 2) return Answers{mine, mine};
      say_hello(mine);
      return Answers{mine, "127.0.0.1:1 0"};
    });
  }

  void say_hello(const std::string& first) {
    const auto space = first.find(' ');
    const auto address = net::parse_address(first.substr(0, space)).value();
    const auto deadline = Deadline::after(system_clock(), kLongest);
    peer_ = net::connect_and_wait(*network_, address, deadline).value();
    peer_->start(std::make_shared<Taker>());
    context_ = static_cast<std::uint32_t>(std::stoul(first.substr(space + 1)));
    send(kHello, 0, 0, 0);
  }

  // As rank 1.
  void send(net::FrameKind kind, std::uint32_t tag, std::uint32_t sequence, std::size_t length) {
    net::FrameHeader header;
    header.kind = kind;
    header.generation = kAge;
    header.sender = Rank{1};
    header.context = context_;
    header.tag = tag;
    header.sequence = sequence;
    peer_->send(header, std::vector<std::byte>(length, std::byte{0xA5}));
  }

  const net::Credentials credentials_ = net::create_credentials(system_clock().wall()).value();
  const std::unique_ptr<net::SystemLoop> loop_ = net::create_loop("rubbish", create_null_logger());
  const std::unique_ptr<net::Network> network_ =
      net::create_network(*loop_, credentials_, {}, create_null_logger()).value();
  std::shared_ptr<net::Connection> peer_;
  std::uint32_t context_ = 0;
};

const std::string kTexts[] = {"x",
                              " ",
                              "x y",
                              "127.0.0.1:1",
                              "127.0.0.1:1 ",
                              "127.0.0.1:1 x",
                              "127.0.0.1:1 7x",
                              "127.0.0.1:1 -1",
                              "127.0.0.1:1 4294967296",
                              "127.0.0.1:1 99999999999999999999",
                              "1 2",
                              "-2 x",
                              "+0 x",
                              "0x0 y",
                              "2147483648 x",
                              "99999999999999999999 x",
                              std::string("\0 \xff\n", 4)};

TEST_F(Rubbish, InPlaceOfAnAddressNamesWhoSaidIt) {
  const auto holds = [this](const std::string& text) {
    const auto world = join({Rank{1}, 2, kAge}, [&](int round, const std::string& mine) {
      return round == 0 ? Answers{mine, mine} : Answers{round == 1 ? text : std::string(), mine};
    });
    return !world && world.error().peer == Rank{0} && !world.error().message.empty();
  };
  EXPECT_TRUE(holds(""));
  for (const std::string& text : kTexts) EXPECT_TRUE(holds(text)) << text;
  EXPECT_TRUE(rc::check([&](const std::string& text) { RC_ASSERT(holds(text)); }));
}

TEST_F(Rubbish, InPlaceOfAnOutcomeNamesWhoSaidIt) {
  const auto holds = [this](const std::string& text) {
    const auto world = join({Rank{0}, 1, kAge}, [&](int round, const std::string& mine) {
      return Answers{round == 2 ? text : mine};
    });
    return !world && world.error().peer == Rank{0} && !world.error().message.empty();
  };
  for (const std::string& text : kTexts) EXPECT_TRUE(holds(text)) << text;
  EXPECT_TRUE(rc::check([&](const std::string& text) { RC_ASSERT(text == "+" || holds(text)); }));
}

TEST_F(Rubbish, InPlaceOfCostsNamesWhoSaidIt) {
  const auto holds = [this](const std::string& text) {
    const auto world = join(
        {Rank{0}, 1, kAge},
        [&](int round, const std::string& mine) { return Answers{round == 3 ? text : mine}; }, {});
    return !world && world.error().peer == Rank{0} && !world.error().message.empty();
  };
  for (const std::string& text : kTexts) EXPECT_TRUE(holds(text)) << text;
  for (const std::string text : {"+", "+1,2,3", "+1,2,3,4,5,6,inf", "+1,2,3,4,5,6,7 "})
    EXPECT_TRUE(holds(text)) << text;
}

TEST_F(Rubbish, InNewsOfAFailureIsRefused) {
  struct News {
    std::uint32_t code;
    std::uint32_t culprit;
  };
  constexpr auto kBeyond = static_cast<std::uint32_t>(ErrorCode::kInternal) + 1;
  for (const auto& [code, culprit] : {News{kBeyond, 0}, News{0xFFFFFFFF, 0}, News{0, 2},
                                      News{0, 0x7FFFFFFF}, News{0, 0xFFFFFFFE}}) {
    const auto world = meet();
    ASSERT_TRUE(world) << world.error().message;
    send(kFailure, code, culprit, 3);
    const Status status = (*world)->submit(Barrier{}, {}).wait();
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, ErrorCode::kPeerLost);
    EXPECT_EQ(status.error().peer, Rank{1});
    EXPECT_THAT(status.error().message, HasSubstr("refused a frame of kind"));
  }
}

// A message of two frames, of which the second one comes too late. It is no message of its own.
TEST_F(Rubbish, TheRestOfALateMessageIsNotTakenForTheNextOne) {
  constexpr std::size_t kFrame = std::size_t{4} << 20;
  const auto world = meet();
  ASSERT_TRUE(world) << world.error().message;
  send(kMessage, 7, 0, kFrame);
  send(kMessage, 8, 0, 1);
  std::vector<std::uint8_t> bytes(kFrame + 100);
  const auto receive = [&](std::size_t length, std::uint32_t tag, Duration timeout) {
    OpOptions options;
    options.timeout = timeout;
    const TensorView view = view_of(std::span(bytes).first(length));
    return (*world)->submit(Recv{view, Rank{1}, tag}, options).wait();
  };
  ASSERT_TRUE(receive(1, 8, kLongest));  // what was sent before it has come as well
  const Status late = receive(bytes.size(), 7, std::chrono::milliseconds(1));
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, ErrorCode::kTimeout);
  EXPECT_EQ(late.error().peer, Rank{1});
  const Status next = receive(kFrame, 7, kLongest);
  ASSERT_FALSE(next);
  EXPECT_EQ(next.error(), late.error());
}

TEST_F(Rubbish, InAnyFrameEndsAtMostItsConnection) {
  EXPECT_TRUE(rc::check([this] {
    const auto world = meet();
    RC_ASSERT(world.has_value());
    for (int frames = *rc::gen::inRange(1, 4); frames > 0; --frames) {
      const auto kind =
          static_cast<net::FrameKind>(*rc::gen::inRange<int>(kHello, kLastTcpFrame + 2));
      send(kind, *rc::gen::arbitrary<std::uint32_t>(), *rc::gen::arbitrary<std::uint32_t>(),
           *rc::gen::inRange<std::size_t>(0, 300));
    }
    peer_->finish(Deadline::after(system_clock(), kLongest));
    RC_ASSERT(!(*world)->submit(Barrier{}, {}).wait());
  }));
}

}  // namespace
}  // namespace muster::comm
