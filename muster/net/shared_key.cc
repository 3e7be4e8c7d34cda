#include "muster/net/shared_key.h"

#include <openssl/core_names.h>
#include <openssl/kdf.h>

#include <algorithm>
#include <span>
#include <string>

#include "muster/net/openssl_text.h"

namespace muster::net {
namespace {

using Kdf = std::unique_ptr<EVP_KDF, Free<EVP_KDF_free>>;
using KdfContext = std::unique_ptr<EVP_KDF_CTX, Free<EVP_KDF_CTX_free>>;

constexpr const char* kDigest = "SHA256";                             // of both cipher suites
constexpr std::array<unsigned char, 2> kAes128GcmSha256{0x13, 0x01};  // RFC 8446, appendix B.4
// OpenSSL takes up no session, and so no key, without one where it asks for certificates as well.
constexpr std::array<unsigned char, 8> kContextId{'m', 'u', 's', 't', 'e', 'r', '/', '1'};

OSSL_PARAM text_of(const char* name, const std::string& text) {
  return OSSL_PARAM_construct_octet_string(name, const_cast<char*>(text.data()), text.size());
}

Status derive(const Credentials& credentials, const std::string& info,
              std::span<unsigned char> into) {
  const Kdf hkdf(EVP_KDF_fetch(nullptr, "HKDF", nullptr));
  const KdfContext context(hkdf ? EVP_KDF_CTX_new(hkdf.get()) : nullptr);
  const std::array parameters{
      OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, const_cast<char*>(kDigest), 0),
      text_of(OSSL_KDF_PARAM_KEY, credentials.private_key_pem()),
      text_of(OSSL_KDF_PARAM_SALT, credentials.certificate_pem()),
      text_of(OSSL_KDF_PARAM_INFO, info), OSSL_PARAM_construct_end()};
  if (!context || EVP_KDF_derive(context.get(), into.data(), into.size(), parameters.data()) != 1)
    return openssl_failed("net/tls", "HKDF");
  return ok();
}

}  // namespace

Result<SharedKey> derive_shared_key(const Credentials& credentials) {
  SharedKey key;
  MUSTER_TRY(derive(credentials, "muster/1 identity", key.identity));
  MUSTER_TRY(derive(credentials, "muster/1 key", key.secret));
  return key;
}

Status SharedKeyProof::use_in(SSL_CTX& context) {
  if (SSL_CTX_set_session_id_context(&context, kContextId.data(), kContextId.size()) != 1 ||
      SSL_CTX_set_app_data(&context, this) != 1)
    return openssl_failed("net/tls", "a pre-shared key");
  SSL_CTX_set_psk_use_session_callback(&context, offer);
  SSL_CTX_set_psk_find_session_callback(&context, find);
  return ok();
}

// A new one for each handshake: OpenSSL takes none up that is older than some minutes.
SSL_SESSION* SharedKeyProof::create_session(SSL& ssl) const {
  std::unique_ptr<SSL_SESSION, Free<SSL_SESSION_free>> session(SSL_SESSION_new());
  const SSL_CIPHER* cipher = SSL_CIPHER_find(&ssl, kAes128GcmSha256.data());
  if (!session || cipher == nullptr ||
      SSL_SESSION_set1_master_key(session.get(), key_.secret.data(), key_.secret.size()) != 1 ||
      SSL_SESSION_set_cipher(session.get(), cipher) != 1 ||
      SSL_SESSION_set_protocol_version(session.get(), TLS1_3_VERSION) != 1 ||
      SSL_SESSION_set1_id_context(session.get(), kContextId.data(), kContextId.size()) != 1)
    return nullptr;
  return session.release();
}

const SharedKeyProof& SharedKeyProof::of(SSL& ssl) {
  return *static_cast<const SharedKeyProof*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(&ssl)));
}

// 1 without a session: the handshake goes on with certificates.
int SharedKeyProof::offer(SSL* ssl, const EVP_MD* digest, const unsigned char** identity,
                          std::size_t* length, SSL_SESSION** session) {
  const SharedKeyProof& own = of(*ssl);
  *session = nullptr;
  if (!own.may_() || (digest != nullptr && EVP_MD_is_a(digest, kDigest) != 1)) return 1;
  *identity = own.key_.identity.data();
  *length = own.key_.identity.size();
  *session = own.create_session(*ssl);
  return *session != nullptr ? 1 : 0;
}

int SharedKeyProof::find(SSL* ssl, const unsigned char* identity, std::size_t length,
                         SSL_SESSION** session) {
  const SharedKeyProof& own = of(*ssl);
  *session = nullptr;
  if (!own.may_() || !std::ranges::equal(std::span(identity, length), own.key_.identity)) return 1;
  *session = own.create_session(*ssl);
  return *session != nullptr ? 1 : 0;
}

}  // namespace muster::net
