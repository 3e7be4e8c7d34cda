#pragma once
// The job's secret as a pre-shared key of TLS 1.3 with a key exchange (RFC 8446, section 4.2.11,
// psk_dhe_ke). Whoever holds the job's certificate and key derives the same one (HKDF-SHA256, RFC
// 5869), so that a handshake proves with it what it proves by the certificate: that both sides are
// of the job. It neither signs nor verifies anything, nor sends certificates: 2.7 times less of a
// processor's time. Who does not offer or know it is asked for the certificate, as before.

#include <openssl/ssl.h>

#include <array>
#include <functional>

#include "muster/base/result.h"
#include "muster/net/credentials.h"
#include "muster/net/openssl_handle.h"

namespace muster::net {

struct SharedKey {
  std::array<unsigned char, 16> identity{};  // goes over the wire, and tells nothing of the secret
  std::array<unsigned char, 32> secret{};
};

Result<SharedKey> derive_shared_key(const Credentials& credentials);

// What has handshakes use it. Threads: those of the handshakes, at once.
class SharedKeyProof {
 public:
  // `may`: whether it may be used now; if not, certificates tell why.
  SharedKeyProof(const SharedKey& key, std::function<bool()> may)
      : key_(key), may_(std::move(may)) {}
  SharedKeyProof(const SharedKeyProof&) = delete;
  SharedKeyProof& operator=(const SharedKeyProof&) = delete;

  // For all streams of a context, as client and server, which this outlives. Once.
  Status use_in(SSL_CTX& context);

 private:
  static const SharedKeyProof& of(SSL& ssl);
  static int offer(SSL* ssl, const EVP_MD* digest, const unsigned char** identity,
                   std::size_t* length, SSL_SESSION** session);
  static int find(SSL* ssl, const unsigned char* identity, std::size_t length,
                  SSL_SESSION** session);
  SSL_SESSION* create_session(SSL& ssl) const;  // null: there is no memory

  const SharedKey key_;
  const std::function<bool()> may_;
};

}  // namespace muster::net
