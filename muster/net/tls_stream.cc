#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "muster/net/openssl_handle.h"
#include "muster/net/openssl_text.h"
#include "muster/net/shared_key.h"
#include "muster/net/stream.h"

namespace muster::net {
namespace {

using SslContext = std::unique_ptr<SSL_CTX, Free<SSL_CTX_free>>;
using Ssl = std::unique_ptr<SSL, Free<SSL_free>>;
using BioMethod = std::unique_ptr<BIO_METHOD, Free<BIO_meth_free>>;

// Hardware AES first; the other where a processor has none.
constexpr const char* kCipherSuites = "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256";
constexpr const char* kGroups = "X25519:P-256";
// A client's own part of TLS 1.3 is done before the server has looked at it, and the server may let
// go of it still. So the first byte of a server says that the client is in, where both have chosen
// this by ALPN: one that did not know of it leaves it out.
constexpr std::array<unsigned char, 9> kProtocol{8, 'm', 'u', 's', 't', 'e', 'r', '/', '1'};
constexpr std::byte kLetIn{1};
// Several records of 16 KiB per system call, and no more: OpenSSL moves all that is left of it to
// the front before each record.
constexpr std::size_t kReadBuffer = 64 * 1024;

// OpenSSL's own socket BIO writes in a way that kills the process when the peer has gone (SIGPIPE).
int send_without_signal(BIO* bio, const char* data, int size) {
  const auto socket = static_cast<int>(reinterpret_cast<std::intptr_t>(BIO_get_data(bio)));
  BIO_clear_retry_flags(bio);
  const auto count = ::send(socket, data, static_cast<std::size_t>(size), MSG_NOSIGNAL);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_retry_write(bio);
  return static_cast<int>(count);
}

long control_output(BIO*, int command, long, void*) {
  return command == BIO_CTRL_FLUSH ? 1 : 0;  // nothing is kept here
}

BioMethod create_output_method() {
  BioMethod method(BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "muster output"));
  if (method) {
    BIO_meth_set_write(method.get(), send_without_signal);
    BIO_meth_set_ctrl(method.get(), control_output);
  }
  return method;
}

struct Expected {
  X509* certificate;
  const Clock* clock;
};

bool has_expired(X509& certificate, const Clock& clock) {
  std::time_t now =
      std::chrono::duration_cast<std::chrono::seconds>(clock.wall().time_since_epoch()).count();
  return X509_cmp_time(X509_get0_notAfter(&certificate), &now) <= 0;
}

// Instead of a chain of authorities: the peer must show the job's certificate itself, before it has
// expired. When it begins is not looked at: a clock behind the launcher's is no stranger's sign.
int verify_peer(X509_STORE_CTX* store, void* argument) {
  const auto& expected = *static_cast<const Expected*>(argument);
  X509* shown = X509_STORE_CTX_get0_cert(store);
  if (shown == nullptr || X509_cmp(shown, expected.certificate) != 0) {
    X509_STORE_CTX_set_error(store, X509_V_ERR_CERT_REJECTED);
    return 0;
  }
  if (has_expired(*shown, *expected.clock)) {
    X509_STORE_CTX_set_error(store, X509_V_ERR_CERT_HAS_EXPIRED);
    return 0;
  }
  return 1;
}

int choose_protocol(SSL*, const unsigned char** chosen, unsigned char* length,
                    const unsigned char* offered, unsigned int offered_length, void*) {
  auto** const into = const_cast<unsigned char**>(chosen);
  const int outcome = SSL_select_next_proto(into, length, kProtocol.data(), kProtocol.size(),
                                            offered, offered_length);
  return outcome == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_NOACK;
}

class TlsStream : public ByteStream {
 public:
  // `output` is the head of the write chain that `ssl` owns. The context outlives the stream.
  TlsStream(std::shared_ptr<void> context, Ssl ssl, BIO* output, const Clock& clock)
      : context_(std::move(context)), ssl_(std::move(ssl)), output_(output), clock_(clock) {}

