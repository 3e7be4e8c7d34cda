#include "muster/net/credentials.h"

#include <fmt/format.h>
#include <openssl/pem.h>
#include <openssl/rand.h>

#include "muster/base/hash.h"
#include "muster/net/openssl_handle.h"
#include "muster/net/openssl_text.h"

namespace muster::net {
namespace {

Error openssl_error(std::string_view what) { return openssl_failed("net/credentials", what); }

std::string text_of(BIO& bio) {
  char* data = nullptr;
  const auto length = BIO_get_mem_data(&bio, &data);
  return std::string(data, static_cast<std::size_t>(length));
}

Bio reading(std::string_view text) {
  return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

std::time_t seconds_of(WallTime time) {
  return std::chrono::duration_cast<std::chrono::seconds>(time.time_since_epoch()).count();
}

bool set_random_serial(X509& certificate) {
  std::uint64_t serial = 0;
  if (RAND_bytes(reinterpret_cast<unsigned char*>(&serial), sizeof serial) != 1) return false;
  return ASN1_INTEGER_set_uint64(X509_get_serialNumber(&certificate), serial >> 1) == 1;
}

bool set_name(X509& certificate) {
  X509_NAME* name = X509_get_subject_name(&certificate);
  const auto* text = reinterpret_cast<const unsigned char*>("muster job");
  return X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, text, -1, -1, 0) == 1 &&
         X509_set_issuer_name(&certificate, name) == 1;
}

bool self_sign(X509& certificate, EVP_PKEY& key, WallTime from, WallTime until) {
  return X509_set_version(&certificate, X509_VERSION_3) == 1 && set_random_serial(certificate) &&
         ASN1_TIME_set(X509_getm_notBefore(&certificate), seconds_of(from)) != nullptr &&
         ASN1_TIME_set(X509_getm_notAfter(&certificate), seconds_of(until)) != nullptr &&
         set_name(certificate) && X509_set_pubkey(&certificate, &key) == 1 &&
         X509_sign(&certificate, &key, EVP_sha256()) > 0;
}

Result<std::uint64_t> job_of(X509& certificate) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  if (X509_digest(&certificate, EVP_sha256(), digest.data(), &size) != 1)
    return openssl_error("X509_digest");
  std::uint64_t job = 0;
  for (int i = 0; i < 8; ++i) job = job << 8 | digest[static_cast<std::size_t>(i)];
  return job;
}

std::string encode(const std::string& bytes) {
  std::string text(4 * ((bytes.size() + 2) / 3) + 1, '\0');
  const int length = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                                     reinterpret_cast<const unsigned char*>(bytes.data()),
                                     static_cast<int>(bytes.size()));
  text.resize(static_cast<std::size_t>(length));
  return text;
}

constexpr std::string_view kKeyBegin = "-----BEGIN PRIVATE KEY-----";
constexpr WallTime kAlways{};  // 1970: before any clock's time

}  // namespace

Result<Credentials> create_credentials(WallTime now, Duration lifetime) {
  const Key key(EVP_EC_gen("P-256"));
  if (!key) return openssl_error("EVP_EC_gen");
  const Certificate certificate(X509_new());
  if (!certificate) return openssl_error("X509_new");
  if (!self_sign(*certificate, *key, kAlways, now + lifetime))
    return openssl_error("signing the certificate");
  const Bio certificate_text(BIO_new(BIO_s_mem()));
  const Bio key_text(BIO_new(BIO_s_mem()));
  if (PEM_write_bio_X509(certificate_text.get(), certificate.get()) != 1 ||
      PEM_write_bio_PrivateKey(key_text.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr) !=
          1)
    return openssl_error("writing PEM");
  return parse_credentials(text_of(*certificate_text), text_of(*key_text));
}

Result<Credentials> parse_credentials(std::string certificate_pem, std::string private_key_pem) {
  const Certificate certificate(
      PEM_read_bio_X509(reading(certificate_pem).get(), nullptr, nullptr, nullptr));
  const Key key(PEM_read_bio_PrivateKey(reading(private_key_pem).get(), nullptr, nullptr, nullptr));
  if (!certificate || !key || X509_check_private_key(certificate.get(), key.get()) != 1)
    return fail(ErrorCode::kInvalid,
                fmt::format("[net/credentials] these are no certificate and key that belong "
                            "together: {}; they must come from the launcher of this job",
                            take_openssl_error()));
  MUSTER_ASSIGN(const auto job, job_of(*certificate));
  return Credentials(std::move(certificate_pem), std::move(private_key_pem), job);
}

std::string to_text(const Credentials& credentials) {
  return encode(credentials.certificate_pem() + credentials.private_key_pem());
}

Result<Credentials> credentials_from_text(std::string_view text) {
  constexpr std::size_t kLongest = 64 * 1024;
  std::string both(text.size() + 1, '\0');
  const int length = text.size() > kLongest
                         ? -1
                         : EVP_DecodeBlock(reinterpret_cast<unsigned char*>(both.data()),
                                           reinterpret_cast<const unsigned char*>(text.data()),
                                           static_cast<int>(text.size()));
  both.resize(length < 0 ? 0 : static_cast<std::size_t>(length));
  while (both.ends_with('\0')) both.pop_back();  // the decoder leaves the padding as zeros
  const auto key_at = both.find(kKeyBegin);
  const bool one_key =
      key_at != std::string::npos && both.find(kKeyBegin, key_at + 1) == std::string::npos;
  if (!one_key || encode(both) != text)
    return fail(ErrorCode::kInvalid,
                fmt::format("[net/credentials] {} does not hold credentials; it must come "
                            "unchanged from the launcher of this job",
                            kCredentialsVariable));
  return parse_credentials(both.substr(0, key_at), both.substr(key_at));
}

}  // namespace muster::net
