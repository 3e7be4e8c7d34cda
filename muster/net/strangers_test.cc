// Who is not let in: each kind of stranger is refused, counted and logged, and nobody else notices.
#include <gtest/gtest.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>

#include <asio/connect.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/read.hpp>
#include <asio/write.hpp>
#include <condition_variable>
#include <future>
#include <mutex>

#include "muster/net/testing/recorder.h"

namespace muster::net {
namespace {

using asio::ip::tcp;
using testing::Pair;
using testing::pattern;
using testing::soon;

// Nobody is turned away for being slow.
NetworkOptions patient() {
  NetworkOptions options;
  options.handshake_timeout = muster::testing::kHang;
  return options;
}

void set_patience(int socket, Duration most) {
  const timeval patience{std::chrono::duration_cast<std::chrono::seconds>(most).count(), 0};
  ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
}

// A TCP connection to the pair's listener, without any manners.
class RawPeer {
 public:
  explicit RawPeer(const Address& address) : socket_(context_) {
    socket_.connect(tcp::endpoint(asio::ip::make_address(address.host), address.port));
  }
  void write(std::span<const std::byte> bytes) {
    asio::error_code ignored;
    asio::write(socket_, asio::buffer(bytes.data(), bytes.size()), ignored);
  }
  // Until the other side closes; false when it does not.
  bool closed_by_peer() {
    set_patience(socket_.native_handle(), muster::testing::kHang);
    std::array<std::byte, 4096> bytes;
    for (;;) {
      const auto count = ::recv(socket_.native_handle(), bytes.data(), bytes.size(), 0);
      if (count == 0 || (count < 0 && errno == ECONNRESET)) return true;
      if (count < 0) return false;
    }
  }
  int fd() { return socket_.native_handle(); }

 private:
  asio::io_context context_;
  tcp::socket socket_;
};

// A TLS client as a stranger writes it.
class TlsStranger {
 public:
  TlsStranger(const Address& address, int version, const Credentials* credentials)
      : peer_(address), context_(SSL_CTX_new(TLS_client_method())) {
    SSL_CTX_set_max_proto_version(context_, version);
    if (credentials != nullptr) show(*credentials);
    ssl_ = SSL_new(context_);
    SSL_set_fd(ssl_, peer_.fd());
    has_connected_ = SSL_connect(ssl_) == 1;
  }
  ~TlsStranger() {
    SSL_free(ssl_);
    SSL_CTX_free(context_);
  }
  TlsStranger(const TlsStranger&) = delete;
  TlsStranger& operator=(const TlsStranger&) = delete;

  bool has_connected() const noexcept { return has_connected_; }
  // With TLS 1.3 the server's refusal arrives after the client's part is done.
  bool is_turned_away() {
    if (!has_connected_) return true;
    set_patience(peer_.fd(), muster::testing::kHang);
    char byte = 0;
    const int count = SSL_read(ssl_, &byte, 1);
    return count <= 0 && SSL_get_error(ssl_, count) != SSL_ERROR_WANT_READ;
  }

 private:
  void show(const Credentials& credentials) {
    const auto& pem = credentials.certificate_pem();
    BIO* bio = BIO_new_mem_buf(pem.data(), -1);
    X509* certificate = PEM_read_bio_X509(bio, nullptr, nullptr, nullptr);
    BIO* key_bio = BIO_new_mem_buf(credentials.private_key_pem().data(), -1);
    EVP_PKEY* key = PEM_read_bio_PrivateKey(key_bio, nullptr, nullptr, nullptr);
    EXPECT_EQ(SSL_CTX_use_certificate(context_, certificate), 1);
    EXPECT_EQ(SSL_CTX_use_PrivateKey(context_, key), 1);
    X509_free(certificate);
    EVP_PKEY_free(key);
    BIO_free(bio);
    BIO_free(key_bio);
  }

  RawPeer peer_;
  SSL_CTX* context_;
  SSL* ssl_ = nullptr;
  bool has_connected_ = false;
};

class Strangers : public ::testing::Test {
 protected:
  // The connection of the members still works, and exactly `strangers` were turned away.
  void expect_unaffected(std::uint64_t strangers) {
    // The refusal reaches the stranger from inside the task that counts it.
    ASSERT_TRUE(run_and_wait(
        *pair_.server_loop, [] {}, soon()));
    EXPECT_EQ(pair_.server_network->counters().handshakes_refused, strangers);
    EXPECT_EQ(pair_.server_log->last_raw().size(), strangers);
    FrameHeader header;
    header.kind = kFirstCommFrame;
    pair_.client->send(header, pattern(1000, 1));
    EXPECT_EQ(pair_.at_server->wait_frames(1).size(), 1u);
    EXPECT_TRUE(connect_and_wait(*pair_.client_network, pair_.listener->address(), soon()));
  }
  const Address& address() { return pair_.listener->address(); }

