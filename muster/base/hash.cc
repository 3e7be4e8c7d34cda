#include "muster/base/hash.h"

#include <openssl/evp.h>

#include "muster/base/check.h"

namespace muster {

struct Sha256::State {
  struct Free {
    void operator()(EVP_MD_CTX* made) const { EVP_MD_CTX_free(made); }
  };
  std::unique_ptr<EVP_MD_CTX, Free> context{EVP_MD_CTX_new()};

  void start() {
    MUSTER_CHECK(context && EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) == 1,
                 "OpenSSL offers no SHA-256");
  }
};

Sha256::Sha256() : state_(std::make_unique<State>()) { state_->start(); }
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::update(std::span<const std::byte> bytes) {
  MUSTER_CHECK(EVP_DigestUpdate(state_->context.get(), bytes.data(), bytes.size()) == 1,
               "OpenSSL failed to hash");
}

Digest Sha256::finish() {
  Digest digest;
  auto* into = reinterpret_cast<unsigned char*>(digest.data());
  MUSTER_CHECK(EVP_DigestFinal_ex(state_->context.get(), into, nullptr) == 1,
               "OpenSSL failed to hash");
  state_->start();
  return digest;
}

Digest sha256(std::span<const std::byte> bytes) {
  Sha256 hash;
  hash.update(bytes);
  return hash.finish();
}

std::string to_hex(std::span<const std::byte> bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(2 * bytes.size());
  for (const std::byte byte : bytes) {
    text += kDigits[std::to_integer<unsigned>(byte) >> 4];
    text += kDigits[std::to_integer<unsigned>(byte) & 15];
  }
  return text;
}

}  // namespace muster