  IoResult handshake() override {
    ERR_clear_error();
    const int result = SSL_do_handshake(ssl_.get());
    if (result != 1) return outcome(result);
    // By the job's key there was no certificate to look at, which is not why something fails later.
    if (SSL_session_reused(ssl_.get()) == 1) SSL_set_verify_result(ssl_.get(), X509_V_OK);
    if (!have_chosen_protocol()) return {Io::kDone};
    return SSL_is_server(ssl_.get()) == 1 ? let_in() : wait_until_let_in();
  }

  IoResult read(std::span<std::byte> into) override {
    ERR_clear_error();
    std::size_t count = 0;
    const int result = SSL_read_ex(ssl_.get(), into.data(), into.size(), &count);
    return result == 1 ? IoResult{Io::kDone, count} : outcome(result);
  }

  IoResult write(std::span<const std::byte> from) override {
    ERR_clear_error();
    std::size_t count = 0;
    const int result = SSL_write_ex(ssl_.get(), from.data(), from.size(), &count);
    return result == 1 ? IoResult{Io::kDone, count} : outcome(result);
  }

  IoResult flush() override {
    ERR_clear_error();
    errno = 0;
    if (BIO_flush(output_) > 0) return {Io::kDone};
    if (BIO_should_retry(output_)) return {Io::kWantWrite};
    return {Io::kFailed, 0, errno != 0 ? std::strerror(errno) : take_openssl_error()};
  }

  void say_goodbye() noexcept override {
    if (SSL_is_init_finished(ssl_.get()) == 0) return;
    ERR_clear_error();
    if (SSL_shutdown(ssl_.get()) >= 0) (void)BIO_flush(output_);
    ERR_clear_error();
  }

 private:
  bool have_chosen_protocol() const {
    const unsigned char* chosen = nullptr;
    unsigned int length = 0;
    SSL_get0_alpn_selected(ssl_.get(), &chosen, &length);
    return length > 0;
  }

  IoResult let_in() {
    if (!has_let_in_) {
      const IoResult written = write(std::span(&kLetIn, 1));
      if (written.state != Io::kDone) return written;
      has_let_in_ = true;
    }
    return flush();
  }

  IoResult wait_until_let_in() {
    std::byte said{};
    IoResult result = read(std::span(&said, 1));
    if (result.state != Io::kDone || said == kLetIn) return result;
    return {Io::kFailed, 0, "it does not say that it lets this one in", true};
  }

  IoResult outcome(int result) {
    const int system_error = errno;
    switch (SSL_get_error(ssl_.get(), result)) {
      case SSL_ERROR_WANT_READ:
        return {Io::kWantRead};
      case SSL_ERROR_WANT_WRITE:
        return {Io::kWantWrite};
      case SSL_ERROR_ZERO_RETURN:
        return {Io::kClosed};
      case SSL_ERROR_SYSCALL:
        if (system_error == 0) return {Io::kClosed};
        return {Io::kFailed, 0, std::strerror(system_error)};
      default:
        return {Io::kFailed, 0, reason(), true};
    }
  }

  std::string reason() {
    const auto verified = SSL_get_verify_result(ssl_.get());
    const auto said = ERR_GET_REASON(ERR_peek_error());
    if (verified == X509_V_OK && said == SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED) {
      ERR_clear_error();
      return "by the clock of its host the job's certificate has expired; set that clock right";
    }
    if (verified == X509_V_OK) return take_openssl_error();
    ERR_clear_error();
    if (verified != X509_V_ERR_CERT_HAS_EXPIRED) return X509_verify_cert_error_string(verified);
    return fmt::format(
        "the job's certificate has expired by this host's clock, which says {}; set the clock "
        "right, or begin the job anew where it has run for a year",
        format_utc(clock_.wall()));
  }

  std::shared_ptr<void> context_;
  Ssl ssl_;
  BIO* output_;
  const Clock& clock_;
  bool has_let_in_ = false;  // said so, if not flushed
};

class OpenSslContext : public TlsContext, public std::enable_shared_from_this<OpenSslContext> {
 public:
  OpenSslContext(SslContext context, Certificate certificate, std::size_t write_buffer,
                 const Clock& clock, const SharedKey& key)
      : certificate_(std::move(certificate)),
        expected_{certificate_.get(), &clock},
        proof_(key, [this] { return !has_expired(*certificate_, *expected_.clock); }),
        context_(std::move(context)),
        write_buffer_(write_buffer) {}