  Pair pair_{patient()};
};

TEST_F(Strangers, WithTheCertificateOfAnotherJob) {
  const auto other = create_credentials(system_clock().wall()).value();
  const auto loop = create_loop("stranger", create_null_logger());
  const auto network = create_network(*loop, other, {}, create_null_logger()).value();
  const auto result = connect_and_wait(*network, address(), soon());
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kInvalid);
  TlsStranger raw(address(), TLS1_3_VERSION, &other);
  EXPECT_TRUE(raw.is_turned_away());
  expect_unaffected(2);
}

TEST_F(Strangers, WithoutACertificate) {
  TlsStranger raw(address(), TLS1_3_VERSION, nullptr);
  EXPECT_TRUE(raw.is_turned_away());
  expect_unaffected(1);
}

TEST_F(Strangers, WithAnOldProtocol) {
  TlsStranger raw(address(), TLS1_2_VERSION, &pair_.credentials);
  EXPECT_TRUE(raw.is_turned_away());
  expect_unaffected(1);
}

// One that does not ask to be told that it is in, as a muster of before, is not told.
TEST_F(Strangers, TheRightCertificateIsLetIn) {  // the test's own client is not the reason above
  std::promise<std::shared_ptr<Connection>> let_in;
  auto accepted = let_in.get_future();
  const auto listener = pair_.server_network
                            ->listen({"127.0.0.1", 0},
                                     [&let_in](std::shared_ptr<Connection> connection) {
                                       let_in.set_value(std::move(connection));
                                     })
                            .value();
  const TlsStranger raw(listener->address(), TLS1_3_VERSION, &pair_.credentials);
  EXPECT_TRUE(raw.has_connected());
  EXPECT_EQ(accepted.wait_until(soon().at()), std::future_status::ready);
}

TEST_F(Strangers, InPlainText) {
  RawPeer raw(address());
  raw.write(encode_header(FrameHeader{.kind = 1, .job = pair_.credentials.job()}));
  EXPECT_TRUE(raw.closed_by_peer());
  expect_unaffected(1);
}

// Where members are given the time that they need: this listener is the strangers' own.
TEST_F(Strangers, WhoSaysNothing) {
  NetworkOptions hasty;
  hasty.handshake_timeout = std::chrono::seconds(1);
  const auto loop = create_loop("hasty", create_null_logger());
  const auto network =
      create_network(*loop, pair_.credentials, hasty, create_null_logger()).value();
  const auto listener = network->listen({"127.0.0.1", 0}, [](auto) { FAIL(); }).value();
  RawPeer silent(listener->address());
  RawPeer slow(listener->address());
  slow.write(std::vector<std::byte>{std::byte{0x16}});
  EXPECT_TRUE(silent.closed_by_peer());
  EXPECT_TRUE(slow.closed_by_peer());
  ASSERT_TRUE(run_and_wait(
      *loop, [] {}, soon()));  // the task that closed the last one has counted it
  EXPECT_EQ(network->counters().handshakes_refused, 2U);
}

TEST(StrangersInNumbers, CrowdOutEachOtherOnly) {
  NetworkOptions options = patient();
  options.max_handshakes = 8;
  Pair pair(options);
  std::vector<std::unique_ptr<RawPeer>> crowd;
  for (int i = 0; i < 40; ++i) crowd.push_back(std::make_unique<RawPeer>(pair.listener->address()));
  EXPECT_TRUE(crowd.front()->closed_by_peer());
  EXPECT_TRUE(connect_and_wait(*pair.client_network, pair.listener->address(), soon()));
}

// As the workers of many hosts that are started by one command: nobody is taken for a stranger who
// crowds the others out, and nobody has to come again.
TEST(StrangersInNumbers, MembersWhoComeAllAtOnceWaitForEachOther) {
  NetworkOptions options = patient();
  options.max_handshakes = 4;
  options.fair_time = muster::testing::kHang;
  Pair pair(options);
  constexpr int kMany = 200;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::shared_ptr<Connection>> connected;
  int ended = 0;
  for (int i = 0; i < kMany; ++i)
    pair.client_network->connect(pair.listener->address(), soon(), [&](auto result) {
      const std::lock_guard lock(mutex);
      ++ended;
      EXPECT_TRUE(result) << result.error().message;
      if (result) connected.push_back(*result);
      changed.notify_all();
    });
  std::unique_lock lock(mutex);
  ASSERT_TRUE(changed.wait_until(lock, soon().at(), [&] { return ended == kMany; }));
  EXPECT_EQ(connected.size(), static_cast<std::size_t>(kMany));
  EXPECT_EQ(pair.server_network->counters().handshakes_refused.load(), 0U);
}

// With the options of a job: before the process has no descriptor left.
TEST(StrangersInNumbers, CrowdOutEachOtherWellBeforeTheDescriptorsRunOut) {
  Pair pair(patient());
  std::vector<std::unique_ptr<RawPeer>> crowd;
  for (int i = 0; i < 300; ++i)
    crowd.push_back(std::make_unique<RawPeer>(pair.listener->address()));
  EXPECT_TRUE(crowd.front()->closed_by_peer());
  EXPECT_TRUE(connect_and_wait(*pair.client_network, pair.listener->address(), soon()));
}

// Against the clock that the certificate was made by, as one of another host may be.
class OtherClock : public Clock {
 public:
  explicit OtherClock(Duration ahead) : ahead_(ahead) {}
  TimePoint now() const noexcept override { return system_clock().now(); }
  WallTime wall() const noexcept override { return system_clock().wall() + ahead_; }
  bool wait_until(std::unique_lock<std::mutex>& lock, std::condition_variable& condition,
                  TimePoint until) override {
    return system_clock().wait_until(lock, condition, until);
  }

