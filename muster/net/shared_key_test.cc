#include "muster/net/shared_key.h"

#include <gtest/gtest.h>

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <future>

#include "muster/net/testing/bare_door.h"
#include "muster/net/testing/recorder.h"

namespace muster::net {
namespace {

using asio::ip::tcp;
using testing::BareDoor;
using testing::Pair;
using testing::soon;

TEST(SharedKey, IsThatOfTheCredentials) {
  const Credentials credentials = create_credentials(system_clock().wall()).value();
  const SharedKey key = derive_shared_key(credentials).value();
  const SharedKey again =
      derive_shared_key(credentials_from_text(to_text(credentials)).value()).value();
  EXPECT_EQ(key.identity, again.identity);
  EXPECT_EQ(key.secret, again.secret);
  const SharedKey other =
      derive_shared_key(create_credentials(system_clock().wall()).value()).value();
  EXPECT_NE(key.identity, other.identity);
  EXPECT_NE(key.secret, other.secret);
}

// One side of a connection that has a pre-shared key and no certificate.
class KeyHolder {
 public:
  KeyHolder(const SharedKey& key, tcp::socket& socket)
      : proof_(key, [] { return true; }), context_(SSL_CTX_new(TLS_method())) {
    EXPECT_TRUE(proof_.use_in(*context_));
    const timeval patience{
        std::chrono::duration_cast<std::chrono::seconds>(muster::testing::kHang).count(), 0};
    ::setsockopt(socket.native_handle(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    stream_.reset(SSL_new(context_.get()));
    SSL_set_fd(stream_.get(), socket.native_handle());
  }

  bool connect() { return SSL_connect(stream_.get()) == 1; }
  bool accept() { return SSL_accept(stream_.get()) == 1; }
  // With certificates the server's refusal arrives after the client's part is done.
  bool is_turned_away() {
    char byte = 0;
    if (!connect()) return true;
    const int count = SSL_read(stream_.get(), &byte, 1);
    return count <= 0 && SSL_get_error(stream_.get(), count) != SSL_ERROR_WANT_READ;
  }
  bool has_agreed_by_key() { return SSL_session_reused(stream_.get()) == 1; }

 private:
  SharedKeyProof proof_;
  std::unique_ptr<SSL_CTX, Free<SSL_CTX_free>> context_;
  std::unique_ptr<SSL, Free<SSL_free>> stream_;
};

class SharedKeyHandshake : public ::testing::Test {
 protected:
  tcp::socket connected() {
    tcp::socket socket(context_);
    const Address& at = pair_.listener->address();
    socket.connect(tcp::endpoint(asio::ip::make_address(at.host), at.port));
    return socket;
  }
  std::uint64_t refused() {
    EXPECT_TRUE(run_and_wait(
        *pair_.server_loop, [] {}, soon()));
    return pair_.server_network->counters().handshakes_refused;
  }

  asio::io_context context_;
  Pair pair_{NetworkOptions{}};
  SharedKey key_ = derive_shared_key(pair_.credentials).value();
};

TEST_F(SharedKeyHandshake, LetsInWhoHasTheKeyAlone) {
  tcp::socket socket = connected();
  KeyHolder member(key_, socket);
  EXPECT_TRUE(member.connect());
  EXPECT_TRUE(member.has_agreed_by_key());
  EXPECT_EQ(refused(), 0U);
}

TEST_F(SharedKeyHandshake, IsWhatMembersOffer) {
  BareDoor door;
  std::promise<Result<std::shared_ptr<Connection>>> outcome;
  pair_.client_network->connect(door.address(), soon(),
                                [&](auto result) { outcome.set_value(std::move(result)); });
  tcp::socket socket = door.accept();
  KeyHolder listener(key_, socket);
  EXPECT_TRUE(listener.accept());
  EXPECT_TRUE(listener.has_agreed_by_key());
  const auto result = outcome.get_future().get();
  EXPECT_TRUE(result) << result.error().message;
}

TEST_F(SharedKeyHandshake, RefusesAnotherKeyOfTheSameName) {
  SharedKey wrong = key_;
  wrong.secret[0] ^= 1;
  tcp::socket socket = connected();
  KeyHolder stranger(wrong, socket);
  EXPECT_TRUE(stranger.is_turned_away());
  EXPECT_EQ(refused(), 1U);
}

TEST_F(SharedKeyHandshake, AsksWhoHasAnotherKeyForTheCertificate) {
  const Credentials other = create_credentials(system_clock().wall()).value();
  tcp::socket socket = connected();
  KeyHolder stranger(derive_shared_key(other).value(), socket);
  EXPECT_TRUE(stranger.is_turned_away());
  EXPECT_FALSE(stranger.has_agreed_by_key());
  EXPECT_EQ(refused(), 1U);
}

}  // namespace
}  // namespace muster::net