  Status prepare() {
    SSL_CTX_set_verify(context_.get(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
    SSL_CTX_set_cert_verify_callback(context_.get(), verify_peer, &expected_);
    return proof_.use_in(*context_);
  }

  Result<std::unique_ptr<ByteStream>> create_stream(int socket, Side side) override {
    Ssl ssl(SSL_new(context_.get()));
    Bio input(BIO_new_socket(socket, BIO_NOCLOSE));
    Bio output(BIO_new(output_method_.get()));
    Bio buffer(BIO_new(BIO_f_buffer()));
    if (!ssl || !output_method_ || !input || !output || !buffer ||
        BIO_set_write_buffer_size(buffer.get(), static_cast<long>(write_buffer_)) != 1)
      return fail(ErrorCode::kInternal,
                  fmt::format("[net/tls] no new stream: {}", take_openssl_error()));
    BIO_set_data(output.get(), reinterpret_cast<void*>(static_cast<std::intptr_t>(socket)));
    BIO_set_init(output.get(), 1);
    BIO* head = BIO_push(buffer.release(), output.release());
    SSL_set_bio(ssl.get(), input.release(), head);
    side == Side::kServer ? SSL_set_accept_state(ssl.get()) : SSL_set_connect_state(ssl.get());
    return std::unique_ptr<ByteStream>(
        std::make_unique<TlsStream>(shared_from_this(), std::move(ssl), head, *expected_.clock));
  }

 private:
  BioMethod output_method_ = create_output_method();
  Certificate certificate_;
  Expected expected_;
  SharedKeyProof proof_;
  SslContext context_;
  std::size_t write_buffer_;
};

Bio reading(const std::string& text) {
  return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

bool configure(SSL_CTX& context, X509& certificate, EVP_PKEY& key) {
  SSL_CTX_set_options(&context,
                      SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION | SSL_OP_IGNORE_UNEXPECTED_EOF);
  SSL_CTX_set_mode(&context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                 SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_session_cache_mode(&context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_read_ahead(&context, 1);
  SSL_CTX_set_alpn_select_cb(&context, choose_protocol, nullptr);
  SSL_CTX_set_default_read_buffer_len(&context, kReadBuffer);
  return SSL_CTX_set_min_proto_version(&context, TLS1_3_VERSION) == 1 &&
         SSL_CTX_set_num_tickets(&context, 0) == 1 &&
         SSL_CTX_set_alpn_protos(&context, kProtocol.data(), kProtocol.size()) == 0 &&
         SSL_CTX_set_ciphersuites(&context, kCipherSuites) == 1 &&
         SSL_CTX_set1_groups_list(&context, kGroups) == 1 &&
         SSL_CTX_use_certificate(&context, &certificate) == 1 &&
         SSL_CTX_use_PrivateKey(&context, &key) == 1;
}

}  // namespace

Result<std::shared_ptr<TlsContext>> create_tls_context(const Credentials& credentials,
                                                       std::size_t write_buffer,
                                                       const Clock& clock) {
  SslContext context(SSL_CTX_new(TLS_method()));
  Certificate certificate(
      PEM_read_bio_X509(reading(credentials.certificate_pem()).get(), nullptr, nullptr, nullptr));
  const Key key(PEM_read_bio_PrivateKey(reading(credentials.private_key_pem()).get(), nullptr,
                                        nullptr, nullptr));
  if (!context || !certificate || !key || !configure(*context, *certificate, *key))
    return fail(ErrorCode::kInternal,
                fmt::format("[net/tls] OpenSSL refuses the job's certificate or the settings: {}",
                            take_openssl_error()));
  MUSTER_ASSIGN(const SharedKey shared, derive_shared_key(credentials));
  auto made = std::make_shared<OpenSslContext>(std::move(context), std::move(certificate),
                                               write_buffer, clock, shared);
  MUSTER_TRY(made->prepare());
  return std::shared_ptr<TlsContext>(std::move(made));
}

}  // namespace muster::net