 private:
  Duration ahead_;
};

constexpr auto kTenYears = std::chrono::hours(24 * 3650);

TEST(StrangersInTime, AnExpiredCertificateIsRefused) {
  OtherClock later(kTenYears);
  const auto credentials = create_credentials(system_clock().wall()).value();
  const auto loop = create_loop("later", create_null_logger(), later);
  const auto network = create_network(*loop, credentials, {}, create_null_logger()).value();
  const auto listener = network->listen({"127.0.0.1", 0}, [](auto) { FAIL(); }).value();
  const auto result = connect_and_wait(*network, listener->address(), soon());
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kInvalid);
  const auto says =
      "has expired by this host's clock, which says " + format_utc(later.wall()).substr(0, 4);
  EXPECT_NE(result.error().message.find(says), std::string::npos) << result.error().message;
}

// A launcher's clock may be ahead of the others', or be set back after it has begun.
TEST(StrangersInTime, AClockThatIsBehindIsNoStranger) {
  const Pair pair{NetworkOptions{}};
  for (const Duration behind : {Duration(std::chrono::hours(2)), Duration(kTenYears)}) {
    OtherClock earlier(-behind);
    const auto loop = create_loop("earlier", create_null_logger(), earlier);
    const auto network = create_network(*loop, pair.credentials, {}, create_null_logger()).value();
    const auto result = connect_and_wait(*network, pair.listener->address(), soon());
    EXPECT_TRUE(result) << result.error().message;
    loop->stop();
  }
}

TEST(StrangersInTime, OneWhoseClockIsWrongIsToldOfIt) {
  const Pair pair{NetworkOptions{}};
  OtherClock later(kTenYears);
  const auto loop = create_loop("later", create_null_logger(), later);
  const auto network = create_network(*loop, pair.credentials, {}, create_null_logger()).value();
  const auto listener = network->listen({"127.0.0.1", 0}, [](auto) { FAIL(); }).value();
  const auto result = connect_and_wait(*pair.client_network, listener->address(), soon());
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kInvalid);
  const std::string& why = result.error().message;
  EXPECT_NE(why.find("by the clock of its host"), std::string::npos) << why;
  loop->stop();
}

// Past the handshake only a broken member can send these; in plain text anybody.
class Malformed : public ::testing::Test {
 protected:
  Malformed() {
    NetworkOptions options;
    options.insecure_plaintext = true;
    pair_ = std::make_unique<Pair>(options);
    listener_ = pair_->server_network
                    ->listen({"127.0.0.1", 0},
                             [this](std::shared_ptr<Connection> connection) {
                               connection->start(at_server_);
                               connections_.push_back(std::move(connection));
                             })
                    .value();
  }
  ~Malformed() override { pair_.reset(); }

  std::shared_ptr<testing::Recorder> at_server_ = std::make_shared<testing::Recorder>();
  std::vector<std::shared_ptr<Connection>> connections_;
  std::unique_ptr<Pair> pair_;
  std::unique_ptr<Listener> listener_;
};

TEST_F(Malformed, GarbageEndsTheConnection) {
  RawPeer raw(listener_->address());
  raw.write(pattern(100'000, 3));
  const auto why = at_server_->wait_closed();
  ASSERT_TRUE(why);
  EXPECT_EQ(why->code, ErrorCode::kCorrupt);
  EXPECT_EQ(pair_->server_network->counters().malformed, 1u);
  EXPECT_EQ(pair_->server_log->last_raw().size(), 1u);
}

TEST_F(Malformed, AFrameOfAnotherJobEndsTheConnection) {
  RawPeer raw(listener_->address());
  raw.write(encode_header(FrameHeader{.kind = 1, .job = pair_->credentials.job() + 1}));
  const auto why = at_server_->wait_closed();
  ASSERT_TRUE(why);
  EXPECT_EQ(why->code, ErrorCode::kInvalid);
  EXPECT_EQ(pair_->server_network->counters().wrong_job, 1u);
  EXPECT_EQ(pair_->server_log->last_raw().size(), 1u);
}

TEST_F(Malformed, AFrameCutShortIsAPeerLost) {
  RawPeer raw(listener_->address());
  raw.write(encode_header(FrameHeader{.kind = 1, .job = pair_->credentials.job(), .length = 10}));
  raw.write(pattern(9, 1));
  ::shutdown(raw.fd(), SHUT_WR);
  const auto why = at_server_->wait_closed();
  ASSERT_TRUE(why);
  EXPECT_EQ(why->code, ErrorCode::kPeerLost);
  EXPECT_TRUE(at_server_->frames().empty());
}

}  // namespace
}  // namespace muster::net
